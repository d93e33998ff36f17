// Options of the exchange: the precision in which vectors and dense gradients are sent, and the
// share of the dense gradient that is sent. As rounding changes bits, they are rounded even where
// they do not leave their device (law 4).

import { z } from "zod";
import { isScaled, scalePowerMax } from "./scales.ts";

const precision = z
  .enum(["float32", "float16", "bfloat16", "int8", "float8e4m3", "float8e5m2"])
  .default("float32");

const scale = z
  .number()
  .refine((value) => Number.isInteger(Math.log2(value)), { error: "a power of two" })
  .refine((value) => Math.abs(Math.log2(value)) <= scalePowerMax, {
    error: `a power of two from 2^-${scalePowerMax} to 2^${scalePowerMax}`,
  })
  .optional();

/** The numbers of groups that the slices of a batch may have. */
const groupCounts = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/** The numbers of parts of a batch with rounded gradients. */
const denseParts = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] as const;

export const exchangeOptions = z
  .strictObject({
    forward: precision.describe(
      "Format of pooled embeddings between devices: `float32`, `float16`, `bfloat16`, `int8` (one power of two for 32 columns of a sample), `float8e4m3` or `float8e5m2`.",
    ),
    backward: precision.describe(
      "Format of the gradients of pooled embeddings, as `forward`; Neo uses `float16` forward and `bfloat16` backward.",
    ),
    forwardScale: scale.describe(
      "Power of two that pooled embeddings are multiplied by before they are rounded, and divided by afterwards; for `float16` and the float8. Default: 1; for `float8e4m3` 16.",
    ),
    backwardScale: scale.describe(
      "The same for their gradients: a loss scale. Default: 1; for the float8 16 times the batch size, rounded up to a power of two.",
    ),
    dense: z
      .enum(["float32", "bfloat16", "float16"])
      .default("float32")
      .describe(
        "Format of the gradients of dense layers between hosts: `float32`, `bfloat16` or `float16`, whose sums end at 65504. Data-parallel tables stay in float32.",
      ),
    denseParts: z
      .literal(denseParts, { error: `one of ${denseParts.join(", ")}` })
      .default(8)
      .describe(
        "Where `dense` is not `float32`: number of equal parts of a batch, at most the number of slices. The gradient sum of each part is rounded, and so is each sum of such sums. With fewer parts than hosts, hosts send the sums of smaller parts in float32.",
      ),
    topk: z
      .strictObject({
        share: z
          .number()
          .gt(0)
          .max(0.5)
          .describe(
            "With `exchange.topk`: the share of the dense layers' gradient that is sent in a step. A share above one half would take more bytes than the whole gradient.",
          ),
        groups: z
          .literal(groupCounts)
          .optional()
          .describe(
            "Groups of slices, each with its own sum, largest elements and residual: a power of two, at most `slices`, and best the number of hosts. Left out: 4, or `slices` where they are fewer.",
          ),
      })
      .optional()
      .describe(
        'Top-k all-reduce with error feedback, only in `mode: "bounded"`: of the dense layers\' gradient only the elements of largest size are sent to all hosts; what is not sent is added to the gradient of the next step.',
      ),
  })
  .superRefine((all, context) => {
    for (const way of ["forward", "backward"] as const) {
      const given = all[`${way}Scale`] ?? 1;
      if (given === 1 || isScaled(all[way])) continue;
      const message = `left out where \`${way}\` is ${all[way]}, which has the range of float32`;
      context.addIssue({ code: "custom", path: [`${way}Scale`], message, input: given });
    }
  });

export type ExchangeSpec = z.output<typeof exchangeOptions>;
