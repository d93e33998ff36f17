// Question: how much of its speed does training keep when its tables are eight times the memory for
// them? Configuration b, ids by Zipf's law; both runs in turn, on one device with a tier beside it.
// Limit: the same training with all rows in memory; for the cold run, also the speed of the disk.

import { join } from "node:path";
import { type TiersSpec, tiersOptions } from "../../src/embedding/tables/tier-options.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Measurement, together } from "../bench.ts";
import { limit } from "../limits/limits.ts";
import { type BenchRow, quantiles, rowOf } from "../row.ts";
import { benchWork, ratesOf, runDevices } from "../step/device-threads.ts";
import type { TrainWork } from "../step/train-work.ts";

const batch = 2048;
const zipf = 1.05;
/** The tables' bytes over a device's memory for rows, of which one half is HBM, one half DDR. */
const share = 8;
/** Batches that training cycles through: enough that consecutive batches share only some rows. */
const batches = 64;
/** Bytes of the file that measures the disk: about as large as the tables. */
const pageBytes = 2 ** 30;

interface TrainTiersOptions {
  readonly ssd: TiersSpec["ssd"];
  readonly seconds: number;
  readonly rounds: number;
}

export function trainTiersMeasurement(options: TrainTiersOptions): Measurement {
  const { ssd, seconds, rounds } = options;
  const names = ["prefetch", "prefetch-off", "cold", "cold.disk"];
  const setUpSeconds = 12; // Tables, batches, and the steps that fill the caches.
  return together(
    names.map((name) => `train.${ssd}.${name}`),
    rounds * (4 * (seconds + setUpSeconds) + 6),
    () => trainTiersRows(options),
  );
}

async function trainTiersRows(options: TrainTiersOptions): Promise<BenchRow[]> {
  const { ssd, rounds } = options;
  const memory = workOf(options, undefined);
  using home = temporaryHome("osiris-bench-");
  const tiered = (prefetch: number, pageCache: boolean) => {
    const backing = { directory: join(home.path, "tier"), pageCache };
    return { ...workOf(options, tiersOf(memory, ssd, prefetch)), backing };
  };
  const contenders = {
    prefetch: tiered(1, true),
    "prefetch-off": tiered(0, true),
    cold: tiered(1, false),
  };
  const rates = { prefetch: [], "prefetch-off": [], cold: [] } as Record<string, number[]>;
  const limits: number[] = [];
  const diskLimits: number[] = [];
  for (let round = 0; round < rounds; round++) {
    limits.push((await trained(memory)).rate);
    for (const [name, work] of Object.entries(contenders)) {
      const { rate, ssdRows } = await trained(work);
      rates[name]?.push(rate);
      if (name === "cold") diskLimits.push(batch / (ssdRows * secondsOfRow(home.path)));
    }
  }
  const unit = "samples/s";
  const rows = Object.entries(rates).map(([name, ours]) => {
    const about = { unit, limitIs: "all rows in memory" };
    return rowOf({ name: `train.${ssd}.${name}`, ...about }, ours, limits);
  });
  const limitIs = "the disk: of each row from it, a page read and a page written";
  const ofDisk = { name: `train.${ssd}.cold.disk`, unit, limitIs };
  return [...rows, rowOf(ofDisk, rates.cold ?? [], diskLimits)];
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

/** Median samples/s of the steps, and the rows that a step read from the disk. */
async function trained(work: TrainWork): Promise<{ rate: number; ssdRows: number }> {
  const [report] = await runDevices(work);
  const { rows = 0, ssd = 0 } = report?.times?.tiers ?? {};
  return { rate: quantiles(ratesOf(batch, report)).median, ssdRows: rows * ssd };
}

/** Seconds to read a page and write a page past the page cache, with 64 requests in flight. */
function secondsOfRow(directory: string): number {
  const rateOf = (kind: string) => limit("file", kind, join(directory, "bare"), pageBytes, 0.5);
  return 1 / rateOf("pageRead") + 1 / rateOf("pageWrite");
}
