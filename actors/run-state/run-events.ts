// What a run tells: its events, as they are published (docs/wire.md). Each is defined once: types
// follow from the schemas, and the JSON Schema that the job service answers.

import { z } from "zod";
import { shardPinSchema } from "../../src/planner/plan-file.ts";
import { planReportSchema } from "../../src/training/planning/run-plan.ts";
import { errorRecord } from "../../src/wire/messages/messages.ts";
import { columnValues, groupChoice, warningSchema } from "../threads/generation-schema.ts";
import { incidentAction, incidentCause, incidentEnd, incidentRecord } from "./incident-record.ts";
import { recoveryEvents, restored } from "./recovery-events.ts";
import {
  count,
  dynamicTable,
  figure,
  list,
  metrics,
  repairedTable,
  runResultSchema,
  staleness,
  stepTimes,
  tableTiers,
} from "./run-result.ts";

const quarantined = z.object({
  file: z.string(),
  line: count,
  rowGroup: count.optional(),
  recordBatch: count.optional(),
  reason: z.string(),
});
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
    /** Samples of the test; left out where there is none. */
    test: count.optional(),
    steps: count,
    quarantined: count,
    quarantine: list(quarantined),
    bestAuc: figure.optional(),
    bestRmse: figure.optional(),
    /** Groups of features whose lists repeat, and whether they are deduplicated. */
    ikjt: list(groupChoice).optional(),
    /** Of columns whose values may share rows of their tables: how many do. */
    values: list(columnValues).optional(),
    /** What a person should know of the data; as in the result. */
    warnings: list(warningSchema),
  }),
  /**
   * A damaged checkpoint was passed over: its directory was put aside under the name `kept`, unless
   * nothing of it was there.
   */
  z.object({
    type: z.literal("run.damaged"),
    path: z.string(),
    kept: z.string().nullable(),
    reason: z.string(),
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
    /** How the tables are placed, and what is predicted of it. */
    plan: planReportSchema.readonly().optional(),
    /** Shards that are pinned to devices; with a reason, those that lie elsewhere nevertheless. */
    pins: list(shardPinSchema.extend({ reason: z.string().optional() })).optional(),
    arithmetic: z.string(),
    /** The one sentence where the kernels are slow, and why. */
    notice: z.string().optional(),
  }),
  z.object({
    type: z.literal("run.progress"),
    step: count,
    steps: count,
    loss: figure,
    /**
     * Losses of some steps since the event before: those whose numbers divide by the smallest power
     * of two that leaves eight at most. Steps that are done again so tell of the same steps.
     */
    losses: list(z.object({ step: count, loss: figure })).optional(),
    /** The mean of the last ten seconds, checkpoints and evaluations among them. */
    samplesPerSecond: figure,
    /** As in the result, up to the last window of steps that ended. */
    repairedIds: list(repairedTable),
    staleness: staleness.optional(),
    dynamicIds: list(dynamicTable).optional(),
    /** Of the last step: as the job's schedules and plateaus have left them. */
    learningRates: z.object({ dense: z.number(), sparse: z.number() }).optional(),
    /** Where the time of the steps went since the event before. */
    times: stepTimes.optional(),
  }),
  /** It goes on, but not as it should: what is wrong, and what to do about it. */
  z.object({
    type: z.literal("run.alert"),
    code: z.enum(["PIPELINE_SERIAL", "RECOVERY_SLOW", "REPLAN_FAILED", "CHECKPOINT_DISK_FULL"]),
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
  /** The run goes on with these shards on other devices. The rest is as of `run.scaled`. */
  z.object({
    type: z.literal("run.moved"),
    shards: list(shardPinSchema),
    step: count,
    seconds: z.number(),
  }),
  /**
   * Another plan was sought by what its devices have measured (`planner.adapt`). `now`, `planned`:
   * seconds of a step by the present plan and by that one, as predicted; `gain`: the share that is
   * saved; `savesSeconds`: in the steps that are left; `moveSeconds`: what the move takes.
   */
  z.object({
    type: z.literal("run.replanned"),
    step: count,
    now: z.number(),
    planned: z.number(),
    gain: z.number(),
    savesSeconds: z.number(),
    moveSeconds: z.number(),
    /** Whether the run goes on with it. */
    isTaken: z.boolean(),
  }),
  /** The run goes on with another plan on the same devices. The rest is as of `run.scaled`. */
  z.object({ type: z.literal("run.adapted"), step: count, seconds: z.number() }),
  /**
   * Its preprocessing workers, and how many there should be; shares of the last second: `busy` of
   * the workers' time, `stalled` of the readers' time, `buffered` of the splits that readers need
   * next. `splits`, `samples`, `retries`: made so far, and made again.
   */
  z.object({
    type: z.literal("run.workers"),
    workers: count,
    wanted: count,
    busy: z.number(),
    stalled: z.number(),
    buffered: z.number(),
    splits: count,
    samples: count,
    retries: count,
  }),
  /** Its readers keep to so many samples a second, as a user wants it; 0: to no limit any more. */
  z.object({ type: z.literal("run.limited"), samplesPerSecond: count, step: count }),
  /**
   * The thread of a reader was replaced, as a user wants it. `isForced`: it did not come to the end
   * of its batch in time, and was ended. `step`: what the reader goes on with.
   */
  z.object({
    type: z.literal("run.drained"),
    reader: count,
    isForced: z.boolean(),
    step: count,
  }),
  /** It has let go of its devices, with a checkpoint at `step`, and goes on when it is resumed. */
  z.object({ type: z.literal("run.paused"), step: count }),
  /** The same, to make room for another run; it goes on once it gets its allocation again. */
  z.object({ type: z.literal("run.preempted"), step: count, by: z.string() }),
  z.object({ type: z.literal("run.resumed") }),
  /**
   * A new leader took the run up, and cannot know what the leader before it told after `last`: the
   * numbers between are nobody's. `first` is this event's own.
   */
  z.object({ type: z.literal("run.renumbered"), last: z.int().min(-1), first: count }),
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
    /** Counts from 0, without gaps; only run.renumbered leaves numbers out. */
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
