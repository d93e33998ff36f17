// A table of 10⁹ rows costs only its touched rows: memory, disk, checkpoint and restore.

import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "ava";
import { csv } from "../../../index.ts";
import { inEpochs, only, runJob } from "../../helpers/clusters/clusters.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { leavesOut, rocksDb, testAll } from "../../helpers/needs.ts";

const rows = 1_000_000_000;
const samples = 2000;
/**
 * Sample ids: two of every three repeat; half are near the top of the table, the others anywhere.
 */
const ids = Array.from({ length: samples }, (_, i) => {
  const distinct = i % Math.ceil(samples / 3);
  return distinct % 2 === 0 ? rows - 1 - distinct : (distinct * 1_299_709) % rows;
});
const touched = new Set(ids).size;
const mib = 2 ** 20;

/** Disk bytes that all files below a directory take; holes of sparse files take none. */
function diskBytes(path: string): number {
  const found = statSync(path);
  if (!found.isDirectory()) return 512 * found.blocks;
  return readdirSync(path).reduce((sum, name) => sum + diskBytes(join(path, name)), 0);
}

test.serial("a table of 10⁹ rows costs nothing until used", async (t) => {
  await using place = await startCluster(1);
  const root = dirname(place.job().checkpoint?.directory ?? "");
  mkdirSync(root, { recursive: true });
  const path = join(root, "samples.csv");
  const lines = ids.map((id, i) => `${i % 3 === 0 ? 1 : 0},${i / samples},${id}`);
  writeFileSync(path, `label,price,user\n${lines.join("\n")}\n`);
  const digests: string[] = [];
  for (const ssd of ["file", "rocksdb"] as const) {
    // On every change, tier-store.test.ts covers both stores with few rows of many.
    if (ssd === "rocksdb" && (leavesOut(t, testAll) || leavesOut(t, rocksDb))) continue;
    const before = process.memoryUsage().rss;
    const directory = join(root, ssd);
    const { evaluation: _evaluation, ...common } = place.job({
      model: {
        kind: "dlrm",
        dense: 1,
        tables: [{ name: "user", rows, dim: 8, tier: "cached", keep: "durable" }],
        bottom: [8],
        top: [8, 1],
      },
      checkpoint: { everySteps: 16, directory },
      tiers: { hbmBytes: mib, ddrBytes: mib, ssd },
    });
    const columns = { label: "label", dense: ["price"] };
    const categorical = [{ column: "user", ids: "integer" as const }];
    const data = csv(path, { ...columns, categorical, batchSize: 64, cache: join(root, "cache") });
    const job = { ...common, data };
    await runJob(place, job);
    const { result, events } = await runJob(place, inEpochs(job, 2));
    t.is(result.status, "finished");
    digests.push(result.digest);
    const [kept] = only(events, "run.durable").filter(({ action }) => action === "kept");
    t.is(kept?.rows, touched);
    const parts = only(events, "run.checkpointed").at(-1)?.bytes ?? Number.POSITIVE_INFINITY;
    t.true(parts < 64 * touched + 4096, `${parts} bytes of checkpoint for ${touched} rows`);
    // One page per isolated row, and the index of initialised rows.
    const disk = diskBytes(join(directory, "tiers"));
    t.true(disk < 2 * 8192 * touched, `${disk} bytes of disk for ${touched} rows`);
    const grown = process.memoryUsage().rss - before;
    t.true(grown < 512 * mib, `${Math.round(grown / mib)} MiB more memory`);
    t.log(`${ssd}: ${touched} rows: ${parts} B saved, ${disk} B of disk, ${grown} B of memory`);
  }
  t.is(new Set(digests).size, 1);
});
