// The events of a run, as they are published (docs/wire.md). Each is defined once: the types, and
// the JSON Schema that the job service returns, follow from these schemas.

import { z } from "zod";
import { linkChoiceSchema } from "../../../src/planner/fleet.ts";
import { shardPinSchema } from "../../../src/planner/plan-file.ts";
import { planReportSchema } from "../../../src/training/planning/plan-report.ts";
import { errorRecord, pushLag } from "../../../src/wire/messages/fields.ts";
import { columnValues, groupChoice, warningSchema } from "../../threads/generation-schema.ts";
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
  /** The cluster has fewer devices than the run waits for. */
  z.object({ type: z.literal("run.waiting"), devices: count, wanted: count }),
  z.object({ type: z.literal("run.preparing"), fraction: z.number() }),
  z.object({
    type: z.literal("run.prepared"),
    samples: count,
    heldOut: count,
    /** Samples of the test part; left out where there is none. */
    test: count.optional(),
    steps: count,
    quarantined: count,
    quarantine: list(quarantined),
    bestAuc: figure.optional(),
    bestRmse: figure.optional(),
    /** Groups of features whose lists repeat across samples, and whether they are deduplicated. */
    ikjt: list(groupChoice).optional(),
    /** Columns of which values may share rows of their table, with the number of values that do. */
    values: list(columnValues).optional(),
    /** Warnings about the data, as in the result. */
    warnings: list(warningSchema),
  }),
  /**
   * A damaged checkpoint was skipped. Its directory was renamed to `kept`, unless it was missing.
   */
  z.object({
    type: z.literal("run.damaged"),
    path: z.string(),
    kept: z.string().nullable(),
    reason: z.string(),
  }),
  /** A damaged data cache was rebuilt from its source. */
  z.object({ type: z.literal("run.cache"), path: z.string(), reason: z.string() }),
  z.object({
    type: z.literal("run.started"),
    fromStep: count,
    steps: count,
    devices: count,
    /** The hosts of the devices, in rank order. */
    hosts: list(hostShare),
    /** Slices per device, by rank. */
    slices: list(count),
    /** The placement of the tables, with its predicted costs. */
    plan: planReportSchema.readonly().optional(),
    /** Shards that are pinned to devices; `reason`: why a pin is not followed. */
    pins: list(shardPinSchema.extend({ reason: z.string().optional() })).optional(),
    /** How frames travel between the hosts, with the figures; left out: there is one host. */
    links: linkChoiceSchema.readonly().optional(),
    arithmetic: z.string(),
    /** The instruction sets of the devices; left out by runs of older versions. */
    sets: list(z.string()).optional(),
    /** A notice where slow kernels are used, with the reason. */
    notice: z.string().optional(),
  }),
  z.object({
    type: z.literal("run.progress"),
    step: count,
    steps: count,
    loss: figure,
    /**
     * Losses of some steps since the event before: those whose number is divisible by the smallest
     * power of two that leaves at most eight. The choice depends on the number alone, so that steps
     * repeated after a restore report the same steps.
     */
    losses: list(z.object({ step: count, loss: figure })).optional(),
    /** Mean of the last ten seconds, including checkpoints and evaluations. */
    samplesPerSecond: figure,
    /** Seconds that the other steps take at this speed; left out where none is known. */
    secondsLeft: z.number().optional(),
    /** Of asynchronous training: how far servers are behind, where they are most. */
    pushLag: pushLag.optional(),
    /** As in the result, up to the last finished window of steps. */
    repairedIds: list(repairedTable),
    staleness: staleness.optional(),
    dynamicIds: list(dynamicTable).optional(),
    /** Learning rates of the last step, after the job's schedules and plateaus. */
    learningRates: z.object({ dense: z.number(), sparse: z.number() }).optional(),
    /** Breakdown of the step time since the event before. */
    times: stepTimes.optional(),
  }),
  /** The run continues with a problem: `message` names it and a remedy. */
  z.object({
    type: z.literal("run.alert"),
    code: z.enum([
      ...(["PIPELINE_SERIAL", "RECOVERY_SLOW", "REPLAN_FAILED"] as const),
      ...(["CHECKPOINT_DISK_FULL", "CHECKPOINT_STORE_AWAY", "DEVICES_IDLE"] as const),
      ...(["CLOCKS_APART"] as const),
    ]),
    step: count,
    message: z.string(),
    /** `PIPELINE_SERIAL`: times of the assessed steps. */
    times: stepTimes.optional(),
  }),
  /**
   * Frames between hosts have changed their way. Each pair of hosts has two links: `direct` of them
   * are open, `broker` of them use the broker, with the reasons of some.
   */
  z.object({
    type: z.literal("run.link"),
    direct: count,
    broker: count,
    reasons: list(z.object({ from: z.string(), to: z.string(), reason: z.string() })),
  }),
  /** The state of a device's tier has changed. */
  z.object({
    type: z.literal("run.tier"),
    device: count,
    state: z.enum(["serving", "paused", "slow"]),
    message: z.string(),
  }),
  /**
   * Rows of durable tables in the tier of a device. `found`: rows that need not be read from the
   * checkpoint when a generation begins; `kept`: rows that stay beside the checkpoint when it ends.
   * `reason`: why there are none.
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
    /**
     * Longest stall of a device for this checkpoint, and the part of it spent waiting for the
     * previous checkpoint.
     */
    stallMs: z.number(),
    waitedMs: z.number(),
    /** True where the checkpoint was requested and is not one of the job's own schedule. */
    requested: z.literal(true).optional(),
    /** As in the result, up to this checkpoint. */
    tiers: list(tableTiers).optional(),
  }),
  /** Published once per incident, when it is noticed; with its end if it was mended at once. */
  incidentCause.unwrap().extend({
    type: z.literal("run.incident"),
    actions: list(incidentAction).optional(),
    end: incidentEnd.optional(),
  }),
  z.object({
    type: z.literal("run.recovered"),
    fromStep: count,
    ...restored,
    /** The incidents that this restore ended, each with all actions taken. */
    incidents: list(incidentRecord),
  }),
  ...recoveryEvents,
  /**
   * A straggler: the device computes a step `factor` times as long as the others, which wait for
   * it.
   */
  z.object({
    type: z.literal("run.straggler"),
    device: count,
    host: count,
    factor: z.number(),
  }),
  /** A host of the run leaves, and ends after `seconds` in any case. */
  z.object({
    type: z.literal("run.draining"),
    host: count,
    reason: z.string(),
    seconds: z.number(),
  }),
  /** The run continues with another number of devices, or with devices of other hosts. */
  z.object({
    type: z.literal("run.scaled"),
    from: count,
    to: count,
    /** The cut at which the devices changed. */
    step: count,
    /** From the pause command to the first step with the new devices. */
    seconds: z.number(),
  }),
  /** The run continues with these shards on other devices. Other fields as in `run.scaled`. */
  z.object({
    type: z.literal("run.moved"),
    shards: list(shardPinSchema),
    step: count,
    seconds: z.number(),
  }),
  /**
   * A new plan was assessed by the measured times of the devices (`planner.adapt`). `now`,
   * `planned`: predicted seconds of a step with the present and the new plan; `gain`: saved share
   * of a step; `savesSeconds`: saved in the remaining steps; `moveSeconds`: duration of the move.
   */
  z.object({
    type: z.literal("run.replanned"),
    step: count,
    now: z.number(),
    planned: z.number(),
    gain: z.number(),
    savesSeconds: z.number(),
    moveSeconds: z.number(),
    /** Whether the run moves to the new plan. */
    isTaken: z.boolean(),
  }),
  /** The run continues with another plan on the same devices. Other fields as in `run.scaled`. */
  z.object({ type: z.literal("run.adapted"), step: count, seconds: z.number() }),
  /**
   * The preprocessing workers of the run, and how many are wanted. Shares of the last second:
   * `busy` of the workers' time, `stalled` of the readers' time, `buffered` of the splits that
   * readers need next. `splits`, `samples`: produced so far; `retries`: splits produced again.
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
  /** A user limited the readers to this rate in samples per second; 0: the limit was lifted. */
  z.object({ type: z.literal("run.limited"), samplesPerSecond: count, step: count }),
  /**
   * A reader's thread was replaced on a user's request. `isForced`: the thread was terminated
   * because it did not finish its batch in time. `step`: the step that the new thread continues
   * with.
   */
  z.object({
    type: z.literal("run.drained"),
    reader: count,
    isForced: z.boolean(),
    step: count,
  }),
  /**
   * The run wrote a checkpoint at `step` and released its devices; it continues when it is resumed.
   */
  z.object({ type: z.literal("run.paused"), step: count }),
  /**
   * Like `run.paused`, to make room for the run `by`; it continues once it gets an allocation
   * again.
   */
  z.object({ type: z.literal("run.preempted"), step: count, by: z.string() }),
  z.object({ type: z.literal("run.resumed") }),
  /**
   * A new leader took over the run and cannot know which events after `last` the former leader
   * published: no event has the numbers between `last` and `first`. `first` is this event's own
   * number.
   */
  z.object({ type: z.literal("run.renumbered"), last: z.int().min(-1), first: count }),
  z.object({ type: z.literal("run.finished"), result: runResultSchema }),
  z.object({ type: z.literal("run.failed"), error: errorRecord }),
]);

