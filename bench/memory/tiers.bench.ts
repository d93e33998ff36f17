// Question: what does it cost to have only some rows in device memory? Six parts: cache lookups,
// hit rates, training, sized caches, a very large table, and the row stores below memory.

import { openKernels } from "../../src/kernels/index.ts";
import { type Bench, type Measurement, positiveOption, single } from "../bench.ts";
import { hbmMeasurement } from "./hbm.bench.ts";
import { accesses, associativeRate, hitRate } from "./hit-rates.ts";
import { largeTableMeasurement } from "./large-table.ts";
import { fileMeasurement, rocksMeasurement } from "./records.bench.ts";
import { sizedCachesMeasurement } from "./sized-caches.bench.ts";
import { trainTiersMeasurement } from "./train-tiers.bench.ts";

interface TiersBenchOptions {
  /** Gibibytes of the memory that rows are looked up in. */
  readonly gib: number;
  /** Duration of each run of training, and how often each is run. */
  readonly seconds: number;
  readonly rounds: number;
}

export const tiersBench: Bench<TiersBenchOptions> = {
  question: "rows that do not all lie in device memory: a cache's lookups and hits, training",
  options: [
    positiveOption("--gib <size>", "gibibytes of the memory that rows are looked up in", 1),
    positiveOption("--seconds <count>", "how long each run of training takes", 3),
    positiveOption("--rounds <count>", "how often each is run", 2),
  ],
  full: { seconds: 5, rounds: 3 },
  measurements({ gib, seconds, rounds }) {
    return [
      largeTableMeasurement(seconds), // First, as it reads this process's peak memory.
      hbmMeasurement(gib),
      ...hitRateMeasurements(),
      trainTiersMeasurement({ ssd: "file", seconds, rounds }),
      sizedCachesMeasurement({ seconds, rounds }),
      trainTiersMeasurement({ ssd: "rocksdb", seconds, rounds }),
      fileMeasurement(),
      rocksMeasurement(),
    ];
  },
};

/** The cases of test/kernels/cache.test.ts: 300,000 accesses to 100,000 rows. */
function hitRateMeasurements(): Measurement[] {
  const cases = [
    { exponent: 0.8, load: 0.05 },
    { exponent: 1.05, load: 0.2 },
  ];
  return cases.flatMap(({ exponent, load }) =>
    (["lru", "lfu"] as const).map((policy) => {
      const name = `hitrate.${policy}.zipf${exponent}.load${load}`;
      return single(name, 1, () => {
        const rows = accesses(exponent, 300_000, 1);
        const limit = 100 * associativeRate(load, rows);
        const figure = 100 * hitRate(openKernels("auto"), policy, load, rows);
        const limitIs = "fully associative LRU";
        const spread = [figure, figure] as const;
        return { name, figure, unit: "%", limit, limitIs, ratio: figure / limit, spread };
      });
    }),
  );
}
