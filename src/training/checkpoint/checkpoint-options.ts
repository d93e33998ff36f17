// The job options of checkpoints.

import { z } from "zod";
import { isObjectAddress, isPlainPath } from "../../ports/object-store.ts";
import { pathOption } from "../../ports/option-schemas.ts";

/** Schema of a place of checkpoints. */
export const checkpointPlace = z
  .string()
  .min(1)
  .refine((name) => isObjectAddress(name) || isPlainPath(name), {
    error: "a directory, or `s3://bucket/prefix`",
  });

/** Schema of `JobOptions.checkpoint`. */
export const checkpointOptions = z.strictObject({
  everySteps: z
    .int()
    .min(1)
    .default(200)
    .describe(
      "Number of steps between two checkpoints; the last step has one, too. If a step takes less than a millisecond, more steps lie between two checkpoints.",
    ),
  directory: pathOption("kept", checkpointPlace)
    .default("checkpoints")
    .describe(
      "Directory of the checkpoints, or `s3://bucket/prefix` in an object store; one directory holds one run.",
    ),
  keep: z
    .int()
    .min(1)
    .default(2)
    .describe(
      "Number of newest checkpoints that are kept, besides the best one and the baselines that kept increments need.",
    ),
  differential: z
    .enum(["none", "one-shot", "consecutive", "intermittent"])
    .default("intermittent")
    .describe(
      "Incremental checkpoints. `none`: each checkpoint has all rows; `one-shot`: the rows that changed since the first checkpoint, the baseline; `intermittent`: the same, with a new baseline when it is expected to cost less; `consecutive`: the rows that changed since the previous checkpoint.",
    ),
  bits: z
    .literal([32, 8, 4, 3, 2])
    .default(32)
    .describe(
      'Bits of a stored weight. `8`, `4`, `3` and `2` are for float32 tables, only in `mode: "bounded"`. Training keeps all bits; a restore has only the stored ones.',
    ),
  bufferBytes: z
    .int()
    .min(4096)
    .max(2_147_483_647)
    .default(1_073_741_824)
    .describe(
      "Bytes of a device's checkpoint that may wait in memory for its writer, as far as tables, buffers and undo logs leave them; a larger checkpoint waits until the writer has written a part.",
    ),
  partial: z
    .strictObject({
      pls: z
        .number()
        .gt(0)
        .max(1)
        .optional()
        .describe(
          'With `checkpoint.partial`, even `{}`: partial recovery, only in `mode: "bounded"`. `pls`: accepted portion of lost samples, from which `checkpoint.everySteps` is computed.',
        ),
      failureSteps: z
        .int()
        .min(1)
        .optional()
        .describe("Mean number of steps between two failures; required with `pls`, and only then."),
    })
    .optional()
    .describe(
      'Partial recovery: after a failure, only the rows of lost devices go back to the last checkpoint; all other rows keep their updates. For `mode: "bounded"`, and tables in memory. `pls` and `failureSteps` set `everySteps` so that, with a failure every `failureSteps` steps, the expected portion of lost samples is `pls`.',
    ),
  undoBytes: z
    .int()
    .min(0)
    .optional()
    .describe(
      "Bytes of each host's memory for the former values of rows that changed since the last checkpoints. With them a recovery keeps the rows of devices that live, and reads only lost and moved rows; where the values need more bytes, it reads all rows. `0`: a recovery always reads all rows. Left out: an eighth of the host's memory, at most half of what its tables and buffers leave.",
    ),
  buddyBytes: z
    .int()
    .min(0)
    .optional()
    .describe(
      "Bytes of each host's memory for replicas of the newest checkpoint's files: the host's own files, and those of the host whose buddy it is; `0`: no replicas. Left out: a quarter of the host's memory, at most what tables, buffers and undo logs leave.",
    ),
});

/** The checkpoint section after its checks. */
export type CheckpointSpec = z.output<typeof checkpointOptions>;
