// Options of a warm start: the earlier run that a job begins with (warm-start.ts).

import { z } from "zod";
import { pathOption } from "../ports/option-schemas.ts";

/** Schema of `JobOptions.warmStart`. */
export const warmStartOptions = z.strictObject({
  /** Checkpoint directory of the earlier run. */
  from: pathOption("kept", z.string().min(1)),
  /** `best`, `last`, or how the hash of a manifest begins. Left out: as `osiris eval` takes it. */
  checkpoint: z.string().min(1).optional(),
  /** Step of that checkpoint. A submitted job has it from the checkpoint. */
  step: z.int().min(0).optional(),
  /** Digest of its model, `sha256:…`. A submitted job has it from the checkpoint. */
  digest: z.string().min(1).optional(),
});
