// What a run tells: its events and result, as they are published (docs/wire.md). Each is defined
// once: types follow from the schemas, and the JSON Schema that the job service answers.

import { z } from "zod";
import type { ErrorRecord } from "../src/errors.ts";
import type { Metrics } from "../src/training/metrics.ts";
import type { StepTimes } from "../src/training/step-meter.ts";
import type { TableTiers } from "../src/training/tier-advice.ts";

const count = z.int().min(0);
const seconds = z.number().min(0);
const list = <Item extends z.ZodType>(item: Item) => z.array(item).readonly();
/** Not a number where the samples do not define it, which JSON writes as null. */
const figure = z.number().nullable() as unknown as z.ZodType<number>;

const errorRecord: z.ZodType<ErrorRecord> = z.object({
  name: z.string(),
  code: z.string(),
  recovery: z.enum(["restore", "stop"]),
  message: z.string(),
  cause: z.string().optional(),
});

const metrics: z.ZodType<Metrics> = z.object({
  samples: count,
  positives: count,
  logLoss: figure,
  auc: figure,
  normalizedEntropy: figure,
  calibration: figure,
});

const tierRates = z.object({
  rows: z.number(),
  hbm: z.number(),
  ddr: z.number(),
  ssd: z.number(),
  conflicts: z.number(),
});

const stepTimes = z.object({
  steps: z.number(),
  stepMs: z.number(),
  readMs: z.number(),
  batchesThere: z.number(),
  shares: z.record(z.string(), z.number()),
  tiers: tierRates.optional(),
}) as unknown as z.ZodType<StepTimes>;

const tierExpectation = z.object({
  hbmBytes: z.number(),
  ddrBytes: z.number(),
  hbm: z.number(),
  ddr: z.number(),
  ssd: z.number(),
});

