// The job options of checkpoints.

import { z } from "zod";
import { pathOption } from "../../ports/option-schemas.ts";

/** Schema of `JobOptions.checkpoint`. */
export const checkpointOptions = z.strictObject({
  everySteps: z
    .int()
    .min(1)
    .default(200)
    .describe(
      "A checkpoint every so many steps, and one at the end; more where a step takes less than a millisecond.",
    ),
  directory: pathOption("kept", z.string().min(1))
    .default("checkpoints")
    .describe("Directory of the checkpoints; one directory holds one run."),
  keep: z
    .int()
    .min(1)
    .default(2)
    .describe("Checkpoints that are kept, besides the best and their baselines."),
  differential: z
    .enum(["none", "one-shot", "consecutive", "intermittent"])
    .default("intermittent")
    .describe(
      "Incremental checkpoints: `none`, all rows; `one-shot`, the rows that changed since the first checkpoint; `intermittent`, the same, with a new baseline where that is expected to cost less; `consecutive`, the rows that changed since the checkpoint before.",
    ),
  bits: z
    .literal([32, 8, 4, 3, 2])
    .default(32)
    .describe(
      'Bits of a stored weight: `8`, `4`, `3` or `2`, of float32 tables and only in `mode: "bounded"`; training keeps all bits, a restore puts back the stored ones.',
    ),
  bufferBytes: z
    .int()
    .min(4096)
    .max(2_147_483_647)
    .default(1_073_741_824)
    .describe(
      "Bytes that a device may have saved before its writer wrote them; a larger cut waits for its writer.",
    ),
  partial: z
    .strictObject({
      pls: z
        .number()
        .gt(0)
        .max(1)
        .optional()
        .describe(
          'Partial recovery, only in `mode: "bounded"`: with `checkpoint.partial`, even `{}`, only the rows of lost devices go back to the last checkpoint after a failure; `pls` is the portion of lost samples, from which `checkpoint.everySteps` follows.',
        ),
      failureSteps: z
        .int()
        .min(1)
        .optional()
        .describe("Steps from one failure to the next, on average; with `pls`, or not at all."),
    })
    .optional()
    .describe(
      'After a failure only the rows of lost devices go back to the last checkpoint; the others stay as they are. For `mode: "bounded"`, and tables in memory. Where `pls` and `failureSteps` are given, `everySteps` follows: with a failure every so many steps, the expected portion of lost samples of a run is `pls`.',
    ),
  buddyBytes: z
    .int()
    .min(0)
    .default(1_073_741_824)
    .describe(
      "Bytes of each host's memory for replicas of the newest checkpoint's files: its own files, and those of the host whose buddy it is; `0`: no replicas.",
    ),
});

/** The checkpoint section after its checks. */
export type CheckpointSpec = z.output<typeof checkpointOptions>;
