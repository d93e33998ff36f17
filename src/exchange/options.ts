// Options of the exchange: the precision in which vectors travel. Rounding decides bits, so vectors
// are rounded even where they do not leave their device (law 4).

import { z } from "zod";

const precision = z.enum(["float32", "float16", "bfloat16", "int8"]).default("float32");

export const exchangeOptions = z.strictObject({
  /** Pooled embeddings. int8 has a power-of-two scale per 32 columns of a sample. */
  forward: precision,
  /** Gradients of pooled embeddings. */
  backward: precision,
});

export type ExchangeOptions = z.input<typeof exchangeOptions>;
export type ExchangeSpec = z.output<typeof exchangeOptions>;
