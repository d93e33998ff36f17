// Events of recoveries other than their end: partial recoveries, and replicas in the memory of
// hosts (run-events.ts has all events).

import { z } from "zod";
import { lostUpdates } from "../../../src/wire/messages/fields.ts";

const count = z.int().min(0);

/** Cost of all partial recoveries of a run, summed. */
export const lostSchema = z
  .object({ recoveries: count, rows: count, samples: count, pls: z.number() })
  .readonly();

/**
 * Counts of asynchronous training, summed over a run. `samples`: trained samples, repetitions
 * included. `updates`: of rows and of the center, lost with servers that were killed; `restarts`:
 * of trainers, servers of rows, and the server of the center.
 */
export const asynchronousSchema = z
  .object({
    samples: count,
    updates: count,
    restarts: z.object({ trainer: count, rows: count, center: count }).readonly(),
  })
  .readonly();

/** Fields of `run.recovered`. */
export const restored = {
  /** From the incident to the first step after the restore. */
  seconds: z.number(),
  /**
   * Restored bytes: from replicas in the memory of hosts, and from the checkpoint store; and the
   * bytes of rows that were kept where they were.
   */
  memoryBytes: count,
  storeBytes: count,
  keptBytes: count,
};

export const recoveryEvents = [
  /**
   * Partial recovery: after the failure of a generation, all but `devices` continue with their
   * state at `step`. The rows of `devices` went back to `fromStep`: at most `rows` rows lost the
   * updates of `samples` samples, a portion `pls` of the run's.
   */
  z.object({
    type: z.literal("run.partial"),
    step: count,
    fromStep: count,
    devices: z.array(count).readonly(),
    rows: count,
    samples: count,
    pls: z.number(),
  }),
  /**
   * Asynchronous training: an actor was replaced while the others went on. A server of rows or of
   * the center lost `updates` updates, and continues `from` there; a trainer continues from the
   * center, and lost the batches that it had begun.
   */
  lostUpdates.extend({ type: z.literal("run.lost"), actor: z.string(), step: count }),
  /**
   * The hosts hold their replicas of the checkpoint of `step` in memory, except `missing` files.
   * One host may be lost, and its part is restored without reading the store.
   */
  z.object({
    type: z.literal("run.buddies"),
    step: count,
    missing: count,
    /** Of all replicas, on all hosts. */
    bytes: count,
  }),
] as const;
