// Kernels of the blocks that models are composed of (src/model/blocks), besides dense layers and
// the interaction of vectors.
//
// B = samples, R = rows (samples, or rows of samples), D = columns. The rules of kernels.ts hold:
// output first, every kernel overwrites its output, and a sum has one bracketing, whatever a call
// holds.

import type { Slices } from "./slices.ts";
import type { Tensor } from "./tensor.ts";

/** How two matrices lie, T = transposed: see `BlockKernels.products`. */
export type ProductForm = "ab" | "abT" | "aTb";

export interface BlockKernels {
  /** out = a + b, element by element; `out` may be `a` or `b`. */
  add(out: Tensor, a: Tensor, b: Tensor): void;
  /** out = a * b, element by element; `out` may be `a` or `b`. */
  multiply(out: Tensor, a: Tensor, b: Tensor): void;
  /** out = 1 / (1 + exp(-x)); `out` may be `x`. Computed in float64. */
  sigmoid(out: Tensor, x: Tensor): void;
  /** d * out * (1 - out), in place: `out` is what `sigmoid` gave. */
  dSigmoid(d: Tensor, out: Tensor): void;

  /**
   * A product of matrices for each sample: out (B,M,N), the sum over k in order, from 0. `ab`: a
   * (B,M,K), b (B,K,N). `abT`: b (B,N,K). `aTb`: a (B,K,M). An `a` of two dimensions is the same
   * for all samples.
   */
  products(out: Tensor, a: Tensor, b: Tensor, form: ProductForm): void;
  /**
   * The gradient of an `a` (M,K) that samples share, in the form `ab`: subtree p of dA[p] (M,K) is
   * the sum over the samples of its slices, and over n, of dOut (B,M,N) times b (B,K,N). Sample by
   * sample, n in order. dA holds one tensor for each of `subtreesOf(slices)`.
   */
  dShared(dA: readonly Tensor[], dOut: Tensor, b: Tensor, slices: Slices): void;

  /**
   * out (B): the sum of the dot products of all pairs of the vectors x (B,F,D), as half of the
   * square of their sum without their own squares. Sums over F in order; over D as in `layerNorm`.
   */
  pairSum(out: Tensor, x: Tensor): void;
  /** dX (B,F,D) from dOut (B): each vector's gradient is dOut times the sum of the others. */
  dPairSum(dX: Tensor, dOut: Tensor, x: Tensor): void;

  /**
   * Layer normalisation over the rows of x (R,D): out = (x - mean) / sqrt(variance + epsilon) *
   * gain (D) + bias (D), with the biased variance. `saved` (R,2): the mean, and what x - mean was
   * multiplied by. Sums over D: lane i of 32 adds up the columns i, i+32, …; then lane i + lane
   * i+16, then 8, 4, 2, 1.
   */
  layerNorm(
    out: Tensor,
    saved: Tensor,
    x: Tensor,
    gain: Tensor,
    bias: Tensor,
    epsilon: number,
  ): void;
  /** dX (R,D) from dOut, x, and what `layerNorm` saved. Sums over D as there. */
  dLayerNorm(dX: Tensor, dOut: Tensor, saved: Tensor, x: Tensor, gain: Tensor): void;
  /**
   * Subtree p of dGain[p] (D) and dBias[p] (D). `slices` counts rows; sums over them as in
   * `dLinearWeight`.
   */
  dLayerNormWeights(
    dGain: readonly Tensor[],
    dBias: readonly Tensor[],
    dOut: Tensor,
    saved: Tensor,
    x: Tensor,
    slices: Slices,
  ): void;
}
