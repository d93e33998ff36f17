// Ids outside a table: the counts of clamped and hashed ids of a run are right under faults.

import { copyFileSync } from "node:fs";
import test from "ava";
import type { JobOptions, TableOptions } from "../../../index.ts";
import { openCache } from "../../../src/data/cache/cache-reader.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { splitDataset } from "../../../src/data/split.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { readPlain } from "../../data/data-files.ts";
import { only, runJob } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { isTestAll, someOrAll } from "../../helpers/thinned.ts";

const epochs = 2;

/**
 * A job on data made for larger tables than its own, as after a table was shrunk; and the number of
 * ids of its steps outside the tables, counted by the test.
 */
async function jobOf(place: EitherCluster, tables: readonly Partial<TableOptions>[]) {
  const job: JobOptions = place.job({ data: { epochs } as never, seed: 4 });
  const model = {
    ...job.model,
    tables: job.model.tables?.map((table, i) => ({ ...table, ...tables[i] })),
  };
  const { data, model: own } = resolveJob({ ...job, model });
  const larger = own.tables.map((table) => ({ ...table, rows: 200 }));
  const made = await prepareCache(data, larger, realDisk);
  const { path } = await prepareCache(data, own.tables, realDisk);
  copyFileSync(made.path, path);
  const dataset = splitDataset(openCache(path, realDisk), {
    seed: 4,
    fraction: 0.1,
    part: "train",
  });
  const bags = readPlain(dataset).map((sample) => sample.bags);
  dataset.close();
  const expected = own.tables.flatMap(({ name, rows }, i) => {
    const ids = epochs * bags.flatMap((bag) => bag[i] ?? []).filter((id) => id >= rows).length;
    return ids > 0 ? [{ table: name, ids }] : [];
  });
  return { job: { ...job, model }, expected };
}

const tables = [
  { rows: 150, ids: "clamp" as const },
  { rows: 200 },
  { rows: 90, ids: "hash" as const, sharding: "data-parallel" as const },
];

test.serial(
  "repaired ids are counted by table, with the same counts on any devices and after kills",
  async (t) => {
    for (const devices of someOrAll("devices of repaired ids", [1, 3], [1, 2, 3])) {
      await using place = await startCluster(devices);
      const { job, expected } = await jobOf(place, tables);
      t.deepEqual(
        expected.map(({ table }) => table),
        ["a", "c"],
      );
      if (devices > 1) {
        // Between two checkpoints, and at the first step after a restore.
        place.threads.plan([
          { actor: "device:1", generation: 1, step: 37, point: 5, effect: "exit" },
          { actor: "device:0", generation: 2, step: 30, point: 3, effect: "exit" },
        ]);
      }
      const { result, events } = await runJob(place, job);
      t.is(result.generation, devices > 1 ? 3 : 1);
      t.deepEqual(result.repairedIds, expected, `${devices} devices`);
      const counted = only(events, "run.progress").at(-1)?.repairedIds ?? [];
      // The run on one device ends before it reports progress; runs on real threads may, too.
      if (devices > 1 && !isTestAll) t.true(counted.length > 0);
      for (const { table, ids } of counted) {
        const all = expected.find((one) => one.table === table)?.ids ?? 0;
        t.true(ids > 0 && ids <= all, `${ids} of ${all} in table ${table}`);
      }
      // A finished run reports the same when it is submitted again.
      t.deepEqual((await runJob(place, job)).result.repairedIds, expected);
    }
  },
);

test.serial("a run whose ids are all inside its tables has repaired none", async (t) => {
  await using place = await startCluster(1);
  const { job, expected } = await jobOf(place, [{ ids: "clamp" }, { ids: "hash" }, {}]);
  t.deepEqual(expected, []);
  t.deepEqual((await runJob(place, job)).result.repairedIds, []);
});
