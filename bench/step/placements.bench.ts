// Question: how fast is one model with its rows in device memory, in host memory, on a remote
// server, or partly there; and which of dense layers and lookups limits it? Jobs vary one figure at
// a time, as in Acun et al. (arXiv 2011.05497, section on synthetic workloads). Limit: rows in
// device memory while they fit there, else on the server.

import { tiersOptions } from "../../src/embedding/tables/tier-options.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { defaultConstants } from "../../src/planner/cost/constants.ts";
import { type PlacementSpec, serversOf, slicesBeside } from "../../src/planner/placement.ts";
import { planJob } from "../../src/training/planning/plan-job.ts";
import { type Bench, type Measurement, positiveOption, single, together } from "../bench.ts";
import { type BenchRow, meanRow, quantiles, rowOf } from "../row.ts";
import { benchWork, ratesOf, runDevices } from "./device-threads.ts";
import type { TrainWork } from "./train-work.ts";

interface PlacementsOptions {
  readonly rounds: number;
  readonly seconds: number;
}

/** One job of the sweep. */
interface Point {
  /** Dense features, and the width of both hidden layers. */
  readonly dense: number;
  readonly width: number;
  /** Tables; ids of a bag; rows of a table of mean size. */
  readonly sparse: number;
  readonly pooling: number;
  readonly rows: number;
  readonly batch: number;
}

const usual: Point = { dense: 256, width: 256, sparse: 16, pooling: 8, rows: 8000, batch: 1024 };

/** The figures that vary, one at a time; bags are truncated at 32 ids. */
const sweep = {
  dense: [64, 512, 4096],
  width: [64, 256, 1024],
  sparse: [4, 32, 128],
  pooling: [1, 8, 32],
  batch: [256, 1024, 4096],
} as const satisfies Partial<Record<keyof Point, readonly number[]>>;

/** Mean rows of a table: the first two fit into the budget of both devices, the others do not. */
const hashSizes = [4000, 8000, 32_000, 128_000] as const;
/** Device memory for rows: both devices hold tables of up to 8,000 rows in the mean. */
const hbmBytes = 32 * 2 ** 20;

/** Sizes of tables differ, as do their popularities: rows of a table by the mean. */
const sizes = [0.1, 0.4, 0.5, 3] as const;
const dim = 64;
const zipf = 1.05;
const devices = 2;

/**
 * Placements, and the link to the server: 25 Gb/s, as the interface of a CPU trainer has, or 1
 * Gb/s, somewhat more than the share of one of its some 40 cores. A device here is one core.
 */
const contenders = {
  device: { kind: "device", servers: 0 },
  host: { kind: "host", servers: 0 },
  servers: { kind: "servers", servers: 1, bitsPerSecond: 25e9 },
  servers1Gb: { kind: "servers", servers: 1, bitsPerSecond: 1e9 },
  hybrid: { kind: "hybrid", servers: 0 },
} as const satisfies Record<string, PlacementSpec & { readonly bitsPerSecond?: number }>;

type Name = keyof typeof contenders;

const allNames = Object.keys(contenders) as Name[];

/** Estimated seconds to make tables and batches. */
const setUpSeconds = 3;

export const placementsBench: Bench<PlacementsOptions> = {
  question: "rows in device memory, host memory, on a server, or partly; and what limits a step",
  options: [
    positiveOption("--rounds <count>", "rounds over all placements", 3),
    positiveOption("--seconds <seconds>", "how long each trains in a round", 1),
  ],
  measurements(options) {
    const shares = Object.entries(sweep).flatMap(([name, values]) =>
      values.map((value) => {
        const seconds = options.rounds * (options.seconds + setUpSeconds);
        const row = `placements.lookups.${name}.${value}`;
        return single(row, seconds, () => shareOf(row, { ...usual, [name]: value }, options));
      }),
    );
    return [...hashSizes.map((rows) => measurementOf(rows, options)), ...shares];
  },
};

