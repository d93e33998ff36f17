// An entry of the mirrored queue: enough of a run to submit it again, and to show its state.

import { createHash } from "node:crypto";
import { z } from "zod";
import { shardPinSchema } from "../../../src/planner/plan-file.ts";
import { runStatusSchema } from "../../run/state/run-events.ts";
import type { RunRecord } from "../../run/state/run-record.ts";

const count = z.int().min(0);

const queueEntry = z.object({
  run: z.string(),
  name: z.string(),
  status: runStatusSchema,
  priority: z.int(),
  /** The tenant that owns the run; left out: the cluster's operator. */
  tenant: z.string().optional(),
  /** Idempotency key of the submission. */
  key: z.string().optional(),
  /** SHA-256 of the job, as JSON. */
  digest: z.string(),
  /** Number of the run's generations so far. */
  attempts: count,
  /** Step of the last checkpoint; 0: none. */
  step: count,
  /** Position in the order of submission. */
  order: count,
  /** Term of the leader that wrote the entry. */
  term: count,
  /** Requests since the submission that still apply. */
  requests: z.array(
    z.object({
      devices: z.int().optional(),
      cancel: z.boolean().optional(),
      pause: z.boolean().optional(),
      pins: z.array(shardPinSchema).readonly().optional(),
      readerLimit: count.optional(),
    }),
  ),
  job: z.unknown(),
});

export type QueueEntry = Readonly<z.output<typeof queueEntry>>;

/** The current entry of a run. */
export function entryOf(
  record: RunRecord,
  at: { readonly order: number; readonly term: number },
): QueueEntry {
  const { run, job, status, tenant, key, generation: attempts, savedStep: step } = record;
  const requests: QueueEntry["requests"] = [];
  for (const entry of record.entries()) {
    if (entry.kind !== "request") break; // Entries of the kind `request` come first.
    const { kind: _kind, run: _run, ...request } = entry;
    requests.push(request);
  }
  const { name, priority } = job;
  const digest = createHash("sha256").update(record.jobText).digest("hex");
  const own = { run, name, status, priority, tenant, key, digest, attempts, step };
  return { ...own, ...at, requests, job };
}

/** Decodes an entry. Undefined: malformed, or of another version. */
export function decodeEntry(bytes: Uint8Array): QueueEntry | undefined {
  try {
    return queueEntry.safeParse(JSON.parse(new TextDecoder().decode(bytes))).data;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
