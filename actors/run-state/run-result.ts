// What comes of a run: the result of `run.finished`, and the figures in it that events publish too
// (docs/wire.md). Types follow from the schemas.

import { z } from "zod";
import { comparedMetric } from "../../src/training/loop/best-evaluation.ts";
import type { Metrics, ThresholdMetrics } from "../../src/training/loop/metrics.ts";
import { type RunTimes, type StepTimes, waitedFor } from "../../src/training/meters/step-meter.ts";
import { planReportSchema } from "../../src/training/planning/run-plan.ts";
import type { TableTiers } from "../../src/training/planning/tier-advice.ts";
import { warningSchema } from "../threads/generation-schema.ts";
import { incidentRecord } from "./incident-record.ts";
import { lostSchema } from "./recovery-events.ts";

export const count = z.int().min(0);
const seconds = z.number().min(0);
export const list = <Item extends z.ZodType>(item: Item) => z.array(item).readonly();
/**
 * Not a number where the samples do not define it, which JSON writes as null: the schema is of what
 * is published, the type of what is said here.
 */
export const figure = z.number().nullable() as unknown as z.ZodType<number>;

const thresholds: z.ZodType<readonly ThresholdMetrics[]> = z
  .array(z.object({ threshold: z.number(), precision: figure, recall: figure, f1: figure }))
  .readonly();

/** Where the label is a number. */
const ofNumber = {
  mse: figure.optional(),
  rmse: figure.optional(),
  mae: figure.optional(),
  r2: figure.optional(),
};

const taskMetrics = z.object({
  samples: count,
  positives: count,
  logLoss: figure,
  auc: figure,
  normalizedEntropy: figure,
  calibration: figure,
  ...ofNumber,
  gauc: figure.optional(),
  thresholds: thresholds.optional(),
});

export const metrics: z.ZodType<Metrics> = taskMetrics.extend({
  tasks: z.record(z.string(), taskMetrics).exactOptional(),
});

const tierRates = z.object({
  rows: z.number(),
  hbm: z.number(),
  ddr: z.number(),
  ssd: z.number(),
  conflicts: z.number(),
});

export const stepTimes: z.ZodType<StepTimes> = z.object({
  steps: z.number(),
  stepMs: z.number(),
  readMs: z.number(),
  batchesThere: z.number(),
  shares: z.record(z.enum(["computing", "sendingIds", ...waitedFor]), z.number()),
  tiers: tierRates.exactOptional(),
  splits: z.object({ overRead: z.number(), waitMs: z.number() }).exactOptional(),
  dedupeFactor: z.number().exactOptional(),
});

const runTimes: z.ZodType<RunTimes> = z.intersection(
  stepTimes,
  z.object({ warm: z.object({ steps: z.number(), stepMs: z.number() }).exactOptional() }),
);

const tierExpectation = z.object({
  hbmBytes: z.number(),
  ddrBytes: z.number(),
  hbm: z.number(),
  ddr: z.number(),
  ssd: z.number(),
});

export const tableTiers: z.ZodType<TableTiers> = z.object({
  table: z.string(),
  accesses: z.number(),
  rowBytes: count,
  curve: list(z.object({ rows: count, missRatio: z.number() })),
  now: tierExpectation,
  moreHbm: tierExpectation,
  moreDdr: tierExpectation,
});

const cutRecord = z
  .object({
    /** Steps done. */
    step: count,
    /** Mean loss of the steps since the point before. */
    trainLoss: figure,
    /** Metrics on the held-out samples, where this cut evaluated. */
    evaluation: metrics.optional(),
  })
  .readonly();

/** One point of a run's history. */
export type CutRecord = z.output<typeof cutRecord>;

export const repairedTable = z.object({ table: z.string(), ids: count }).readonly();

/** A table, and how many of its ids lay outside it and were clamped or hashed by its policy. */
export type RepairedTable = z.output<typeof repairedTable>;

export const dynamicTable = z
  .object({
    table: z.string(),
    /**
     * Ids that were given a row, and ids that lost their row; an id that came back counts again.
     */
    admitted: count,
    evicted: count,
    /** Lookups of ids that had no row. */
    dropped: count,
    /** Rows of the table, and how many of them ids have. */
    rows: count,
    rowsUsed: count,
  })
  .readonly();