/** Samples a second of the placements that fit, in turn. */
function measurementOf(rows: number, options: PlacementsOptions): Measurement {
  const own = allNames.filter((name) => name !== "device" || fits(rows));
  const names = own.map((name) => `placements.${name}.${rows}`);
  const seconds = options.rounds * own.length * (options.seconds + setUpSeconds);
  return together(names, seconds, async (): Promise<BenchRow[]> => {
    const rates = own.map((): number[] => []);
    for (let round = 0; round < options.rounds; round++) {
      for (const [i, name] of own.entries()) {
        const { bitsPerSecond, ...placement } = { bitsPerSecond: 0, ...contenders[name] };
        const work = workOf({ ...usual, rows }, placement, options);
        const [report] = await runDevices(
          bitsPerSecond > 0 ? { ...work, link: { bitsPerSecond } } : work,
        );
        rates[i]?.push(quantiles(ratesOf(usual.batch, report)).median);
      }
    }
    const best = fits(rows) ? "device" : "servers";
    const named = { unit: "samples/s", limitIs: `placement ${best}` };
    return names.map((name, i) =>
      rowOf({ name, ...named }, rates[i] ?? [], rates[own.indexOf(best)] ?? []),
    );
  });
}

/** Whether the rows have room in device memory. */
function fits(rows: number): boolean {
  const row = 4 * dim + 4 + 1;
  return usual.sparse * rows * row < devices * hbmBytes;
}

/**
 * The share of lookups and updates in the work of a step. A trainer and its server divide the work
 * between dense layers and rows, so that each device meters its own.
 */
async function shareOf(name: string, point: Point, options: PlacementsOptions): Promise<BenchRow> {
  const shares: number[] = [];
  for (let round = 0; round < options.rounds; round++) {
    const reports = await runDevices(workOf(point, { kind: "servers", servers: 1 }, options));
    const [trainer = 0, server = 0] = reports.map(({ times }) => {
      return (times?.stepMs ?? 0) * (times?.shares.computing ?? 0);
    });
    shares.push((100 * server) / (trainer + server));
  }
  return meanRow(name, shares, "% of the work of a step");
}

function workOf(point: Point, placement: PlacementSpec, { seconds }: PlacementsOptions): TrainWork {
  const { dense, width, sparse, pooling, rows, batch } = point;
  const work = benchWork({ config: "b", batch, devices, seconds, optimizer: "rowWiseAdagrad" });
  const data = { kind: "synthetic", samples: batch, dense, batchSize: batch, zipf };
  const job = resolveJob({
    model: {
      ...{ kind: "dlrm", dense, bottom: [width, dim], top: [width, 1] },
      tables: Array.from({ length: sparse }, (_, i) => {
        const own = Math.round(rows * (sizes[i % sizes.length] ?? 1));
        return { name: `T${i}`, rows: own, dim };
      }),
    },
    data: { ...data, idsPerBag: pooling },
    ...{ placement, tiers: tiersOptions.parse({ hbmBytes }) },
    optimizer: { dense: { kind: "adagrad" }, sparse: { kind: "rowWiseAdagrad" } },
  } as JobOptions);
  const found = planJob(job, {
    devices: { hosts: 1, perHost: devices },
    constants: { ...defaultConstants, memoryBytes: 2 ** 33 },
  });
  if (!found.isFeasible) throw new RangeError(`No ${placement.kind} plan of this bench has room`);
  const { model, tiers, slices } = job;
  const sliceCounts = slicesBeside(slices, devices, serversOf(placement, devices));
  const idsMax = model.tables.map(() => pooling);
  return {
    ...work,
    ...{ zipf, warmUpSteps: 20 },
    input: { model, batchSize: batch, slices, idsMax, plan: found.plan, tiers, sliceCounts },
    // No placement touches a disk.
    backing: { directory: "", pageCache: true },
  };
}
