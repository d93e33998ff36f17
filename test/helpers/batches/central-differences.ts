// Central differences: numeric gradients that any formula's gradient must agree with.

import type { Kernels, Tensor } from "../../../src/kernels/contract/kernels.ts";
import { valuesOf } from "../../../src/kernels/reference/memory.ts";
import type { RandomStream } from "../../../src/ports/random.ts";
import { stride as strideOf } from "../thinned.ts";

/**
 * Half the distance between the two evaluations of the loss: in float64, this is far from both
 * rounding and curvature errors.
 */
const reach = 1e-5;

/**
 * About this many elements of a tensor are checked in `npm test`, all of them in `npm run
 * test:all`.
 */
const elements = 48;

/**
 * The largest error of an element of `gradient`, against the slope of `loss` over the elements of
 * `at` (float64), relative to the largest of the slopes or 1e-3. `at` is restored on return.
 */
export function gradientError(at: Tensor, gradient: ArrayLike<number>, loss: () => number): number {
  const values = valuesOf(at);
  if (gradient.length !== values.length) return Number.POSITIVE_INFINITY;
  let worst = 0;
  let scale = 1e-3;
  // An odd stride visits every column of a matrix whose width is a power of two.
  const apart = Math.ceil(values.length / elements) | 1;
  const stride = apart === 1 ? 1 : strideOf("elements of gradients", apart);
  for (let i = 0; i < values.length; i += stride) {
    const before = values[i] ?? Number.NaN;
    values[i] = before + reach;
    const above = loss();
    values[i] = before - reach;
    const below = loss();
    values[i] = before;
    const slope = (above - below) / (2 * reach);
    scale = Math.max(scale, Math.abs(slope));
    const difference = Math.abs(slope - (gradient[i] ?? Number.NaN));
    worst = Number.isNaN(difference) ? Number.POSITIVE_INFINITY : Math.max(worst, difference);
  }
  return worst / scale;
}

/** A tensor of random numbers in -1..1. */
export function randomTensor(
  kernels: Kernels,
  stream: RandomStream,
  shape: readonly number[],
): Tensor {
  const t = kernels.tensor(shape);
  const values = valuesOf(t);
  for (let i = 0; i < values.length; i++) values[i] = 2 * stream.uniform() - 1;
  return t;
}

/** The sum of t times `weights`, element by element: a loss whose gradient by t is `weights`. */
export function weighted(t: Tensor, weights: Tensor): number {
  const [a, b] = [valuesOf(t), valuesOf(weights)];
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] ?? 0) * (b[i] ?? 0);
  return sum;
}

/** The elementwise sum of tensors: the complete gradient from its finished subtrees. */
export function total(parts: readonly Tensor[]): number[] {
  const sum: number[] = [];
  for (const part of parts) {
    for (const [i, value] of [...valuesOf(part)].entries()) sum[i] = (sum[i] ?? 0) + value;
  }
  return sum;
}
