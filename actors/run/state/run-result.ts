// The result of a run, as `run.finished` publishes it, with the figures that other events publish
// too (docs/wire.md). Types follow from the schemas.

import { z } from "zod";
import { comparedMetric } from "../../../src/training/loop/best-evaluation.ts";
import type { Metrics, ThresholdMetrics } from "../../../src/training/loop/metrics.ts";
import {
  type RunTimes,
  type StepTimes,
  waitedFor,
} from "../../../src/training/meters/step-meter.ts";
import { planReportSchema } from "../../../src/training/planning/plan-report.ts";
import type { TableTiers } from "../../../src/training/planning/tier-advice.ts";
import { warningSchema } from "../../threads/generation-schema.ts";
import { incidentRecord } from "./incident-record.ts";
import { asynchronousSchema, lostSchema } from "./recovery-events.ts";

export const count = z.int().min(0);
const seconds = z.number().min(0);
export const list = <Item extends z.ZodType>(item: Item) => z.array(item).readonly();
/**
 * A figure of metrics. It is NaN where the samples do not define it, and null in JSON: the schema
 * describes the published JSON, the type the value in this process.
 */
export const figure = z.number().nullable() as unknown as z.ZodType<number>;

const thresholds: z.ZodType<readonly ThresholdMetrics[]> = z
  .array(z.object({ threshold: z.number(), precision: figure, recall: figure, f1: figure }))
  .readonly();

/** Metrics of regression. */
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
  exchange: z
    .object({
      exposed: z.number(),
      inFlight: z.number(),
      hidden: z.number(),
      hiddenBy: z.partialRecord(z.enum(waitedFor), z.number()),
    })
    .exactOptional(),
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
    /** Completed steps. */
    step: count,
    /** Mean loss of the steps since the previous point. */
    trainLoss: figure,
    /** Metrics on the held-out samples; left out where this cut had no evaluation. */
    evaluation: metrics.optional(),
  })
  .readonly();

/** One point of a run's history. */
export type CutRecord = z.output<typeof cutRecord>;

export const repairedTable = z.object({ table: z.string(), ids: count }).readonly();

/** Number of ids outside a table, which its policy clamped or hashed. */
export type RepairedTable = z.output<typeof repairedTable>;

export const dynamicTable = z
  .object({
    table: z.string(),
    /** Ids that got a row, and ids that lost their row; an id that returns counts again. */
    admitted: count,
    evicted: count,
    /** Lookups of ids that had no row. */
    dropped: count,
    /** Rows of the table, and rows in use by ids. */
    rows: count,
    rowsUsed: count,
  })
  .readonly();

/** Counts of the dynamic ids of a table over the steps of a run. */
export type DynamicTable = z.output<typeof dynamicTable>;

export const staleness = z
  .object({
    /**
     * Steps that read stale tables fresh: the first after the start and after each cut and pause.
     */
    freshSteps: count,
    /** Per stale table: distinct rows per step with an update pending, summed over the steps. */
    tables: list(z.object({ table: z.string(), rows: count })),
  })
  .readonly();

/** Stale reads of the steps of a bounded run. */
export type Staleness = z.output<typeof staleness>;

/** Counts of asynchronous training. */
export type Asynchronous = z.output<typeof asynchronousSchema>;

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

/** Metrics of the model at `step` on the test part. */
export type Tested = z.output<typeof tested>;

export const runResultSchema = z
  .object({
    run: z.string(),
    status: z.enum(["finished", "stopped-early", "cancelled"]),
    /**
     * True where the run had ended before this submission: nothing was trained, and the model and
     * the figures are those of the earlier run.
     */
    alreadyFinished: z.boolean(),
    /** The cut of the returned model: the best one with early stopping, else the last. */
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
    /** Metrics per task, for a model with several tasks. */
    tasks: z.record(z.string(), taskMetrics).optional(),
    /**
     * The last evaluation, and the best one by `metric`: the metric of early stopping or
     * `keepBest`, else AUC, or RMSE for regression. `task`: the compared task; left out for the
     * first. `manifest`: the checkpoint of the best, if it is kept. Left out where there was no
     * evaluation.
     */
    evaluations: z.object({ last: evaluated, best: bestEvaluated }).readonly().optional(),
    /** The test of the returned model; left out where there is none, and of cancelled runs. */
    test: tested.optional(),
    /** The test of the kept best model, where that is not the returned model. */
    bestTest: tested.optional(),
    history: list(cutRecord),
    /**
     * Repaired ids over all training steps, every epoch counted; tables without any are left out.
     */
    repairedIds: list(repairedTable),
    /** Stale reads of all steps; left out where no table has `staleness`. */
    staleness: staleness.optional(),
    /** Cost of partial recoveries; left out where there was none. */
    lost: lostSchema.optional(),
    /** Counts of trainers and servers, in `mode: "async"` only. */
    asynchronous: asynchronousSchema.optional(),
    /** Counts of dynamic ids; left out where no table has any. */
    dynamicIds: list(dynamicTable).optional(),
    /** Checkpoint directory, and the hash of the manifest of the returned model. */
    directory: z.string(),
    manifest: z.string(),
    /** The last generation; 1 if the run was never restarted. */
    generation: count,
    /** Mean over the last generation. */
    samplesPerSecond: figure,
    /** Breakdown of the step time of the last generation, as far as its hosts reported it. */
    times: runTimes.optional(),
    /**
     * Backing stores of the cached tables in the last generation: `rocksdb`, `file`, or both; left
     * out where no table was cached.
     */
    stores: list(z.string()).optional(),
    /**
     * How long tiers of the last generation waited for room on a full disk, and how long their disk
     * was slow; left out where both are 0.
     */
    disk: z.object({ pausedSeconds: seconds, slowSeconds: seconds }).readonly().optional(),
    /**
     * Per cached table of the last generation: its miss-ratio curve, and what more memory would
     * save.
     */
    tiers: list(tableTiers).optional(),
    /**
     * The placement of the tables in the last generation, and its reasons; left out where no
     * generation trained.
     */
    plan: planReportSchema.optional(),
    arithmetic: z.string(),
    /** Warnings about the data and the model (docs/jobs.md). */
    warnings: list(warningSchema),
    /** The newest incidents of the run, oldest first. */
    incidents: list(incidentRecord),
  })
  .readonly();

/** The result of a finished run. */
export type RunResult = z.output<typeof runResultSchema>;
