// Question: what is gained by sizing the caches of unlike tables, as `osiris plan` does? All tables
// have equally many rows; their ids range from almost uniform to very skewed. Both runs take turns,
// with the same memory, on one device with a tier. Limit: the same training with caches sized by
// the rule of runs without a plan, which is the same for all these tables.

import { join } from "node:path";
import { syntheticOptions } from "../../src/data/options.ts";
import { tiersOptions } from "../../src/embedding/tables/tier-options.ts";
import { modelOptions } from "../../src/model/options.ts";
import { defaultConstants } from "../../src/planner/cost/constants.ts";
import type { Plan } from "../../src/planner/shards.ts";
import { planWithCaches, withCurves } from "../../src/planner/size-caches.ts";
import { workloadOf } from "../../src/training/planning/workload.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Measurement, together } from "../bench.ts";
import { type BenchRow, quantiles, rowOf } from "../row.ts";
import { ratesOf, runDevices } from "../step/device-threads.ts";
import { optimizerOf } from "../step/optimizers.ts";
import type { TrainWork } from "../step/train-work.ts";

const zipfs = [0.3, 0.5, 0.7, 0.9, 1, 1.1, 1.2, 1.4];
const rows = 200_000;
const dim = 32;
const lookups = 2;
const dense = 13;
const batch = 2048;
/** Share of all rows that fit into a device's cache (HBM); DDR holds as many. */
const share = 1 / 8;
/** More batches than are trained on, so that no batch repeats. */
const batches = 600;
const warmUpSteps = 100;

interface SizedCachesOptions {
  readonly seconds: number;
  readonly rounds: number;
}

/** Measures samples/s and shares of rows from HBM, of planned caches and of caches by the rule. */
export function sizedCachesMeasurement(options: SizedCachesOptions): Measurement {
  const setUpSeconds = 12; // Tables, batches, and the steps that fill the caches.
  const seconds = 5 + 2 * options.rounds * (options.seconds + setUpSeconds);
  return together(["sized.train", "sized.hits"], seconds, () => sizedRows(options));
}

async function sizedRows(options: SizedCachesOptions): Promise<BenchRow[]> {
  using home = temporaryHome("osiris-bench-");
  const works = { planned: workOf(options.seconds, plan()), ruled: workOf(options.seconds) };
  const rates = { planned: [] as number[], ruled: [] as number[] };
  const hits = { planned: [] as number[], ruled: [] as number[] };
  for (let round = 0; round < options.rounds; round++) {
    for (const name of ["planned", "ruled"] as const) {
      const backing = { directory: join(home.path, name), pageCache: true };
      const [report] = await runDevices({ ...works[name], backing });
      rates[name].push(quantiles(ratesOf(batch, report)).median);
      hits[name].push(100 * (report?.times?.tiers?.hbm ?? 0));
    }
  }
  const limitIs = "the same bytes for each table";
  return [
    rowOf({ name: "sized.train", unit: "samples/s", limitIs }, rates.planned, rates.ruled),
    rowOf({ name: "sized.hits", unit: "% of rows from HBM", limitIs }, hits.planned, hits.ruled),
  ];
}

const optimizer = optimizerOf({ kind: "adagrad" }, { kind: "rowWiseAdagrad" });
const bytes = Math.floor(share * zipfs.length * rows * (4 * dim + 4));
const tiers = tiersOptions.parse({ hbmBytes: bytes, ddrBytes: bytes });
const model = modelOptions.parse({
  kind: "dlrm",
  dense,
  tables: zipfs.map((_, i) => ({ name: `T${i}`, rows, dim, tier: "cached" })),
  bottom: [64, dim],
  top: [64, 1],
});

function workOf(seconds: number, given?: Plan): TrainWork {
  const idsMax = zipfs.map(() => lookups);
  return {
    input: { model, batchSize: batch, slices: 8, idsMax, tiers, plan: given },
    recipe: { optimizer, seed: 1 },
    ...{ devices: 1, depth: 3, seconds, steps: batches - warmUpSteps, arithmetic: "auto" },
    ...{ batches, warmUpSteps, zipf: zipfs },
  };
}

function plan(): Plan {
  const data = { kind: "synthetic", samples: batch, dense, batchSize: batch, idsPerBag: lookups };
  const job = { model, data: syntheticOptions.parse(data), optimizer, tiers, readers: 1 };
  const planned = workloadOf(job);
  const tables = planned.tables.map((table, i) => ({ ...table, zipf: zipfs[i] ?? 0 }));
  const devices = { hosts: 1, perHost: 1 };
  const workload = { ...planned, tables };
  const { best } = planWithCaches(withCurves({ workload, devices, constants: defaultConstants }));
  if (best === undefined) throw new RangeError("The tables fit no device");
  return best.plan;
}
