// Options of a warm start: the earlier run that a job begins with (warm-start.ts).

import { z } from "zod";
import { pathOption } from "../ports/option-schemas.ts";

/** Schema of `JobOptions.warmStart`. */
export const warmStartOptions = z.strictObject({
  from: pathOption("kept", z.string().min(1)).describe(
    "Checkpoint directory of an earlier run, whose state this one begins with.",
  ),
  checkpoint: z
    .string()
    .min(1)
    .optional()
    .describe(
      "`best`, `last`, or how the hash of a manifest begins; left out, the best where that job stopped early, else the last.",
    ),
  step: z
    .int()
    .min(0)
    .optional()
    .describe("Step of that checkpoint; a submitted job has it from there."),
  digest: z
    .string()
    .min(1)
    .optional()
    .describe("Digest of its model; a submitted job has it from there."),
});