/** A table with dynamic ids, and what became of them in the steps of a run. */
export type DynamicTable = z.output<typeof dynamicTable>;

export const staleness = z
  .object({
    /** Steps that read them fresh: the first after the start and after each cut and pause. */
    freshSteps: count,
    /** Of each stale table, distinct rows of a step, summed, on which an update was pending. */
    tables: list(z.object({ table: z.string(), rows: count })),
  })
  .readonly();

/** What the steps of a bounded run read of its stale tables. */
export type Staleness = z.output<typeof staleness>;

const evaluated = z.object({ step: count, evaluation: metrics }).readonly();
const bestEvaluated = evaluated
  .unwrap()
  .extend({
    metric: comparedMetric,
    task: z.string().optional(),
    manifest: z.string().optional(),
  })
  .readonly();

const tested = z.object({ step: count, metrics }).readonly();

/** What the test found of the model of a step. */
export type Tested = z.output<typeof tested>;

export const runResultSchema = z
  .object({
    run: z.string(),
    status: z.enum(["finished", "stopped-early", "cancelled"]),
    /**
     * True where the run had ended before it was asked for: nothing was trained; the model and the
     * figures are those of then.
     */
    alreadyFinished: z.boolean(),
    /** The cut of the returned model: the best one, where early stopping asked for it. */
    step: count,
    /** SHA-256 tree hash of the returned model: weights and optimizer state. */
    digest: z.string(),
    auc: figure.optional(),
    logLoss: figure.optional(),
    normalizedEntropy: figure.optional(),
    calibration: figure.optional(),
    gauc: figure.optional(),
    ...ofNumber,
    thresholds: thresholds.optional(),
    /** Where the model has several tasks, what the evaluation found of each. */
    tasks: z.record(z.string(), taskMetrics).optional(),
    /**
     * The last evaluation and the best one by `metric`, which early stopping or `keepBest` names,
     * else the AUC, or the RMSE of a number; `task`: whose metric, left out of the first;
     * `manifest`: its checkpoint, where it is kept. Left out where there was none.
     */
    evaluations: z.object({ last: evaluated, best: bestEvaluated }).readonly().optional(),
    /** The test of the returned model; left out where there is none, and of cancelled runs. */
    test: tested.optional(),
    /** That of the kept best model, where it is another one. */
    bestTest: tested.optional(),
    history: list(cutRecord),
    /** Of all steps of training, each epoch counted; tables without any are not in it. */
    repairedIds: list(repairedTable),
    /** What all steps read late; left out where no table has `staleness`. */
    staleness: staleness.optional(),
    /** What partial recoveries have cost; left out where there was none. */
    lost: lostSchema.optional(),
    /** What became of dynamic ids; left out where no table has any. */
    dynamicIds: list(dynamicTable).optional(),
    /** Checkpoint directory, and the manifest in it that the model is loaded from. */
    directory: z.string(),
    manifest: z.string(),
    /** The last generation: 1 where nothing failed. */
    generation: count,
    /** The mean of the last generation. */
    samplesPerSecond: figure,
    /** Where the time of the last generation's steps went, as far as its hosts have told. */
    times: runTimes.optional(),
    /**
     * The stores that had the rows of cached tables below memory, in the last generation:
     * `rocksdb`, `file`, or both; left out where no table was cached.
     */
    stores: list(z.string()).optional(),
    /**
     * How long tiers of the last generation waited for room on a full disk, and how long their disk
     * was slow; left out where neither was.
     */
    disk: z.object({ pausedSeconds: seconds, slowSeconds: seconds }).readonly().optional(),
    /** Of each cached table, in the last generation: its curve, and what more memory would buy. */
    tiers: list(tableTiers).optional(),
    /** How the last generation placed its tables, and why so; left out where none trained. */
    plan: planReportSchema.optional(),
    arithmetic: z.string(),
    /** What a person should know of data and model before they use it (docs/jobs.md). */
    warnings: list(warningSchema),
    /** What failed while it was trained, oldest first: the newest of them. */
    incidents: list(incidentRecord),
  })
  .readonly();

/** What a finished run returns. */
export type RunResult = z.output<typeof runResultSchema>;
