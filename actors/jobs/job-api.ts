// The methods of the job service: requests and replies, defined once as schemas. They check
// requests, give the types, and are published as JSON Schema.
//
//   submit      { job, key? }          → { run, status, events }     persisted before the reply
//   list        { after?, most? }      → { runs: [ … ], next? }
//   status      { run }                → { run, name, status, … }
//   logs        { run, after?, most? } → { lines: [ … ], next }
//   events      { run, since?, most? } → { events: [ … ] }
//   pause       { run }                → { run, status }     after a checkpoint; frees its devices
//   resume      { run }                → { run, status }
//   scale       { run, devices }       → { run, status, devices }
//   move        { run, shard, device } → { run, status, shard }      and pins it to the device
//   freeze      { run, shard }         → { run, status, shard }      pins it to its current device
//   thaw        { run, shard }         → { run, status, shard }      removes its pin
//   flush       { run, device }        → { run, device, rows }       from host memory to its disk
//   rate        { run, samplesPerSecond } → { run, status, samplesPerSecond }    0: no limit
//   drain       { run, reader }        → { run, reader, isForced, position }     on completion
//   checkpoint  { run }                → { run, step, digest }       once it is committed
//   cancel      { run }                → { run, status }
//   schema      { }                    → { version, job, requests, replies, event }

import { z } from "zod";
import { jobJsonSchema } from "../../src/job/job-json-schema.ts";
import { errorRecord } from "../../src/wire/messages/fields.ts";
import { incidentRecord } from "../run/state/incident-record.ts";
import { runEventSchema, runStatusSchema } from "../run/state/run-events.ts";
import { runResultSchema } from "../run/state/run-result.ts";

/** Version of the published schemas. Grows when an existing part changes. */
export const schemaVersion = 1;

const run = z.string().min(1).max(128);
const ofRun = z.strictObject({ run });
const count = z.int().min(0);

/** Above the rate of any machine, and within a word of shared memory. */
const samplesPerSecondMax = 2 ** 31 - 1;

/** The schemas of requests, by method. */
export const requests = {
  submit: z.strictObject({ job: z.unknown(), key: z.string().min(1).max(256).optional() }),
  list: z.strictObject({
    /** `next` of the previous reply; left out, or no longer known: starts at the first run. */
    after: run.optional(),
    most: z.int().min(1).max(1000).default(1000),
  }),
  status: ofRun,
  logs: z.strictObject({
    run,
    /** `next` of the previous reply; left out: starts at the first stored line. */
    after: z.string().max(4096).default(""),
    most: z.int().min(1).max(500).default(100),
  }),
  events: z.strictObject({
    run,
    since: count.default(0),
    most: z.int().min(1).max(500).default(100),
  }),
  pause: ofRun,
  resume: ofRun,
  scale: z.strictObject({ run, devices: z.int().min(1) }),
  move: z.strictObject({ run, shard: count, device: count }),
  freeze: z.strictObject({ run, shard: count }),
  thaw: z.strictObject({ run, shard: count }),
  flush: z.strictObject({ run, device: count }),
  rate: z.strictObject({ run, samplesPerSecond: count.max(samplesPerSecondMax) }),
  drain: z.strictObject({ run, reader: count }),
  checkpoint: ofRun,
  cancel: ofRun,
  schema: z.strictObject({}),
} as const;

export type JobMethod = keyof typeof requests;

export const jobMethods = Object.keys(requests) as JobMethod[];

const runLine = z.object({
  run,
  name: z.string(),
  /** The tenant that owns the run; left out: the cluster's operator. */
  tenant: z.string().optional(),
  status: runStatusSchema,
  priority: z.int(),
  /** Completed and total steps, as far as the run has reported them. */
  step: count.optional(),
  steps: count.optional(),
});

const runSummary = runLine.extend({
  result: runResultSchema.optional(),
  error: errorRecord.optional(),
  /** The run's checkpoint directory. */
  directory: z.string(),
  /** The newest incidents, oldest first. */
  incidents: z.array(incidentRecord).readonly(),
  /** The job's step deadline, from which clients derive how long to wait. */
  stepDeadlineMs: count,
  /** The job, option by option, without secrets in addresses of its data. */
  options: z
    .array(z.object({ option: z.string(), value: z.string() }))
    .readonly()
    .optional(),
});

