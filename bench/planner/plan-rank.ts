// Whether the cost model knows which of two plans is faster: the predicted step time, with
// constants measured just before, beside the measured one, over plans drawn at random. The planner
// knows the tables' ids from the statistics of a data cache, as in a product's run. Plans take
// turns of a few steps, because a machine has fast and slow minutes. The limit is how well the
// measured times of even turns agree with the times of odd turns.

import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { z } from "zod";
import { calibrate } from "../../actors/calibration/calibrate.ts";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { resolveJob } from "../../src/job/job.ts";
import { shapesOf } from "../../src/model/features.ts";
import { type Assessment, assessPlan } from "../../src/planner/assess.ts";
import { stages } from "../../src/planner/cost/cost.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { fittedZipf } from "../../src/training/planning/fit-zipf.ts";
import { workloadOf } from "../../src/training/planning/workload.ts";
import { type BenchRow, quantiles } from "../row.ts";
import { runDevices } from "../step/device-threads.ts";
import type { TrainThreadReport } from "../step/train-thread.ts";
import { randomPlan } from "./random-plan.ts";

const devices = 2;
const plans = 20;
const tables = 60;
const dim = 64;
const batchSize = 1024;
const batches = 4;
/** Of each plan. */
const turns = 6;
const turnSteps = 4;
const idsPerBagMax = 300;

/** What a table is made of, and its generated ids. */
interface TableKind {
  readonly rows: number;
  readonly idsMean: number;
  readonly zipf: number;
}

/** Tables whose bags, popularity and rows differ much. */
function skewedTables(random: RandomStream): TableKind[] {
  return Array.from({ length: tables }, () => ({
    rows: Math.ceil(Math.exp(6 + 4 * random.uniform())),
    idsMean: Math.min(idsPerBagMax, Math.exp(1.5 + 1.5 * random.normal())),
    zipf: 0.4 + random.uniform(),
  }));
}

const sharding = "../shared/data/sharding/tables856.json.gz";
const published = z.object({
  tables: z.array(z.object({ rows: z.number(), pf: z.number(), bins: z.array(z.number()) })),
});

/**
 * Tables drawn from the 856 published ones (dlrm_datasets of Meta), with a hundredth of the rows,
 * so that all plans fit into one machine's memory. Undefined where the file is not there.
 */
function publishedTables(random: RandomStream): TableKind[] | undefined {
  if (!existsSync(sharding)) return undefined;
  const all = published.parse(JSON.parse(gunzipSync(readFileSync(sharding)).toString())).tables;
  return Array.from({ length: tables }, () => {
    const { rows, pf, bins } = all[random.below(all.length)] ?? { rows: 1, pf: 1, bins: [] };
    // The published bins are shares of the distinct ids: how many these are follows from the ids.
    const ids = Math.round(65_536 * pf);
    const uses = bins.reduce((sum, share, bin) => sum + share * 0.75 * 2 ** bin, 0.25);
    const reuse = bins.map((share) => (share * ids) / uses);
    const window = { samples: 65_536, ids, reuse };
    const zipf = fittedZipf({ window }, rows) ?? 1;
    return { rows: Math.ceil(rows / 100), idsMean: Math.min(idsPerBagMax, pf), zipf };
  });
}

/** These tables, and little besides. */
function jobOf(kinds: readonly TableKind[], random: RandomStream, cache: string) {
  const specs = kinds.map(({ rows }, i) => ({
    name: `T${i}`,
    rows,
    dim,
    rowBlocks: ([1, 2, 4] as const)[random.below(3)] ?? 1,
  }));
  const perFeature = Object.fromEntries(
    kinds.map(({ idsMean, zipf }, i) => {
      return [`T${i}`, { zipf, idsPerBag: { mean: Math.max(0.01, idsMean), spread: 0.3 } }];
    }),
  );
  return resolveJob({
    model: {
      kind: "dlrm",
      tables: specs,
      bottom: [dim],
      top: [32, 1],
      dense: 4,
      interaction: "cat",
    },
    data: {
      kind: "synthetic",
      samples: batches * batchSize,
      dense: 4,
      batchSize,
      perFeature,
      cache,
    },
    optimizer: { sparse: { kind: "rowWiseAdagrad" }, dense: { kind: "sgd" } },
  });
}

const kindsOfTables = { skewed: skewedTables, published: publishedTables };

export type RankedTables = keyof typeof kindsOfTables;

export function planRankNames(kind: RankedTables): readonly string[] {
  return [`planner.rank.${kind}`, ...Array.from({ length: plans }, (_, i) => planName(kind, i))];
}

