// The pipeline on real threads: it changes no bit under any fault, and a run reports when it has
// fallen serial.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { Cluster, type RunEvent } from "../../../index.ts";
import { type Launcher, workerLauncher } from "../../../src/ports/launcher.ts";
import {
  calmResult,
  only,
  runJob,
  smallData,
  smallModel,
  startTestCluster,
} from "../../helpers/clusters/clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { someOrAll } from "../../helpers/thinned.ts";

// Each depth and each number of devices comes once or twice; all pairs in `npm run test:all`.
for (const [depth, some] of [
  [1, [3]],
  [2, [2, 3]],
  [3, [1, 2]],
] as const) {
  testIf(testAll).serial(
    `three devices and fewer, killed and cancelled on the way, at depth ${depth}: one model`,
    async (t) => {
      const calm = await calmResult();
      await using place = await startTestCluster(3);
      for (const devices of someOrAll(`devices at depth ${depth}`, some, [1, 2, 3])) {
        const job = place.job({ devices, pipeline: { depth } });
        const actor = `device:${devices - 1}`;
        place.threads.plan([{ actor, generation: 1, step: 17, point: 6, effect: "exit" }]);
        const { result: cancelled } = await runJob(place, job, (event, run) =>
          event.type === "run.checkpointed" && event.step === 20 ? run.cancel() : undefined,
        );
        t.true(cancelled.generation >= 2, `${devices} devices`);
        const { result } = await runJob(place, job);
        t.is(result.status, "finished");
        t.is(result.digest, calm.digest);
        t.deepEqual(result.history.at(-1)?.evaluation, calm.history.at(-1)?.evaluation);
      }
    },
  );
}

/** A cluster of one device with slow readers. */
async function runSlowly(): Promise<readonly RunEvent[]> {
  const directory = mkdtempSync(join(tmpdir(), "osiris-test-"));
  const slow = new URL("../../helpers/processes/slow-reader-entry.js", import.meta.url);
  const launcher: Launcher = {
    start: (entry, data, name) =>
      workerLauncher.start(name.startsWith("reader-") ? slow : entry, data, name),
  };
  try {
    await using cluster = await Cluster.start({ devices: 1, launcher });
    const run = await cluster.submit({
      model: smallModel,
      data: { ...smallData, cache: join(directory, "cache") },
      checkpoint: { directory: join(directory, "run") },
    });
    const events: RunEvent[] = [];
    for await (const event of run.events()) events.push(event);
    return events;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

test.serial(
  "a run whose devices wait for readers says so once, and how many it wants",
  async (t) => {
    const events = await runSlowly();
    const [alert, ...others] = only(events, "run.alert");
    t.is(others.length, 0);
    t.like(alert, { code: "PIPELINE_SERIAL", generation: 1 });
    t.regex(
      alert?.message ?? "",
      /^Devices of host 0 waited for batches in \d+ % of \d s: a reader takes \d+ ms for a batch, .*; set `readers: 1\d` instead of 1$/,
    );
    t.true((alert?.times?.shares.batch ?? 0) > 0.5);
    const times = only(events, "run.progress").map((event) => event.times);
    t.true(times.every((one) => (one?.shares.batch ?? 0) > 0.5));
    const [finished] = only(events, "run.finished");
    t.true((finished?.result.times?.shares.batch ?? 0) > 0.5);
    const measured = finished?.result.times?.steps ?? 0; // Up to the last heartbeat.
    t.true(measured > 30 && measured <= (finished?.result.step ?? 0), `${measured}`);
  },
);
