// Question: how much of its speed does training keep when its tables are eight times the memory for
// them? Configuration b, ids by Zipf's law; both runs in turn, on one device with a tier beside it.
// Limit: the same training with all rows in memory.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TiersSpec, tiersOptions } from "../src/embedding/tiers.ts";
import type { BenchRow } from "./report.ts";
import { rowOf } from "./report.ts";
import { benchWork, ratesOf, runDevices } from "./train.bench.ts";
import type { TrainWork } from "./train-work.ts";

const batch = 2048;
const zipf = 1.05;
/** Of the tables' bytes a device has this share for rows: half of it HBM, half DDR. */
const share = 8;
/** Enough batches that the popular rows of one are not all of the next, trained on in turn. */
const batches = 64;

export interface TrainTiersOptions {
  readonly ssd: TiersSpec["ssd"];
  readonly seconds: number;
  readonly rounds: number;
}

export async function benchTrainTiers(options: TrainTiersOptions): Promise<BenchRow[]> {
  const { ssd, rounds } = options;
  const memory = workOf(options, undefined);
  const directory = mkdtempSync(join(tmpdir(), "osiris-bench-"));
  const tiered = (prefetch: number, pageCache: boolean) => {
    const below = { directory: join(directory, "tier"), pageCache };
    return { ...workOf(options, tiersOf(memory, ssd, prefetch)), below };
  };
  try {
    const contenders = {
      prefetch: tiered(1, true),
      "prefetch-off": tiered(0, true),
      cold: tiered(1, false),
    };
    const rates = { prefetch: [], "prefetch-off": [], cold: [] } as Record<string, number[]>;
    const limits: number[] = [];
    for (let round = 0; round < rounds; round++) {
      limits.push(await rateOf(memory));
      for (const [name, work] of Object.entries(contenders)) {
        rates[name]?.push(await rateOf(work));
      }
    }
    return Object.entries(rates).map(([name, ours]) => {
      const about = { unit: "samples/s", limitIs: "all rows in memory" };
      return rowOf({ name: `train.${ssd}.${name}`, ...about }, ours, limits);
    });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function workOf({ seconds }: TrainTiersOptions, tiers: TiersSpec | undefined): TrainWork {
  const work = benchWork({ config: "b", batch, devices: 1, seconds, optimizer: "rowWiseAdagrad" });
  const tier = tiers === undefined ? ("memory" as const) : ("cached" as const);
  const tables = work.input.model.tables.map((table) => ({ ...table, tier }));
  const input = { ...work.input, model: { ...work.input.model, tables }, tiers };
  return { ...work, input, batches, zipf, warmUpSteps: batches };
}

function tiersOf({ input }: TrainWork, ssd: TiersSpec["ssd"], prefetch: number): TiersSpec {
  const bytes = input.model.tables.reduce((sum, { rows, dim }) => sum + rows * (4 * dim + 4), 0);
  const half = Math.floor(bytes / share / 2);
  return tiersOptions.parse({ hbmBytes: half, ddrBytes: half, ssd, prefetch, policy: "lfu" });
}

/** Samples/s, the median of the steps. */
async function rateOf(work: TrainWork): Promise<number> {
  const [report] = await runDevices(work);
  const rates = ratesOf(batch, report).sort((a, b) => a - b);
  return rates[Math.floor(rates.length / 2)] ?? 0;
}