/** Calibration, the memory of all plans, and their turns. */
export const planRankSeconds = 90;

function planName(kind: RankedTables, index: number): string {
  return `planner.plan.${kind}.${index}`;
}

/** A row for the rank correlation, and one for each plan. */
export async function rankOfPlans(kind: RankedTables): Promise<BenchRow[]> {
  const random = new RandomStream(727, 1);
  const kinds = kindsOfTables[kind](random);
  if (kinds === undefined) {
    console.error(`planner.rank.${kind} is left out: ${sharding} is not there.`);
    return [];
  }
  const home = mkdtempSync(join(tmpdir(), "osiris-rank-"));
  try {
    return await ranked(kind, kinds, random, home);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

async function ranked(
  kind: RankedTables,
  kinds: readonly TableKind[],
  random: RandomStream,
  home: string,
): Promise<BenchRow[]> {
  const job = jobOf(kinds, random, home);
  const {
    path: cache,
    idsMax,
    statistics,
  } = await prepareCache(job.data, shapesOf(job.model), realDisk);
  const constants = await calibrate({ devices, memoryBytes: 2 ** 33, source: "this bench" });
  const workload = workloadOf(job, { statistics });
  const setting = { workload, devices: { hosts: 1, perHost: devices }, constants };
  // Plans of all kinds: in some most tables are copied, in others most are cut, or few.
  const drawn = Array.from({ length: plans }, () => {
    const [copied, rows, columns] = [random.uniform(), random.uniform(), random.uniform()];
    return randomPlan(job.model.tables, devices, random, { copied, rows, columns });
  });
  const over = new SharedArrayBuffer(4);
  const reports = await Promise.all(
    drawn.map((plan, index) =>
      runDevices({
        input: { model: job.model, batchSize, slices: 8, idsMax, plan },
        ...{ devices, depth: 3, recipe: job, batches, cache, arithmetic: "auto" },
        turns: { over, trainings: plans, index, steps: turnSteps },
        seconds: Number.POSITIVE_INFINITY,
        steps: turns * turnSteps,
        warmUpSteps: 1,
      }),
    ),
  );
  const measured = reports.map(([report]) => fast(report?.stepMs ?? []));
  const halves = [0, 1].map((half) =>
    reports.map(([report]) => {
      const ofHalf = (_: number, i: number) => Math.floor(i / turnSteps) % 2 === half;
      return fast((report?.stepMs ?? []).filter(ofHalf));
    }),
  );
  const assessed = drawn.map((plan) => assessPlan(setting, plan));
  const figure = rankCorrelation(
    assessed.map(({ step }) => step),
    measured,
  );
  const agreed = rankCorrelation(halves[0] ?? [], halves[1] ?? []);
  const limitIs = `one half of the turns beside the other: ${agreed.toPrecision(3)}`;
  const row = { name: `planner.rank.${kind}`, figure, unit: "rank correlation", limit: 1, limitIs };
  return [
    { ...row, ratio: figure, target: [0.9, 1], spread: [figure, figure] },
    ...assessed.map((own, i) => planRow(planName(kind, i), own, reports[i]?.[0])),
  ];
}

/** A plan's measured step beside the predicted one, and what that is made of. */
function planRow(name: string, own: Assessment, report: TrainThreadReport | undefined): BenchRow {
  const stepMs = report?.stepMs ?? [];
  const [figure, { spread }] = [fast(stepMs), quantiles(stepMs)];
  const limit = 1000 * own.step;
  const limitIs = stages
    .filter((stage) => own.stages[stage] > 0)
    .map((stage) => `${stage} ${(1000 * own.stages[stage]).toPrecision(2)}`)
    .join(", ");
  const row = { name, figure, unit: "ms", limit, limitIs, ratio: figure / limit };
  return { ...row, spread, times: report?.times };
}

/** A fast step, the tenth percentile: what else runs only makes steps longer. */
function fast(stepMs: readonly number[]): number {
  return quantiles(stepMs).spread[0];
}

/** Spearman's: the correlation of places in the two orders. */
function rankCorrelation(a: readonly number[], b: readonly number[]): number {
  const placesOf = (values: readonly number[]) => {
    const sorted = [...values].sort((x, y) => x - y);
    return values.map((value) => sorted.indexOf(value));
  };
  const [placesA, placesB] = [placesOf(a), placesOf(b)];
  const squares = placesA.reduce((sum, place, i) => sum + (place - (placesB[i] ?? 0)) ** 2, 0);
  return 1 - (6 * squares) / (a.length * (a.length ** 2 - 1));
}
