// Fields of messages that have a structure of their own: an error, the metrics of an evaluation,
// the hardware of a host with its links, lost updates, waits, and kept rows.

import { z } from "zod";
import type { ErrorRecord } from "../../errors/errors.ts";

/** A metric may be NaN if only one class occurred. */
export const figure = z.number().or(z.nan());

/** An error in a message (src/errors/errors.ts). */
export const errorRecord: z.ZodType<ErrorRecord> = z.object({
  name: z.string(),
  code: z.string(),
  recovery: z.enum(["restore", "stop"]),
  message: z.string(),
  cause: z.string().optional(),
  actor: z.string().optional(),
});

const thresholds = z
  .array(z.object({ threshold: z.number(), precision: figure, recall: figure, f1: figure }))
  .readonly();

const taskMetrics = z.object({
  samples: z.number(),
  positives: z.number(),
  logLoss: figure,
  auc: figure,
  normalizedEntropy: figure,
  calibration: figure,
  gauc: figure.optional(),
  mse: figure.optional(),
  rmse: figure.optional(),
  mae: figure.optional(),
  r2: figure.optional(),
  thresholds: thresholds.optional(),
});
/** Metrics of an evaluation. */
export const metrics = taskMetrics.extend({
  /** Metrics per task, by name, if the model has several tasks. */
  tasks: z.record(z.string(), taskMetrics).optional(),
});

const rate = z.number().positive();
/** The hardware that a host announces (src/planner/fleet.ts). */
export const hardware = z.object({
  ...{ memoryBytes: z.number().min(0), cores: rate },
  ...{ lookups: rate.optional(), flops: rate.optional() },
});

/** The direct links of a host in its generation, as its bridge reports them. */
export const linkReport = z.object({
  /** Number of hosts that its frames reach directly, and over the broker. */
  direct: z.int().min(0),
  broker: z.int().min(0),
  /** For some of the hosts that are reached over the broker, the reason. */
  reasons: z.array(z.object({ to: z.string(), reason: z.string() })),
  /** Number of refused connections: strangers, or another version, run or generation. */
  refused: z.int().min(0),
  /** Payload bytes sent directly, and over the broker. */
  bytes: z.object({ direct: z.number().min(0), broker: z.number().min(0) }),
  /** A host whose clock is far ahead of this one's; negative seconds: behind. */
  apart: z.object({ host: z.string(), seconds: z.number() }).optional(),
});

export type LinkReport = z.output<typeof linkReport>;

/** The measured links between hosts, or the reason why they were not measured. */
export const links = z.union([
  z.object({ allToAll: rate, allReduce: rate, roundSeconds: z.number().min(0) }),
  z.string(),
]);

/**
 * Updates that asynchronous training lost with a trainer, a sparse server (`rows`) or the dense
 * server (`center`), and the state from which its replacement continues.
 */
export const lostUpdates = z.object({
  what: z.enum(["trainer", "rows", "center"]),
  updates: z.int().min(0),
  from: z.enum(["center", "checkpoint", "trainers", "initial values"]),
});

/** Counters of a host's devices and readers (src/training/meters). */
export const meters = z.object({
  devices: z.array(z.array(z.int().min(0))),
  reading: z.array(z.int().min(0)),
  curves: z.array(z.array(z.int().min(0))).optional(),
  flights: z.array(z.int().min(0)).optional(),
});

/** Number of batches whose updates the parameter servers have not confirmed; age of the oldest. */
export const pushLag = z.object({ batches: z.int().min(0), oldestMs: z.number().min(0) });

/** An actor that waits, and the actor it waits for (actors/runtime/wait-graph.ts). */
export const wait = z.object({
  waiter: z.string(),
  awaited: z.string(),
  what: z.string(),
  forMs: z.number().min(0),
  step: z.int().min(0).optional(),
});

/** Number of durable rows that come from the disk; `reason`: why there are none. */
export const foundRows = z.object({ rows: z.int().min(0), reason: z.string().optional() });
