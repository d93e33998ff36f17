// Runs whose samples are made by preprocessing workers: the model is the same as with readers that
// make the samples themselves, whichever worker makes a split, and whichever thread dies.

import { statSync, utimesSync } from "node:fs";
import type { ExecutionContext } from "ava";
import { type RunEvent, throwIn } from "../../../index.ts";
import { tableFilesOf } from "../../../src/data/files.ts";
import { RemoteError } from "../../../src/errors/errors.ts";
import { subjectPattern } from "../../../src/wire/messages/subjects.ts";
import { connectNats } from "../../../src/wire/transports/nats-transport.ts";
import { damageColumn } from "../../data/data-files.ts";
import {
  only,
  runJob,
  startTestCluster,
  type TestCluster,
} from "../../helpers/clusters/clusters.ts";
import { jobOnDays, streamedOutcome, writeDays } from "../../helpers/clusters/days.ts";
import { testAll, testIf } from "../../helpers/needs.ts";

const preprocessing = { workersMin: 2, workersMax: 2 };

testIf(testAll).serial(
  "a row group that is damaged before indexing is left out; damage later fails the run",
  async (t) => {
    const home = writeDays(t);
    const [first = "", second = ""] = tableFilesOf([home]);
    await damageColumn(first, 3, "user", 0);
    const damaged = { damagedMax: 5, rejectedMax: 0.5 };
    const cached = await streamedOutcome(1, home, { order: "split", ...damaged });
    await using place = await startTestCluster(2);
    const data = { streamed: true, ...damaged };
    const { result, events } = await runJob(place, jobOnDays(place, home, data, { preprocessing }));
    t.deepEqual({ digest: result.digest, history: result.history }, cached);
    const [kept, ...others] = only(events, "run.prepared")[0]?.quarantine ?? [];
    t.like(kept, { file: first, rowGroup: 3 });
    t.is(others.length, 0);

    const passes = 50;
    const run = await place.cluster.submit(
      jobOnDays(place, home, { ...data, passes }, { preprocessing }),
    );
    const { atime, mtime } = statSync(second);
    for await (const event of run.events()) {
      if (event.type !== "run.checkpointed" || event.step !== 10) continue;
      await damageColumn(second, 2, "user", 0);
      utimesSync(second, atime, mtime); // Like silent corruption of a disk.
    }
    const error = await t.throwsAsync(run.result(), { instanceOf: RemoteError });
    t.log(error?.message);
    t.regex(error?.message ?? "", /date=2026-11-02.*row group 2/);
  },
);

testIf(testAll).serial(
  "workers, master, readers and devices may end at any time; no split crosses the broker",
  async (t) => {
    const home = writeDays(t);
    await using place = await startTestCluster(2);
    const calm = await runJob(place, jobOnDays(place, home, { streamed: true }, { devices: 1 }));
    const seen = await watchSplits(t, place);
    const job = jobOnDays(place, home, { streamed: true }, { preprocessing, readers: 2 });
    const { result, events } = await runJob(place, job, async (event: RunEvent, { run }) => {
      if (event.type === "run.started") place.threads.kill("worker:0");
      if (event.type !== "run.checkpointed") return;
      if (event.step === 10) place.threads.kill("worker:1");
      if (event.step === 20) {
        const scope = { run, generation: event.generation };
        await throwIn(place.cluster, { role: "master", index: 0, scope }, "for a test");
      }
      if (event.step === 30) place.threads.kill("reader:1");
      if (event.step === 40) place.threads.kill("device:1");
      if (event.step === 50) place.threads.kill("worker:0");
    });
    t.is(result.digest, calm.result.digest);
    t.deepEqual(result.history, calm.result.history);
    const offenders = only(events, "run.incident").map(({ offender }) => offender);
    t.true(offenders.includes("master:0"), offenders.join());
    // Splits made by threads travel through shared memory.
    t.true(seen.want > 0 && seen.done > 0, "requests and reports cross the broker");
    t.is(seen.data, 0);
  },
);

/** Counts the messages about splits that cross the broker. */
async function watchSplits(t: ExecutionContext, place: TestCluster) {
  const { url, token, name: cluster } = place.cluster;
  const at = { servers: url, token, name: "spy", deadlineMs: 10_000 };
  const spy = await connectNats({ ...at, onError() {} });
  t.teardown(() => spy.close());
  const seen = { want: 0, done: 0, data: 0 };
  for (const action of ["want", "done", "data"] as const) {
    const subject = subjectPattern({ cluster, role: "splits", action });
    spy.subscribe(subject, () => void seen[action]++);
  }
  await spy.flush();
  return seen;
}
