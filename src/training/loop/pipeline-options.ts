// The job options of the pipeline of steps (pipeline.ts).

import { z } from "zod";

export const pipelineOptions = z.strictObject({
  depth: z
    .literal([1, 2, 3])
    .default(3)
    .describe(
      "Batches in flight on a device: `1`; `2`: the next batch is read while one computes; `3`: and its ids travel.",
    ),
});

export type PipelineSpec = z.output<typeof pipelineOptions>;
