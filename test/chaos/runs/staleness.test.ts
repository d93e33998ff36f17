// Stale tables in whole runs: the same bits and counts on any devices and after any kill; a
// cancelled and resumed run reads fresh rows in one more step, which counts as fresh.

import test from "ava";
import type { JobOptions } from "../../../index.ts";
import { runJob, smallSteps } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { someOrAll } from "../../helpers/thinned.ts";

/** A job with one stale row-wise table and one stale replicated table. */
function jobOf(place: EitherCluster, overrides: Partial<JobOptions> = {}): JobOptions {
  const job = place.job({ mode: "bounded", ...overrides });
  const own = [{ staleness: 1, sharding: "row-wise", rowBlocks: 4 }, {}, { staleness: 1 }] as const;
  const tables = job.model.tables?.map((table, i) => ({ ...table, ...own[i] }));
  return { ...job, model: { ...job.model, tables } };
}

test.serial(
  "stale tables: the same digest and counts on any devices, and after any kill",
  async (t) => {
    await using alone = await startCluster(1);
    const { result: calm } = await runJob(alone, jobOf(alone, { pipeline: { depth: 1 } }));
    const late = calm.staleness?.tables.map(({ table, rows }) => ({ table, isLate: rows > 0 }));
    t.deepEqual(late, [
      { table: "a", isLate: true },
      { table: "c", isLate: true },
    ]);
    t.is(calm.staleness?.freshSteps, 6); // Windows end at 10, 15, 20, 30, 40 and 43.
    for (const devices of someOrAll("devices of stale tables", [3], [2, 3])) {
      await using place = await startCluster(devices);
      place.threads.plan([
        { actor: "device:1", generation: 1, step: 37, point: 5, effect: "exit" },
        { actor: "device:0", generation: 2, step: 30, point: 3, effect: "exit" },
      ]);
      const { result } = await runJob(place, jobOf(place));
      t.is(result.generation, 3);
      t.is(result.digest, calm.digest, `${devices} devices`);
      t.deepEqual(result.staleness, calm.staleness);
    }
  },
);

test.serial("a cancelled and resumed run counts one more step with fresh rows", async (t) => {
  await using place = await startCluster();
  const job = jobOf(place);
  const hold = { actor: "device:0", generation: 1, step: 25, point: 2 } as const;
  place.threads.plan([{ ...hold, effect: "pause", pauseMs: 300 }]);
  const { result: cancelled } = await runJob(place, job, (event, run) =>
    event.type === "run.checkpointed" && event.step === 20 ? run.cancel() : undefined,
  );
  t.is(cancelled.status, "cancelled");
  const { result } = await runJob(place, job);
  t.is(result.step, smallSteps);
  const isAtCut = [20, 30, 40, smallSteps].includes(cancelled.step);
  t.is(result.staleness?.freshSteps, isAtCut ? 6 : 7, `${cancelled.step}`);
});