/** An event without the fields that the run's record adds (`seq`, `run`, `generation`). */
export type EventBody = Readonly<z.output<typeof eventBody>>;

export const eventTypes: readonly EventBody["type"][] = eventBody.options.map(
  ({ shape }) => shape.type.value,
);

export const runEventSchema = eventBody.and(
  z.object({
    /** Sequence number from 0, without gaps except those of `run.renumbered`. */
    seq: count,
    run: z.string(),
    generation: count,
  }),
);

/** An event of a run, as it is published. */
export type RunEvent = Readonly<z.output<typeof runEventSchema>>;

/** Events of a run that are kept for late subscribers; the oldest are dropped first. */
export const eventsMax = 10_000;

/**
 * Events that only a run outside of the queue has. `run.progress` is among them because it pushes
 * the other ones out of a long run's kept events (`eventsMax`).
 */
export const beginnings: ReadonlySet<RunEvent["type"]> = new Set([
  ...(["run.waiting", "run.preparing", "run.prepared", "run.started", "run.progress"] as const),
]);

export const runStatusSchema = z.enum([
  "queued",
  "running",
  "paused",
  "finished",
  "failed",
  "cancelled",
]);

/** The status of a run, in the job service's answers and in reports. */
export type RunStatus = z.output<typeof runStatusSchema>;
