// What a job says about its checkpoints.

import { z } from "zod";
import { pathOption } from "../../ports/option-schemas.ts";

/** Schema of `JobOptions.checkpoint`. */
export const checkpointOptions = z.strictObject({
  /** A checkpoint every so many steps, and one at the end. */
  everySteps: z.int().min(1).default(200),
  /** Where checkpoints rest. One directory holds one run. */
  directory: pathOption("kept", z.string().min(1)).default("checkpoints"),
  /** How many are kept, besides the best and what they rest on. */
  keep: z.int().min(1).default(2),
  /**
   * Whether a checkpoint holds only the rows that changed since the last whole one (`one-shot`,
   * and `intermittent`, which writes a whole one again when that is expected to cost less), or
   * since the one before (`consecutive`).
   */
  differential: z.enum(["none", "one-shot", "consecutive", "intermittent"]).default("intermittent"),
  /**
   * Bits of a stored weight; training keeps all of them. Fewer than 32 are for `mode: "bounded"`:
   * what a restore puts back is not what was there.
   */
  bits: z.literal([32, 8, 4, 3, 2]).default(32),
  /**
   * Bytes that a device may have saved and its writer not yet written. What a cut has beyond that,
   * it waits for.
   */
  bufferBytes: z.int().min(4096).max(2_147_483_647).default(1_073_741_824),
  /**
   * After a failure only the rows of lost devices go back to the last checkpoint; the others stay
   * as they are. For `mode: "bounded"`, and tables in memory. Where `pls` and `failureSteps` are
   * given, `everySteps` follows: with a failure every so many steps, the expected portion of lost
   * samples of a run is `pls`.
   */
  partial: z
    .strictObject({
      pls: z.number().gt(0).max(1).optional(),
      failureSteps: z.int().min(1).optional(),
    })
    .optional(),
  /**
   * Bytes of memory that each of several hosts has for replicas of the newest checkpoint's parts:
   * its own parts, and the parts of the host that it is the buddy of. 0: no replicas.
   */
  buddyBytes: z.int().min(0).default(1_073_741_824),
});

export type CheckpointOptions = z.input<typeof checkpointOptions>;

/** `CheckpointOptions`, complete. */
export type CheckpointSpec = z.output<typeof checkpointOptions>;
