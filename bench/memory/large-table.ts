// Question: how much memory does a table of 100 million rows of 64 columns take, which would be 24
// GiB if it were dense? One device, uniform ids: nearly every lookup is of a row that was never
// looked up before. Limit: 2 GiB for the whole process, including threads, batches and modules.

import { join } from "node:path";
import { tiersOptions } from "../../src/embedding/tables/tier-options.ts";
import { modelOptions } from "../../src/model/options.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Measurement, single } from "../bench.ts";
import type { BenchRow } from "../row.ts";
import { benchWork, runDevices } from "../step/device-threads.ts";

const mib = 2 ** 20;
const limit = 2048;

export function largeTableMeasurement(seconds: number): Measurement {
  return single("large.peak", seconds + 10, () => peakRow(seconds));
}

async function peakRow(seconds: number): Promise<BenchRow> {
  const work = benchWork({ config: "b", batch: 2048, devices: 1, seconds });
  const table = { name: "T0", rows: 100_000_000, dim: 64, tier: "cached" as const };
  const dense = { kind: "dlrm" as const, dense: 13, bottom: [64, 64], top: [64, 1] };
  const input = {
    ...work.input,
    model: modelOptions.parse({ ...dense, tables: [table] }),
    idsMax: [32],
    tiers: tiersOptions.parse({ hbmBytes: 256 * mib, ddrBytes: 512 * mib }),
  };
  using home = temporaryHome("osiris-bench-");
  const backing = { directory: join(home.path, "tier"), pageCache: true };
  const [report] = await runDevices({ ...work, input, batches: 64, backing });
  const figure = process.resourceUsage().maxRSS / 1024;
  const rows = 2048 * 32 * (report?.stepMs.length ?? 0);
  const limitIs = `2 GiB, after ${(rows / 1e6).toFixed(1)} million lookups`;
  const about = { unit: "MiB", limit, limitIs, ratio: figure / limit };
  return { name: "large.peak", figure, ...about, spread: [figure, figure] };
}