const tableTiers: z.ZodType<TableTiers> = z.object({
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

const repairedTable = z.object({ table: z.string(), ids: count }).readonly();

/** A table, and how many of its ids lay outside it and were clamped or hashed by its policy. */
export type RepairedTable = z.output<typeof repairedTable>;

const dynamicTable = z
  .object({
    table: z.string(),
    /** Ids that were given a row, and those that lost theirs; one that came back counts again. */
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

const staleness = z
  .object({
    /** Steps that read them fresh: the first after the start and after each cut and pause. */
    freshSteps: count,
    /** Of each stale table, distinct rows of a step, summed, on which an update was pending. */
    tables: list(z.object({ table: z.string(), rows: count })),
  })
  .readonly();

/** What the steps of a bounded run read of its stale tables. */
export type Staleness = z.output<typeof staleness>;

export const runResultSchema = z
  .object({
    run: z.string(),
    status: z.enum(["finished", "stopped-early", "cancelled"]),
    /** The cut of the returned model: the best one, where early stopping asked for it. */
    step: count,
    /** SHA-256 tree hash of the returned model: weights and optimizer state. */
    digest: z.string(),
    auc: figure.optional(),
    logLoss: figure.optional(),
    normalizedEntropy: figure.optional(),
    calibration: figure.optional(),
    history: list(cutRecord),
    /** Of all steps of training, each pass counted; tables without any are not in it. */
    repairedIds: list(repairedTable),
    /** What all steps read late; left out where no table has `staleness`. */
    staleness: staleness.optional(),
    /** What became of dynamic ids; left out where no table has any. */
    dynamicIds: list(dynamicTable).optional(),
    /** Checkpoint directory, and the manifest in it that the model is loaded from. */
    directory: z.string(),
    manifest: z.string(),
    /** The last generation: 1 where nothing failed. */
    generation: count,
    samplesPerSecond: figure,
    /** Where the time of the last generation's steps went, as far as its hosts have told. */
    times: stepTimes.optional(),
    /**
     * How long tiers of the last generation waited for room on a full disk, and how long their disk
     * was slow; left out where neither was.
     */
    disk: z.object({ pausedSeconds: seconds, slowSeconds: seconds }).readonly().optional(),
    /** Of each cached table, in the last generation: its curve, and what more memory would buy. */
    tiers: list(tableTiers).optional(),
    arithmetic: z.string(),
  })
  .readonly();

/** What a finished run returns. */
export type RunResult = z.output<typeof runResultSchema>;

const quarantined = z.object({ file: z.string(), line: count, reason: z.string() });
const hostShare = z.object({ host: count, devices: count });

const eventBody = z.discriminatedUnion("type", [
  z.object({ type: z.literal("run.queued"), name: z.string() }),
  /** There are not as many devices yet as it waits for. */
  z.object({ type: z.literal("run.waiting"), devices: count, wanted: count }),
  z.object({ type: z.literal("run.preparing"), fraction: z.number() }),
  z.object({
    type: z.literal("run.prepared"),
    samples: count,
    heldOut: count,
    steps: count,
    quarantined: count,
    quarantine: list(quarantined),
    bestAuc: figure.optional(),
  }),
  z.object({
    type: z.literal("run.started"),
    fromStep: count,
    steps: count,
    devices: count,
    /** Whose devices they are, in the order of their ranks. */
    hosts: list(hostShare),
    /** Slices of each device, by rank. */
    slices: list(count),
    arithmetic: z.string(),
    /** The one sentence where the kernels are slow, and why. */
    notice: z.string().optional(),
  }),
  z.object({
    type: z.literal("run.progress"),
    step: count,
    steps: count,
    loss: figure,
    samplesPerSecond: figure,
    /** As in the result, up to the last window of steps that ended. */
    repairedIds: list(repairedTable),
    staleness: staleness.optional(),
    dynamicIds: list(dynamicTable).optional(),
    /** Where the time of the steps went since the event before. */
    times: stepTimes.optional(),
  }),
  /** It goes on, but not as it should: what is wrong, and what to do about it. */
  z.object({
    type: z.literal("run.alert"),
    code: z.literal("PIPELINE_SERIAL"),
    step: count,
    message: z.string(),
    /** Of the steps that were judged. */
    times: stepTimes,
  }),
  /** What lies below a device's memory is not as it should be, or is again. */
  z.object({
    type: z.literal("run.tier"),
    device: count,
    state: z.enum(["serving", "paused", "slow"]),
    message: z.string(),
  }),
  /**
   * Rows of durable tables below a device, when a generation began: how many need not be read from
   * the checkpoint (`found`); and when it ended: how many stay beside it (`kept`). Why there are
   * none.
   */
  z.object({
    type: z.literal("run.durable"),
    device: count,
    action: z.enum(["found", "kept"]),
    rows: count,
    reason: z.string().optional(),
  }),
  z.object({ type: z.literal("run.evaluated"), step: count, metrics }),
  z.object({
    type: z.literal("run.checkpointed"),
    step: count,
    digest: z.string(),
    best: z.boolean(),
    bytes: count,
    /** Longest that a device stood still for it, of which it was kept by the one before. */
    stallMs: z.number(),
    waitedMs: z.number(),
    /** As in the result, so far. */
    tiers: list(tableTiers).optional(),
  }),
  z.object({
    type: z.literal("run.incident"),
    offender: z.string(),
    supervisor: z.string(),
    context: z.string(),
    error: errorRecord,
  }),
  /** `seconds`: from the incident to the first step after the restore. */
  z.object({ type: z.literal("run.recovered"), fromStep: count, seconds: z.number() }),
  /** A device that the others wait for: it computes a step `factor` times as long as they do. */
  z.object({
    type: z.literal("run.straggler"),
    device: count,
    host: count,
    factor: z.number(),
  }),
  /** It goes on with another number of devices, or with those of other hosts. */
  z.object({
    type: z.literal("run.scaled"),
    from: count,
    to: count,
    /** The cut at which it changed. */
    step: count,
    /** From when its devices were told to pause to the first step with the new ones. */
    seconds: z.number(),
  }),
  z.object({ type: z.literal("run.finished"), result: runResultSchema }),
  z.object({ type: z.literal("run.failed"), error: errorRecord }),
]);

/** What happened, as whoever tells it says. */
export type EventBody = Readonly<z.output<typeof eventBody>>;

export const runEventSchema = eventBody.and(
  z.object({
    /** Counts from 0, without gaps as long as its root lives. */
    seq: count,
    run: z.string(),
    generation: count,
  }),
);

/** What happened to a run. */
export type RunEvent = Readonly<z.output<typeof runEventSchema>>;

export const runStatusSchema = z.enum(["queued", "running", "finished", "failed", "cancelled"]);

export type RunStatus = z.output<typeof runStatusSchema>;
