// Kernels of the blocks that models are composed of (src/model/blocks), besides dense layers and
// the interaction of vectors.
//
// B = samples, R = rows (samples, or rows of samples), D = columns. The rules of kernels.ts hold:
// output first, every kernel overwrites its output, and a sum has one bracketing, however many
// samples a call has.

import type { Slices } from "./slices.ts";
import type { Tensor } from "./tensor.ts";

/** Most tensors that a kernel adds to a product (`plus`): native kernels have room for no more. */
export const addendsMax = 16;

/** Which operand of a product is transposed (T): see `BlockKernels.products`. */
export type ProductForm = "ab" | "abT" | "aTb";

export interface BlockKernels {
  /** out = a + b, element by element; `out` may be `a` or `b`. */
  add(out: Tensor, a: Tensor, b: Tensor): void;
  /** out (R,C) = the concatenated columns of `values` (R,·), + other (R,C). */
  addBeside(out: Tensor, values: readonly Tensor[], other: Tensor): void;
  /** out = a * b, element by element; `out` may be `a` or `b`. */
  multiply(out: Tensor, a: Tensor, b: Tensor): void;
  /** dA = dOut * b and dB = dOut * a, element-wise. */
  dMultiply(dA: Tensor, dB: Tensor, dOut: Tensor, a: Tensor, b: Tensor): void;
  /** out = a * b + c, element by element; each product is rounded before c is added. */
  multiplyAdd(out: Tensor, a: Tensor, b: Tensor, c: Tensor): void;
  /** out = max(x, 0); `out` may be `x`. `dRelu` is its backward. */
  relu(out: Tensor, x: Tensor): void;
  /** out = x * factor, a float32; `out` may be `x`. */
  scale(out: Tensor, x: Tensor, factor: number): void;
  /** out = x, or x * slope where x is below 0; `out` may be `x`. The slope is above 0. */
  leakyRelu(out: Tensor, x: Tensor, slope: number): void;
  /** d *= slope where `out`, the output of `leakyRelu`, is below 0. In place. */
  dLeakyRelu(d: Tensor, out: Tensor, slope: number): void;
  /** out = 1 / (1 + exp(-x)); `out` may be `x`. Computed in float64. */
  sigmoid(out: Tensor, x: Tensor): void;
  /** d *= out * (1 - out), in place. `out`: the output of `sigmoid`. */
  dSigmoid(d: Tensor, out: Tensor): void;

  /**
   * out = the logit of s(a) * s(b), element by element, where s is the logistic function:
   * -log(exp(-a) + exp(-b) + exp(-a - b)). Computed in float64.
   */
  jointLogit(out: Tensor, a: Tensor, b: Tensor): void;
  /** dA = dOut * (exp(-a) + exp(-a - b)) / (the sum in `jointLogit`'s log); dB likewise. */
  dJointLogit(dA: Tensor, dB: Tensor, dOut: Tensor, a: Tensor, b: Tensor): void;

  /** out (R,D): the softmax of each row of x (R,D). Computed in float64. */
  softmax(out: Tensor, x: Tensor): void;
  /** dX (R,D) from dOut. `out`: the output of `softmax`. Computed in float64. */
  dSoftmax(dX: Tensor, dOut: Tensor, out: Tensor): void;

  /** out (B,M,N,D): each vector of a (B,M,D) times each of b (B,N,D), element by element. */
  pairs(out: Tensor, a: Tensor, b: Tensor): void;
  /** dA (B,M,D) from dOut (B,M,N,D): sums over N in order, by fused multiply-adds from 0. */
  dPairsLeft(dA: Tensor, dOut: Tensor, b: Tensor): void;
  /** dB (B,N,D) from dOut (B,M,N,D): sums over M in order. */
  dPairsRight(dB: Tensor, dOut: Tensor, a: Tensor): void;

  /**
   * Batched matrix product: out (B,M,N), summed over k in order, from 0. `ab`: a (B,M,K),
   * b (B,K,N). `abT`: b (B,N,K). `aTb`: a (B,K,M). An `a` of two dimensions is shared by all
   * samples. Then each of `plus` (B,M,N), at most `addendsMax`, is added in order.
   */
  products(out: Tensor, a: Tensor, b: Tensor, form: ProductForm, plus?: readonly Tensor[]): void;
  /**
   * The gradient of an `a` (M,K) that all samples share, in the form `ab`: for subtree p, dA[p]
   * (M,K) is the sum over the samples of its slices, and over n, of dOut (B,M,N) times b (B,K,N),
   * sample by sample, n in order. dA has one tensor for each of `finishedSubtrees(slices)`.
   */
  dShared(dA: readonly Tensor[], dOut: Tensor, b: Tensor, slices: Slices): void;