/** Whether a run of this status is over for good. */
export function isOverAt(status: RunLine["status"]): boolean {
  return status === "finished" || status === "failed" || status === "cancelled";
}

/** One run in the reply of `list`. */
export type RunLine = Readonly<z.output<typeof runLine>>;

/** One run in the reply of `status`. */
export type RunSummary = Readonly<z.output<typeof runSummary>>;

const runStatus = z.object({ run, status: runStatusSchema });

/** A shard: its number, its part of a table, and its device. */
const namedShard = z.object({
  shard: count,
  table: z.string(),
  firstRow: count,
  rows: count,
  firstColumn: count,
  columns: count,
  device: count,
  /** The shard's pin after the request; left out: none. */
  pin: z.object({ device: count, isFrozen: z.boolean() }).optional(),
});

const ofShard = runStatus.extend({ shard: namedShard });

/** A shard after it was moved, frozen or thawed. */
export type NamedShard = Readonly<z.output<typeof namedShard>>;

const drainedReader = z.object({
  run,
  reader: count,
  /** Whether the thread did not finish its batch in time, and was terminated. */
  isForced: z.boolean(),
  /**
   * Position at which the new thread continues: step, epoch (`pass`), and first sample in the
   * epoch.
   */
  position: z.object({ step: count, pass: count, sample: count }),
});

/** A reader after its thread was replaced. */
export type DrainedReader = Readonly<z.output<typeof drainedReader>>;

const jsonSchema = z.record(z.string(), z.unknown());

/** The schemas of replies, by method. */
export const replies = {
  submit: runStatus.extend({
    /** The subject on which its events are published. */
    events: z.string(),
  }),
  list: z.object({
    /** In the order of submission. */
    runs: z.array(runLine),
    /** `after` of the next request; left out: this was the last page. */
    next: run.optional(),
  }),
  status: runSummary,
  logs: z.object({
    /** `time`, `level`, `message`, and context fields. */
    lines: z.array(z.record(z.string(), z.unknown())),
    /** `after` of the next request. */
    next: z.string(),
  }),
  events: z.object({ events: z.array(runEventSchema) }),
  pause: runStatus,
  resume: runStatus,
  scale: runStatus.extend({ devices: count }),
  move: ofShard,
  freeze: ofShard,
  thaw: ofShard,
  flush: z.object({ run, device: count, rows: count }),
  rate: runStatus.extend({ samplesPerSecond: count }),
  drain: drainedReader,
  checkpoint: z.object({ run, step: count, digest: z.string() }),
  cancel: runStatus,
  schema: z.object({
    version: count,
    job: jsonSchema,
    requests: jsonSchema,
    replies: jsonSchema,
    event: jsonSchema,
  }),
} as const satisfies Record<JobMethod, z.ZodType>;

export type RequestOf<Method extends JobMethod> = z.output<(typeof requests)[Method]>;
export type ReplyOf<Method extends JobMethod> = Readonly<z.output<(typeof replies)[Method]>>;

let published: ReplyOf<"schema"> | undefined;

/**
 * JSON Schema of jobs and requests, as clients send them, and of replies and events. Cached,
 * because making it takes some 20 ms.
 */
export function publishedSchemas(): ReplyOf<"schema"> {
  published ??= schemasNow();
  return published;
}

function schemasNow(): ReplyOf<"schema"> {
  const schemaOf = (schema: z.ZodType) =>
    z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  const all = (schemas: Readonly<Record<string, z.ZodType>>) =>
    Object.fromEntries(
      Object.entries(schemas).map(([method, schema]) => [method, schemaOf(schema)]),
    );
  return {
    version: schemaVersion,
    job: jobJsonSchema(),
    requests: all(requests),
    replies: all(replies),
    event: schemaOf(runEventSchema),
  };
}
