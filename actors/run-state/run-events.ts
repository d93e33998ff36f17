// What a run tells: its events and result, as they are published (docs/wire.md). Each is defined
// once: types follow from the schemas, and the JSON Schema that the job service answers.

import { z } from "zod";
import type { Metrics } from "../../src/training/loop/metrics.ts";
import { type StepTimes, waitedFor } from "../../src/training/meters/step-meter.ts";
import type { TableTiers } from "../../src/training/planning/tier-advice.ts";
import { errorRecord } from "../../src/wire/messages/messages.ts";
import type { Wait } from "../runtime/wait-graph.ts";
import { lostSchema, recoveryEvents, restored } from "./recovery-events.ts";

const count = z.int().min(0);
const seconds = z.number().min(0);
const list = <Item extends z.ZodType>(item: Item) => z.array(item).readonly();
/**
 * Not a number where the samples do not define it, which JSON writes as null: the schema is of what
 * is published, the type of what is said here.
 */
const figure = z.number().nullable() as unknown as z.ZodType<number>;

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

const stepTimes: z.ZodType<StepTimes> = z.object({
  steps: z.number(),
  stepMs: z.number(),
  readMs: z.number(),
  batchesThere: z.number(),
  shares: z.record(z.enum(["computing", "sendingIds", ...waitedFor]), z.number()),
  tiers: tierRates.exactOptional(),
});

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

const wait: z.ZodType<Wait> = z.object({
  who: z.string(),
  whom: z.string(),
  what: z.string(),
  forMs: z.number(),
  step: count.optional(),
});

const incidentCause = z
  .object({
    /** Counted from 1 in a run. */
    incident: count,
    /** When it was noticed: ISO 8601. */
    at: z.string(),
    /** The actor that failed: `device:1`. */
    offender: z.string(),
    supervisor: z.string(),
    /** The message that it was at, or the part of its life. */
    context: z.string(),
    error: errorRecord,
    host: count.optional(),
    /** Steps that were done. */
    step: count.optional(),
    /** The batch of the step that came next: its pass, and its number in it, both from 0. */
    batch: z.object({ pass: count, index: count }).readonly().optional(),
    /** Who noticed, where the offender itself said nothing. */
    noticedBy: z.string().optional(),
    /** Who waited for whom. */
    waits: list(wait).optional(),
  })
  .readonly();

/** First cause: what, where and when. */
export type IncidentCause = z.output<typeof incidentCause>;

const afterMs = { afterMs: z.number() };
const incidentAction = z
  .object({
    /** `host:1`, `job:r1` */
    by: z.string(),
    did: z.string(),
    /** Since the incident was noticed. */
    ...afterMs,
  })
  .readonly();

/** What a supervisor did about an incident. */
export type IncidentAction = z.output<typeof incidentAction>;

const incidentEnd = z
  .object({
    /** `restored`: from a checkpoint; `mended`: without; `failed`: the run ended by it. */
    how: z.enum(["restored", "mended", "failed"]),
    /** The generation that goes on, and the step from which. */
    generation: count,
    step: count,
    /** From when it was noticed to the first step after it. */
    ...afterMs,
  })
  .readonly();

/** How an incident ended. */
export type IncidentEnd = z.output<typeof incidentEnd>;

const followed = { actor: z.string(), code: z.string(), message: z.string(), ...afterMs };
export const incidentRecord = incidentCause
  .unwrap()
  .extend({
    generation: count,
    /** What failed because of it, as far as it was heard of. */
    followed: list(z.object(followed)),
    actions: list(incidentAction),
    /** Left out while it lasts. */
    end: incidentEnd.optional(),
  })
  .readonly();

/** One incident, whole. */
export type IncidentRecord = z.output<typeof incidentRecord>;

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
    times: stepTimes.optional(),
    /**
     * How long tiers of the last generation waited for room on a full disk, and how long their disk
     * was slow; left out where neither was.
     */
    disk: z.object({ pausedSeconds: seconds, slowSeconds: seconds }).readonly().optional(),
    /** Of each cached table, in the last generation: its curve, and what more memory would buy. */
    tiers: list(tableTiers).optional(),
    arithmetic: z.string(),
    /** What failed while it was trained, oldest first: the newest of them. */
    incidents: list(incidentRecord),
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
  /** A damaged data cache was made anew from its source. */
  z.object({ type: z.literal("run.cache"), path: z.string(), reason: z.string() }),
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
    /** The mean of the last ten seconds, checkpoints and evaluations among them. */
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
    code: z.enum(["PIPELINE_SERIAL", "RECOVERY_SLOW"]),
    step: count,
    message: z.string(),
    /** `PIPELINE_SERIAL`: of the steps that were judged. */
    times: stepTimes.optional(),
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
    /** Longest stall of a device for it, and the part spent waiting for the checkpoint before. */
    stallMs: z.number(),
    waitedMs: z.number(),
    /** Whether somebody asked for it, and the job itself may not have made it. */
    asked: z.literal(true).optional(),
    /** As in the result, so far. */
    tiers: list(tableTiers).optional(),
  }),
  /** One for each incident, when it is noticed; with its end where it was mended at once. */
  incidentCause.unwrap().extend({
    type: z.literal("run.incident"),
    actions: list(incidentAction).optional(),
    end: incidentEnd.optional(),
  }),
  z.object({
    type: z.literal("run.recovered"),
    fromStep: count,
    ...restored,
    /** The incidents that ended with it, each with all that was done about it. */
    incidents: list(incidentRecord),
  }),
  ...recoveryEvents,
  /** A device that the others wait for: it computes a step `factor` times as long as they do. */
  z.object({
    type: z.literal("run.straggler"),
    device: count,
    host: count,
    factor: z.number(),
  }),
  /** The run goes on with another number of devices, or with devices of other hosts. */
  z.object({
    type: z.literal("run.scaled"),
    from: count,
    to: count,
    /** The cut at which it changed. */
    step: count,
    /** From when its devices were told to pause to the first step with the new ones. */
    seconds: z.number(),
  }),
  /** It has let go of its devices, with a checkpoint at `step`, and goes on when it is resumed. */
  z.object({ type: z.literal("run.paused"), step: count }),
  /** The same, to make room for another run; it goes on once it gets its allocation again. */
  z.object({ type: z.literal("run.preempted"), step: count, by: z.string() }),
  z.object({ type: z.literal("run.resumed") }),
  z.object({ type: z.literal("run.finished"), result: runResultSchema }),
  z.object({ type: z.literal("run.failed"), error: errorRecord }),
]);

/** What happened, as its teller says it. */
export type EventBody = Readonly<z.output<typeof eventBody>>;

/** What may happen. */
export const eventTypes: readonly EventBody["type"][] = eventBody.options.map(
  ({ shape }) => shape.type.value,
);

export const runEventSchema = eventBody.and(
  z.object({
    /** Counts from 0, without gaps as long as its leader lives. */
    seq: count,
    run: z.string(),
    generation: count,
  }),
);

/** What happened to a run. */
export type RunEvent = Readonly<z.output<typeof runEventSchema>>;

export const runStatusSchema = z.enum([
  "queued",
  "running",
  "paused",
  "finished",
  "failed",
  "cancelled",
]);

export type RunStatus = z.output<typeof runStatusSchema>;
