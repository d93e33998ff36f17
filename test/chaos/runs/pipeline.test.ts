// The input pipeline on real threads: it changes no bit under any fault, and a run raises an alert
// if devices wait for readers.

import test from "ava";
import type { JobOptions, RunEvent } from "../../../index.ts";
import { only, runJob, smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import {
  calmRun,
  startCluster,
  startingWith,
  startOnThreads,
} from "../../helpers/clusters/either-clusters.ts";
import { startVirtualCluster } from "../../helpers/clusters/virtual-clusters.ts";
import { isTestAll, someOrAll } from "../../helpers/thinned.ts";

// `npm test` tries each depth and each number of devices once; `npm run test:all` all pairs.
for (const [depth, some] of [
  [1, [3]],
  [2, [2]],
  [3, [1]],
] as const) {
  test.serial(
    `one to three devices, killed and cancelled in mid-run, at depth ${depth}: one model`,
    async (t) => {
      const calm = await calmRun();
      await using place = await startCluster(3);
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

/** A run on one device with slow readers: each batch takes 0.1 s. */
async function runSlowly(): Promise<readonly RunEvent[]> {
  const isReader = (actor: string) => actor.startsWith("reader:");
  const slow = new URL("../../helpers/processes/slow-reader-entry.js", import.meta.url);
  await using place = isTestAll
    ? await startOnThreads(1, startingWith(slow, "reader:"))
    : startVirtualCluster(1, { storeMsOf: (actor) => (isReader(actor) ? 100 : 0) });
  const { cache } = place.job().data;
  const { checkpoint } = place.job();
  const directory = checkpoint?.directory ?? "";
  const job = { model: smallModel, data: { ...smallData, cache }, checkpoint: { directory } };
  return (await runJob(place, job as JobOptions)).events;
}

test.serial(
  "a run whose devices wait for readers raises one alert with the needed number of readers",
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
    t.true(times.length > 0 && times.every((one) => (one?.shares.batch ?? 0) > 0.5));
    const [finished] = only(events, "run.finished");
    t.true((finished?.result.times?.shares.batch ?? 0) > 0.5);
    const measured = finished?.result.times?.steps ?? 0; // Until the last heartbeat.
    t.true(measured > 30 && measured <= (finished?.result.step ?? 0), `${measured}`);
  },
);
