// The job options of the pipeline of steps (pipeline.ts).

import { z } from "zod";

export const pipelineOptions = z.strictObject({
  depth: z
    .literal([1, 2, 3])
    .default(3)
    .describe(
      "Batches in flight on a device. `1`: one; `2`: the next batch is read during the computation of the current one; `3`: the next batch's ids are also exchanged meanwhile.",
    ),
  ahead: z
    .number()
    .min(0)
    .max(1)
    .default(0)
    .describe(
      "A table is read before the previous batch's update if the expected number of rows that its mean bag shares with that batch is at most this. Bags that do share a row are read again after the update. The vectors of the table are exchanged during the previous step. 0: no table; 1: every table that can be. Changes no bit; only with `depth: 3`.",
    ),
});

export type PipelineSpec = z.output<typeof pipelineOptions>;
