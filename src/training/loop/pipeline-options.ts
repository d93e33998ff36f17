// The job options of the pipeline of steps (pipeline.ts).

import { z } from "zod";

export const pipelineOptions = z.strictObject({
  depth: z
    .literal([1, 2, 3])
    .default(3)
    .describe(
      "Batches in flight on a device. `1`: one; `2`: the next batch is read during the computation of the current one; `3`: the next batch's ids are also exchanged meanwhile.",
    ),
});

export type PipelineSpec = z.output<typeof pipelineOptions>;
