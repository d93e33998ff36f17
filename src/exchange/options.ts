// What a job says about the exchange: how vectors travel. Rounded on their way, they decide bits,
// so they are rounded also where they cross no device (law 4).

import { z } from "zod";

const precision = z.enum(["float32", "float16", "bfloat16", "int8"]).default("float32");

export const exchangeOptions = z.strictObject({
  /** Pooled embeddings. int8 has a power of two for 32 columns of a sample. */
  forward: precision,
  /** Their gradients. */
  backward: precision,
});

export type ExchangeOptions = z.input<typeof exchangeOptions>;
export type ExchangeSpec = z.output<typeof exchangeOptions>;
