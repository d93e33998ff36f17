// The jobs whose plans are ranked: widely differing tables, in a model with little else. The ids
// are generated, and the planner knows them only from the data cache. And the trainings of plans.

import {
  hasPublished,
  publishedTables as published,
  publishedHome,
} from "../../packages/sharding/bench/published.ts";
import { resolveJob } from "../../src/job/job.ts";
import type { Plan } from "../../src/planner/shards.ts";
import type { RandomStream } from "../../src/ports/random.ts";
import { fittedZipf } from "../../src/training/planning/workload.ts";
import { runDevices } from "../step/device-threads.ts";
import type { TrainThreadReport } from "../step/train-thread.ts";

export const batchSize = 1024;
export const batches = 8;
const tables = 60;

/** The size of a table, and the distribution of its generated ids. */
export interface TableKind {
  readonly rows: number;
  readonly dim: number;
  readonly idsMean: number;
  readonly zipf: number;
  /** Row blocks of the table; left out: drawn. */
  readonly rowBlocks?: number;
}

const dims = [4, 8, 16, 32, 64, 128] as const;
/** Longest mean of a generated bag. */
const idsMeanMax = 100;
/** Most elements of a table, as all plans are in memory at once. */
const elementsMax = 1e7;

/** Draws the columns, and limits the rows by the elements of a table. */
function sizeOf(rows: number, random: RandomStream): Pick<TableKind, "rows" | "dim"> {
  const dim = dims[random.below(dims.length)] ?? 32;
  return { rows: Math.ceil(Math.min(rows, elementsMax / dim)), dim };
}

/** Tables whose bags (1 to 100), rows (1e3 to 1e6), popularity and columns differ much. */
function skewedTables(random: RandomStream): TableKind[] {
  return Array.from({ length: tables }, () => ({
    ...sizeOf(10 ** (3 + 3 * random.uniform()), random),
    idsMean: idsMeanMax ** random.uniform(),
    zipf: 0.4 + random.uniform(),
  }));
}

/** A fallback for the compiler: the drawn index always has a table. */
const noTable = { rows: 1, poolingFactor: 1, bins: [] as readonly number[] };
/** Samples of the published batch, and the divisor of the published rows. */
const publishedSamples = 65_536;
const rowsScale = 100;

/**
 * Tables drawn from the 856 published ones (dlrm_datasets of Meta), with their ids of a bag, and
 * with their popularity by the published shares of ids by reuse. Rows are fewer (`rowsScale`), and
 * bags at most `idsMeanMax` long, so that all plans fit into one machine's memory and time. Columns
 * are drawn, as the published tables have none. Undefined if the file is missing.
 */
function publishedTables(random: RandomStream): TableKind[] | undefined {
  if (!hasPublished(publishedHome)) return undefined;
  const all = published(publishedHome);
  return Array.from({ length: tables }, () => {
    const { rows, poolingFactor: pf, bins } = all[random.below(all.length)] ?? noTable;
    // The published bins are shares of the distinct ids, whose number follows from the ids.
    const ids = Math.round(publishedSamples * pf);
    const uses = bins.reduce((sum, share, bin) => sum + share * 0.75 * 2 ** bin, 0.25);
    const reuse = bins.map((share) => (share * ids) / uses);
    const window = { samples: publishedSamples, ids, reuse };
    return {
      ...sizeOf(rows / rowsScale, random),
      idsMean: Math.min(idsMeanMax, pf),
      zipf: fittedZipf({ window }, rows) ?? 1,
    };
  });
}

export const kindsOfTables = { skewed: skewedTables, published: publishedTables };

export type RankedTables = keyof typeof kindsOfTables;

/** The job of these tables, with a minimal dense part. */
export function rankedJob(kinds: readonly TableKind[], random: RandomStream, cache: string) {
  const specs = kinds.map(({ rows, dim, rowBlocks }, i) => ({
    ...{ name: `T${i}`, rows, dim },
    rowBlocks: rowBlocks ?? ([1, 2, 4] as const)[random.below(3)] ?? 1,
  }));
  const perFeature = Object.fromEntries(
    kinds.map(({ idsMean, zipf }, i) => {
      return [`T${i}`, { zipf, idsPerBag: { mean: Math.max(0.01, idsMean), spread: 0.3 } }];
    }),
  );
  return resolveJob({
    model: {
      ...{ kind: "dlrm", tables: specs, bottom: [16], top: [16, 1], dense: 4 },
      interaction: "cat",
    },
    data: {
      ...{ kind: "synthetic", samples: batches * batchSize, dense: 4, batchSize },
      ...{ perFeature, cache },
    },
    optimizer: { sparse: { kind: "rowWiseAdagrad" }, dense: { kind: "sgd" } },
  });
}

/**
 * Trains the plans of a job of ranked tables side by side, in turns of `turnSteps` steps, because a
 * machine has fast and slow minutes; returns the reports of each plan's devices. The first step of
 * a turn does not count: the caches hold another plan's rows.
 */
export function trainInTurns(
  plans: readonly Plan[],
  job: ReturnType<typeof rankedJob>,
  of: {
    readonly devices: number;
    readonly cache: string;
    readonly idsMax: readonly number[];
    readonly turns: number;
    readonly turnSteps: number;
    readonly link?: { readonly bitsPerSecond: number };
  },
): Promise<TrainThreadReport[][]> {
  const { turns, turnSteps, idsMax, ...others } = of;
  const over = new SharedArrayBuffer(4);
  return Promise.all(
    plans.map((plan, index) =>
      runDevices({
        input: { model: job.model, batchSize, slices: 8, idsMax, plan },
        ...{ depth: 3, recipe: job, batches, arithmetic: "auto", ...others },
        turns: { over, trainings: plans.length, index, steps: turnSteps },
        seconds: Number.POSITIVE_INFINITY,
        steps: turns * turnSteps,
        warmUpSteps: 1,
      }),
    ),
  );
}
