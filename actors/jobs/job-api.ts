// The methods of the job service: what each takes and what it answers, defined once: they are
// checked by it, their types follow from it, and it is published as JSON Schema.
//
//   submit      { job, key? }          → { run, status, events }     kept before it is answered
//   list        { after?, most? }      → { runs: [ … ], next? }
//   status      { run }                → { run, name, status, … }
//   logs        { run, after?, most? } → { lines: [ … ], next }
//   events      { run, since?, most? } → { events: [ … ] }
//   pause       { run }                → { run, status }     a checkpoint, and its devices are free
//   resume      { run }                → { run, status }
//   scale       { run, devices }       → { run, status, devices }
//   move        { run, shard, device } → { run, status, shard }      and pins it there
//   freeze      { run, shard }         → { run, status, shard }      pins it where it is
//   thaw        { run, shard }         → { run, status, shard }      it is pinned no more
//   flush       { run, device }        → { run, device, rows }       from host memory to its disk
//   rate        { run, samplesPerSecond } → { run, status, samplesPerSecond }    0: no limit
//   drain       { run, reader }        → { run, reader, isForced, position }     once it is done
//   checkpoint  { run }                → { run, step, digest }       once it is committed
//   cancel      { run }                → { run, status }
//   schema      { }                    → { version, job, requests, replies, event }

import { z } from "zod";
import { jobJsonSchema } from "../../src/job/job-json-schema.ts";
import { errorRecord } from "../../src/wire/messages/messages.ts";
import { incidentRecord } from "../run/state/incident-record.ts";
import { runEventSchema, runStatusSchema } from "../run/state/run-events.ts";
import { runResultSchema } from "../run/state/run-result.ts";

/** Of all that is published here. Grows when something is changed that was there. */
export const schemaVersion = 1;

const run = z.string().min(1).max(128);
const ofRun = z.strictObject({ run });
const count = z.int().min(0);

/** More than any machine reads, and a word of shared memory. */
const samplesPerSecondMax = 2 ** 31 - 1;

/** What each method takes. */
export const requests = {
  submit: z.strictObject({ job: z.unknown(), key: z.string().min(1).max(256).optional() }),
  list: z.strictObject({
    /** `next` of the answer before; left out, or forgotten meanwhile: from the first run. */
    after: run.optional(),
    most: z.int().min(1).max(1000).default(1000),
  }),
  status: ofRun,
  logs: z.strictObject({
    run,
    /** `next` of the answer before; left out: from the first line that is kept. */
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
  /** Steps done and to be done, as far as it has told. */
  step: count.optional(),
  steps: count.optional(),
});

const runSummary = runLine.extend({
  result: runResultSchema.optional(),
  error: errorRecord.optional(),
  /** Where its checkpoints lie. */
  directory: z.string(),
  /** What failed, oldest first: the newest of them. */
  incidents: z.array(incidentRecord).readonly(),
  /** The job's own: what may be waited for follows from it. */
  stepDeadlineMs: count,
  /** The job, option by option, without what may be secret in addresses of its data. */
  options: z
    .array(z.object({ option: z.string(), value: z.string() }))
    .readonly()
    .optional(),
});

/** Whether nothing more will happen to a run of this status. */
export function isOverAt(status: RunLine["status"]): boolean {
  return status === "finished" || status === "failed" || status === "cancelled";
}

/** One run, as `list` tells of it. */
export type RunLine = Readonly<z.output<typeof runLine>>;

/** One run, as `status` tells of it. */
export type RunSummary = Readonly<z.output<typeof runSummary>>;

const runStatus = z.object({ run, status: runStatusSchema });

/** A shard that was named by its number: what it is, and where it lies now. */
const namedShard = z.object({
  shard: count,
  table: z.string(),
  firstRow: count,
  rows: count,
  firstColumn: count,
  columns: count,
  device: count,
  /** Where it is pinned to from now on; left out: nowhere. */
  pin: z.object({ device: count, isFrozen: z.boolean() }).optional(),
});

const ofShard = runStatus.extend({ shard: namedShard });

/** A shard that was moved, frozen or thawed. */
export type NamedShard = Readonly<z.output<typeof namedShard>>;

const drainedReader = z.object({
  run,
  reader: count,
  /** Its thread did not come to the end of its batch in time, and was ended. */
  isForced: z.boolean(),
  /** What another thread goes on with: a step, its pass over the data, its first sample there. */
  position: z.object({ step: count, pass: count, sample: count }),
});

/** A reader whose thread was replaced. */
export type DrainedReader = Readonly<z.output<typeof drainedReader>>;

const jsonSchema = z.record(z.string(), z.unknown());

/** What each method answers. */
export const replies = {
  submit: runStatus.extend({
    /** The subject on which its events are published. */
    events: z.string(),
  }),
  list: z.object({
    /** In the order of submission. */
    runs: z.array(runLine),
    /** For `after` of the next request; left out: there are no more. */
    next: run.optional(),
  }),
  status: runSummary,
  logs: z.object({
    /** `time`, `level`, `message`, and what they are about. */
    lines: z.array(z.record(z.string(), z.unknown())),
    /** For `after` of the next request. */
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
 * JSON Schema of a job and of requests, as their senders write them; of replies and events. Made
 * once: it takes some 20 ms.
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
