// Properties of the formats of the exchange: whether a format loses bits, and its scale, if its
// range is small.

import { isFloat8, type WirePrecision } from "../kernels/contract/precision.ts";

/** With larger factors, products of usual sizes would leave the range of float32. */
export const scalePowerMax = 24;

/** The formats of vectors and gradients, as the options of the exchange give them. */
interface Formats {
  readonly forward: WirePrecision;
  readonly backward: WirePrecision;
  readonly forwardScale?: number | undefined;
  readonly backwardScale?: number | undefined;
}

/** Whether vectors lose bits in either direction. */
export function isReduced({ forward, backward }: Formats): boolean {
  return forward !== "float32" || backward !== "float32";
}

/** Whether a format needs a scale: its range is below float32's, and values share no exponent. */
export function isScaled(precision: WirePrecision): boolean {
  return precision === "float16" || isFloat8(precision);
}

/** Factors by which vectors and their gradients are multiplied before they are rounded. */
export interface Scales {
  readonly forward: number;
  readonly backward: number;
}

/**
 * The scales of a job. In float8, embeddings of 2^-10 to 28 and gradients of a mean over the batch
 * (p - y times a weight, divided by the samples) lie amid the numbers of full precision.
 */
export function scalesOf(exchange: Formats, batchSize: number): Scales {
  const { forward, backward, forwardScale, backwardScale } = exchange;
  const gradientScale = 2 ** Math.min(scalePowerMax, 4 + Math.ceil(Math.log2(batchSize)));
  return {
    forward: forwardScale ?? (forward === "float8e4m3" ? 16 : 1),
    backward: backwardScale ?? (isFloat8(backward) ? gradientScale : 1),
  };
}
