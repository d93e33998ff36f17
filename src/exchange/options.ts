// Options of the exchange: the precision in which vectors are sent. As rounding changes bits,
// vectors are rounded even where they do not leave their device (law 4).

import { z } from "zod";

const precision = z.enum(["float32", "float16", "bfloat16", "int8"]).default("float32");

export const exchangeOptions = z.strictObject({
  forward: precision.describe(
    "Format of pooled embeddings between devices: `float32`, `float16`, `bfloat16` or `int8` (one power of two for 32 columns of a sample).",
  ),
  backward: precision.describe(
    "Format of the gradients of pooled embeddings, as `forward`; Neo uses `float16` forward and `bfloat16` backward.",
  ),
});

export type ExchangeSpec = z.output<typeof exchangeOptions>;