  /**
   * Low-rank interaction: y (B,K,D) = w (K,N) x, weighted sums of the vectors x (B,N,D); then out
   * (B,N,K) = x times y transposed. Same bits as two `products`.
   */
  rankProducts(out: Tensor, y: Tensor, x: Tensor, w: Tensor): void;
  /**
   * dX (B,N,D) = the gradient through y, then + the direct gradient of x, then + each of `plus`
   * (B,N,D); and dW[p] (K,N) for subtree p. Same bits as `products` and `dShared`.
   */
  dRankProducts(
    dX: Tensor,
    dW: readonly Tensor[],
    dOut: Tensor,
    operands: { readonly x: Tensor; readonly y: Tensor; readonly w: Tensor },
    slices: Slices,
    plus?: readonly Tensor[],
  ): void;

  /**
   * out (B): the sum of the dot products of all pairs of the vectors x (B,F,D), computed as half of
   * (the square of their sum - the sum of their squares). Sums over F in order; over D as in
   * `layerNorm`.
   */
  pairSum(out: Tensor, x: Tensor): void;
  /** dX (B,F,D) from dOut (B): each vector's gradient is dOut times the sum of the others. */
  dPairSum(dX: Tensor, dOut: Tensor, x: Tensor): void;

  /**
   * Layer normalisation over the rows of x (R,D): out = (x - mean) / sqrt(variance + epsilon) *
   * gain (D) + bias (D), with the biased variance. `saved` (R,2): the mean, and the factor
   * 1 / sqrt(variance + epsilon). Sums over D: lane i of 32 sums the columns i, i+32, …; then
   * lane i + lane i+16, then 8, 4, 2, 1.
   */
  layerNorm(
    out: Tensor,
    saved: Tensor,
    x: Tensor,
    gain: Tensor,
    bias: Tensor,
    epsilon: number,
  ): void;
  /**
   * dX (R,D), unless undefined, from dOut, x and `saved` of `layerNorm`, with sums over D as in
   * `layerNorm`. And for subtree p, dGain[p] (D) and dBias[p] (D): bounds of `slices` count rows,
   * and sums over rows are as in `dLinearWeight`.
   */
  dLayerNorm(
    dX: Tensor | undefined,
    dGain: readonly Tensor[],
    dBias: readonly Tensor[],
    dOut: Tensor,
    operands: { readonly saved: Tensor; readonly x: Tensor; readonly gain: Tensor },
    slices: Slices,
  ): void;

  /**
   * For subtree p, sums[p] (2,C): the sums of x (B,C) - `shift` (C), and of its squares. Sums over
   * samples as in `dLinearWeight`.
   */
  batchMoments(sums: readonly Tensor[], x: Tensor, shift: Tensor, slices: Slices): void;
  /**
   * From the whole batch's sums (2,C) of `batchMoments` with `shift` = running.mean: computes
   * `mean` and `unit` of its `count` samples, and moves the running mean and (unbiased) variance
   * towards those of the batch by `momentum`. Computed in float64.
   */
  wholeBatchStatistics(
    columns: Pick<BatchNormColumns, "mean" | "unit">,
    running: { readonly mean: Tensor; readonly variance: Tensor },
    sums: Tensor,
    numbers: { readonly count: number; readonly momentum: number; readonly epsilon: number },
  ): void;
  /** `mean` and `unit` of `columns`, from a mean and a variance (C). Computed in float64. */
  batchStatistics(
    columns: Pick<BatchNormColumns, "mean" | "unit">,
    mean: Tensor,
    variance: Tensor,
    epsilon: number,
  ): void;
  /** t / divisor, in place. Computed in float64. */
  divide(t: Tensor, divisor: number): void;
  /**
   * Batch normalisation: out (B,C) = (x - mean) * unit * gain + bias, each (C), then ReLU if
   * `relu`. `unit`: 1 / standard deviation. `out` may be `x`.
   */
  batchNorm(out: Tensor, x: Tensor, columns: BatchNormColumns, relu: boolean): void;
  /** For subtree p, dGain[p] (C) and dBias[p] (C), summed over samples as in `dLinearWeight`. */
  dBatchNormWeights(
    dGain: readonly Tensor[],
    dBias: readonly Tensor[],
    dOut: Tensor,
    x: Tensor,
    columns: BatchNormColumns,
    slices: Slices,
  ): void;
  /**
   * dX (B,C) = gain * unit * (dOut - dMean - (x - mean) * unit * dSlope). `dMean` (C) and `dSlope`
   * (C): the whole batch's sums of dOut, and of dOut times the normalised x, each divided by the
   * number of samples.
   */
  dBatchNorm(
    dX: Tensor,
    dOut: Tensor,
    x: Tensor,
    columns: BatchNormColumns,
    dMean: Tensor,
    dSlope: Tensor,
  ): void;
}

/** Statistics and parameters of batch normalisation, (C) each. `unit`: 1 / standard deviation. */
export interface BatchNormColumns {
  readonly mean: Tensor;
  readonly unit: Tensor;
  readonly gain: Tensor;
  readonly bias: Tensor;
}
