// What a job says about the pipeline of steps (pipeline.ts).

import { z } from "zod";

export const pipelineOptions = z.strictObject({
  /** Batches in flight: one; 2: reading ahead; 3: and exchanging ids ahead. Changes no bit. */
  depth: z.literal([1, 2, 3]).default(3),
});

export type PipelineSpec = z.output<typeof pipelineOptions>;
