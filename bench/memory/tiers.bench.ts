// Question: what do rows cost that do not all lie in device memory? Each part prints its own rows.

import { openKernels } from "../../src/kernels/index.ts";
import type { BenchRow } from "../report.ts";
import { benchHbm } from "./hbm.bench.ts";
import { accesses, associativeRate, hitRate } from "./hit-rates.ts";
import { benchLargeTable } from "./large-table.ts";
import { benchFileRecords, benchRocksRecords } from "./records.bench.ts";
import { benchSizedCaches } from "./sized-caches.bench.ts";
import { benchTrainTiers } from "./train-tiers.bench.ts";

export interface TiersBenchOptions {
  /** Gibibytes of the memory that rows are looked up in. */
  readonly gib: number;
  /** What the names of the rows begin with that are wanted. */
  readonly only: string;
  /** Of each run of training, and how often each is run. */
  readonly seconds: number;
  readonly rounds: number;
}

export async function benchTiers(options: TiersBenchOptions): Promise<BenchRow[]> {
  const { gib, only, seconds, rounds } = options;
  const parts: Readonly<Record<string, () => BenchRow[] | Promise<BenchRow[]>>> = {
    hbm: () => benchHbm(gib),
    hitrate: benchHitRates,
    "train.file": () => benchTrainTiers({ ssd: "file", seconds, rounds }),
    sized: () => benchSizedCaches({ seconds, rounds }),
    large: () => benchLargeTable(seconds),
    "train.rocksdb": () => benchTrainTiers({ ssd: "rocksdb", seconds, rounds }),
    file: benchFileRecords,
    rocksdb: benchRocksRecords,
  };
  const rows: BenchRow[] = [];
  for (const [name, bench] of Object.entries(parts)) {
    if (name.startsWith(only) || only.startsWith(name)) rows.push(...(await bench()));
  }
  return rows.filter(({ name }) => name.startsWith(only));
}

/** The cases of test/kernels/cache.test.ts: 300,000 accesses to 100,000 rows. */
function benchHitRates(): BenchRow[] {
  const kernels = openKernels("auto");
  return (
    [
      [0.8, 0.05],
      [1.05, 0.2],
    ] as const
  ).flatMap(([exponent, load]) => {
    const rows = accesses(exponent, 300_000, 1);
    const limit = 100 * associativeRate(load, rows);
    return (["lru", "lfu"] as const).map((policy) => {
      const figure = 100 * hitRate(kernels, policy, load, rows);
      const name = `hitrate.${policy}.zipf${exponent}.load${load}`;
      const limitIs = "fully associative LRU";
      const spread = [figure, figure] as const;
      return { name, figure, unit: "%", limit, limitIs, ratio: figure / limit, spread };
    });
  });
}
