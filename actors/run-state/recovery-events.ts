// What a run tells of recoveries besides their end: of partial ones, and of copies in the memory of
// hosts (run-events.ts has all events).

import { z } from "zod";

const count = z.int().min(0);

/** What partial recoveries have cost, all told. */
export const lostSchema = z
  .object({ recoveries: count, rows: count, samples: count, pls: z.number() })
  .readonly();

/** Fields of `run.recovered`. */
export const restored = {
  /** From the incident to the first step after the restore. */
  seconds: z.number(),
  /** Bytes that were restored: out of the memory of hosts, and from the checkpoint store. */
  memoryBytes: count,
  storeBytes: count,
};

export const recoveryEvents = [
  /**
   * Of a generation that failed, all but some devices went on where they were, at `step`; the rows
   * of these went back to `fromStep`: `rows` at most, the updates of `samples` samples are lost,
   * which is a portion `pls` of the run's.
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
   * The hosts have their copies of the checkpoint of `step` in memory, all but `missing` files: one
   * host may be lost, and nothing of it is read from the store.
   */
  z.object({
    type: z.literal("run.buddies"),
    step: count,
    missing: count,
    /** Of all copies, on all hosts. */
    bytes: count,
  }),
] as const;
