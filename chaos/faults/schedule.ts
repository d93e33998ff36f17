// The schedule of a chaos run: its faults, with places and moments, as plain data. It is drawn from
// a seed (draw.ts) or written by hand, printed before the run, and replayed from a file.
//
// Moments are steps and events of the run, and lengths are steps, frames, disk operations or shares
// of the job's step deadline, never wall time: a schedule means the same on a machine that is ten
// times slower.

import { z } from "zod";
import { checkOptions } from "../../src/ports/check-options.ts";

const when = z.strictObject({
  /** Number of completed steps. */
  step: z.int().min(0),
  /**
   * The first such phase from that step on; `recovery`: the restore after an earlier fault of the
   * schedule. @default "step"
   */
  during: z.enum(["step", "evaluation", "checkpoint", "recovery"]).default("step"),
  /** Number of stores, waits and disk operations of the thread after that. @default 0 */
  point: z.int().min(0).max(10_000).default(0),
});

/** The moment of a fault. */
export type Moment = z.output<typeof when>;

/** Names of places, by kind. */
const places = {
  /** A thread of any host, named by its actor. */
  thread: { form: "thread:(?:prepare|[a-z]+:\\d+)", example: "thread:device:1" },
  /** An actor's state machine, on the main thread of its process. */
  actor: { form: "actor:[a-z]+:\\d+", example: "actor:coordinator:0" },
  /** The leader's process, or a process that joined as a host. */
  process: { form: "process:(?:leader|host:[1-9]\\d*)", example: "process:host:1" },
  any: { form: "\\*", example: "*" },
} as const;

function placeOf(...kinds: readonly (keyof typeof places)[]) {
  const forms = kinds.map((kind) => places[kind].form).join("|");
  const examples = kinds.map((kind) => `\`${places[kind].example}\``).join(" or ");
  return z.string().regex(new RegExp(`^(?:${forms})$`), `a place as ${examples}`);
}

const end = placeOf("any", "process").default("*");

const index = z.int().min(1);
/** A length in step deadlines of the job. */
const deadlines = z.number().gt(0).max(20);

const frames = { subject: z.string().default(">"), from: end, to: end, when };

const faultSchema = z.discriminatedUnion("what", [
  z.strictObject({ what: z.literal("kill"), where: placeOf("thread", "process"), when }),
  z.strictObject({
    what: z.literal("pause"),
    where: placeOf("thread", "actor", "process"),
    when,
    deadlines,
  }),
  z.strictObject({
    what: z.literal("slow"),
    where: placeOf("thread", "process"),
    when,
    steps: index,
  }),
  z.strictObject({ what: z.literal("exception"), where: placeOf("thread", "actor"), when }),
  z.strictObject({ what: z.literal("out-of-memory"), where: placeOf("thread", "process"), when }),
  z.strictObject({ what: z.literal("nan"), where: placeOf("thread"), when }),
  z.strictObject({ what: z.literal("drop"), ...frames, frames: index }),
  z.strictObject({ what: z.literal("delay"), ...frames, frames: index, deadlines }),
  z.strictObject({ what: z.literal("duplicate"), ...frames, frames: index }),
  z.strictObject({ what: z.literal("reorder"), ...frames, frames: index }),
  z.strictObject({ what: z.literal("corrupt"), ...frames, frames: index }),
  z.strictObject({ what: z.literal("partition"), from: end, to: end, when, deadlines }),
  /** The direct links of a host's bridge, all at once. */
  z.strictObject({ what: z.literal("link-cut"), where: placeOf("thread"), when }),
  z.strictObject({ what: z.literal("broker-kill"), when, deadlines }),
  z.strictObject({ what: z.literal("broker-restart"), when, deadlines }),
  z.strictObject({ what: z.literal("broker-forget"), when, frames: index }),
  z.strictObject({
    what: z.literal("disk-full"),
    where: placeOf("thread", "process"),
    when,
    operations: index,
  }),
  z.strictObject({
    what: z.literal("disk-slow"),
    where: placeOf("thread", "process"),
    when,
    operations: index,
  }),
  z.strictObject({ what: z.literal("torn-write"), where: placeOf("thread", "process"), when }),
  z.strictObject({ what: z.literal("flipped-bit"), where: placeOf("thread", "process"), when }),
  z.strictObject({ what: z.literal("lost-sync"), where: placeOf("thread", "process"), when }),
  z.strictObject({
    what: z.literal("move"),
    when,
    shard: z.int().min(0),
    device: z.int().min(0),
  }),
  z.strictObject({ what: z.literal("freeze"), when, shard: z.int().min(0) }),
  z.strictObject({ what: z.literal("drain"), when, reader: z.int().min(0) }),
  /** A temporary rate limit; `samples`: per second, of all readers together. */
  z.strictObject({ what: z.literal("rate"), when, samples: index, deadlines }),
  z.strictObject({
    what: z.literal("clock-skew"),
    where: placeOf("process"),
    when,
    /** Jump of the clock in step deadlines; negative: backwards. */
    deadlines: z.number().min(-20).max(20),
  }),
]);

