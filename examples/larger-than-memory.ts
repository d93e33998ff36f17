// Trains tables of eight times the memory budget: with a cache in device memory, a second one in
// host memory, and RocksDB or files below; then again with all rows in memory, to check that the
// models are equal to the bit.
//
//   node dist/examples/larger-than-memory.js [--ssd auto|file|rocksdb] [--devices 1] [--json]

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Cluster, criteo, dlrm, type RunResult, rowWiseAdagrad, synthetic } from "../index.ts";

const { values: flags } = parseArgs({
  options: {
    ssd: { type: "string", default: "auto" },
    devices: { type: "string", default: "1" },
    json: { type: "boolean", default: false },
  },
});
const ssd = flags.ssd === "rocksdb" || flags.ssd === "file" ? flags.ssd : "auto";
const [dim, rows] = [16, 20_000];
const tables = criteo.tables({ dim, rows });
const bytes = tables.length * rows * (4 * dim + 4);
const budget = Math.floor(bytes / 8 / Number(flags.devices));
const half = Math.floor(budget / 2);

const directory = mkdtempSync(join(tmpdir(), "larger-than-memory-"));
try {
  await using cluster = await Cluster.start({ devices: Number(flags.devices) });
  const train = async (tier: "memory" | "cached"): Promise<RunResult> => {
    const run = await cluster.submit({
      name: tier,
      model: dlrm({
        dense: 13,
        tables: tables.map((table) => ({ ...table, tier })),
        bottom: [64, dim],
        top: [64, 1],
      }),
      data: synthetic({
        samples: 60_000,
        batchSize: 512,
        zipf: 1.05,
        cache: join(directory, "data"),
      }),
      optimizer: { sparse: rowWiseAdagrad({ learningRate: 0.05 }) },
      tiers: { hbmBytes: half, ddrBytes: half, ssd, policy: "lfu" },
      evaluation: { fraction: 0.1 },
      checkpoint: { directory: join(directory, tier) },
    });
    return run.result();
  };
  const [cached, memory] = [await train("cached"), await train("memory")];
  const from = cached.times?.tiers;
  if (flags.json) {
    const isSame = cached.digest === memory.digest;
    console.log(JSON.stringify({ bytes, budget, from, digest: cached.digest, isSame }));
  } else {
    const mib = (count: number) => `${(count / 2 ** 20).toFixed(1)} MiB`;
    const percent = (share = 0) => `${(100 * share).toFixed(1)} %`;
    console.log(`Tables ${mib(bytes)}, memory for them ${mib(budget)} of each device`);
    console.log(`Rows   ${percent(from?.hbm)} from HBM, ${percent(from?.ddr)} from DDR,`);
    console.log(
      `       ${percent(from?.ssd)} from SSD (${cached.stores?.join(", ")}), or initialised`,
    );
    for (const { name, digest, samplesPerSecond, auc } of [
      { name: "below", ...cached },
      { name: "above", ...memory },
    ]) {
      const rate = Math.round(samplesPerSecond).toLocaleString("en");
      console.log(`${name}  ${rate} samples/s, AUC ${auc?.toFixed(4)}, ${digest}`);
    }
  }
} finally {
  rmSync(directory, { recursive: true, force: true });
}
