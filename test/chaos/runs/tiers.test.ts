// Tables in tiers below device memory, on real threads: under any placement and after any kill, the
// model is the same as with tables in memory, and no file is left on the disk.

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import type { JobOptions } from "../../../index.ts";
import { only, runJob, smallModel } from "../../helpers/clusters/clusters.ts";
import { calmRun, startCluster } from "../../helpers/clusters/either-clusters.ts";
import { rocksDb, testAll, testIf } from "../../helpers/needs.ts";

const tables = smallModel.tables ?? [];
const model: JobOptions["model"] = {
  ...smallModel,
  tables: tables.map((table, i) => ({ ...table, tier: i === 0 ? "memory" : "cached" })),
};

/** Caches of one set for each table of 200 rows: most rows are on the disk at any time. */
const small = { hbmBytes: 1, ddrBytes: 1, ssd: "file" } as const;

for (const ssd of ["file", "rocksdb"] as const) {
  // RocksDB does its work on other threads, so it cannot run in virtual time.
  testIf(...(ssd === "file" ? [] : [testAll, rocksDb])).serial(
    `a run with rows in ${ssd} trains the same bits as one in memory`,
    async (t) => {
      const calm = await calmRun();
      await using place = await startCluster(2);
      const directories: string[] = [];
      for (const [devices, prefetch] of [
        [1, 0],
        [2, 1],
        [2, 3],
      ] as const) {
        const job = place.job({ model, devices, tiers: { ...small, ssd, prefetch } });
        const { result } = await runJob(place, job);
        t.is(result.status, "finished");
        t.is(result.digest, calm.digest, `${devices} devices, ${prefetch} ahead`);
        t.deepEqual(result.history.at(-1)?.evaluation, calm.history.at(-1)?.evaluation);
        directories.push(directoryOf(job));
      }
      await place.cluster.close();
      for (const directory of directories) t.deepEqual(readdirSync(join(directory, "tiers")), []);
    },
  );
}

test.serial("a lost tier, or its device, costs a restore and changes no bit", async (t) => {
  await using place = await startCluster(2);
  const job = place.job({ model, tiers: { ...small, prefetch: 0 } });
  place.threads.plan([
    { actor: "tier:1", generation: 1, step: 17, point: 0, effect: "exit" },
    { actor: "device:0", generation: 2, step: 23, point: 9, effect: "exit" },
    { actor: "tier:0", generation: 3, step: 31, point: 0, effect: "exit" },
  ]);
  const { result, events } = await runJob(place, job);
  t.is(result.digest, (await calmRun()).digest);
  t.is(result.generation, 4);
  t.deepEqual(result.stores, ["file"]);
  const causes = only(events, "run.incident").map(({ offender }) => offender);
  t.deepEqual(causes, ["tier:1", "device:0", "tier:0"]);
  await place.cluster.close();
  t.deepEqual(readdirSync(join(directoryOf(job), "tiers")), []);
});

test.serial("a run with tables in tiers resumes in memory, and vice versa", async (t) => {
  await using place = await startCluster(2);
  const directory = join(directoryOf(place.job()), "same");
  const checkpoint = { directory };
  const below = place.job({ model, tiers: small, checkpoint });
  await runJob(place, below, (event, run) =>
    event.type === "run.checkpointed" && event.step === 20 ? run.cancel() : undefined,
  );
  const { result } = await runJob(place, place.job({ checkpoint }));
  t.is(result.digest, (await calmRun()).digest);
  t.false(existsSync(join(directory, "tiers")) && readdirSync(join(directory, "tiers")).length > 0);
});

function directoryOf({ checkpoint }: JobOptions): string {
  return checkpoint?.directory ?? "";
}