/** A fault: kind, place, moment and length. */
export type Fault = z.output<typeof faultSchema>;
export type FaultKind = Fault["what"];

/** All kinds of faults, by the groups of `--faults`. */
export const faultGroups = {
  threads: ["kill", "pause", "slow", "exception", "out-of-memory", "nan"],
  messages: ["drop", "delay", "duplicate", "reorder", "corrupt", "partition", "link-cut"],
  broker: ["broker-kill", "broker-restart", "broker-forget"],
  disk: ["disk-full", "disk-slow", "torn-write", "flipped-bit", "lost-sync"],
  clock: ["clock-skew"],
  shards: ["move", "freeze"],
  readers: ["drain", "rate"],
} as const satisfies Record<string, readonly FaultKind[]>;

export const faultKinds: readonly FaultKind[] = Object.values(faultGroups).flat();

const scheduleSchema = z.strictObject({
  version: z.literal(1),
  /** The seed that it was drawn from; null for a schedule written by hand. */
  seed: z.int().min(0).nullable().default(null),
  /** Devices per host, and hosts that join as separate processes (0: none). */
  environment: z.strictObject({
    devices: z.int().min(1).max(128),
    hosts: z.int().min(0).max(16),
  }),
  faults: z.array(faultSchema).max(1000),
});

/** The faults of a run, and its number of processes and devices. */
export type Schedule = z.output<typeof scheduleSchema>;
/** A schedule written by hand: defaults may be left out. */
export type ScheduleOptions = z.input<typeof scheduleSchema>;
/** A fault written by hand. */
export type FaultOptions = z.input<typeof faultSchema>;

/**
 * Validates a schedule and fills in defaults. @throws InvalidOptionError naming the invalid option
 */
export function checkSchedule(given: unknown): Schedule {
  return checkOptions(scheduleSchema, given, "schedule");
}

/** A readable description: `kill thread:device:1 at step 120, during a checkpoint`. */
export function sentenceOf(fault: Fault): string {
  const { step, during, point } = fault.when;
  const words = {
    step: `at step ${step}`,
    evaluation: `in the evaluation after step ${step}`,
    checkpoint: `in the checkpoint after step ${step}`,
    recovery: "during the recovery of an earlier fault",
  };
  const at = `${words[during]}${point === 0 ? "" : `, point ${point}`}`;
  return `${fault.what} ${targetOf(fault)} ${at}${lengthOf(fault)}`.replace(/ +/g, " ");
}

/** The place of a fault; for frames, the subject and the processes. */
export function targetOf(fault: Fault): string {
  if ("where" in fault) return fault.where;
  if (fault.what === "move") return `shard:${fault.shard} to device:${fault.device}`;
  if (fault.what === "freeze") return `shard:${fault.shard}`;
  if (fault.what === "drain") return `reader:${fault.reader}`;
  if (fault.what === "rate") return `readers to ${fault.samples} samples/s`;
  if (!("from" in fault)) return "";
  const pair = `${fault.from} → ${fault.to}`;
  return "subject" in fault ? `${fault.subject} (${pair})` : pair;
}

function lengthOf(fault: Fault): string {
  const parts: string[] = [];
  if ("steps" in fault) parts.push(`${fault.steps} steps`);
  if ("frames" in fault) parts.push(`${fault.frames} frames`);
  if ("operations" in fault) parts.push(`${fault.operations} operations`);
  if ("deadlines" in fault) parts.push(`${fault.deadlines} step deadlines`);
  return parts.length === 0 ? "" : `, for ${parts.join(", ")}`;
}
