// The reference kernels of batch normalisation, in plain loops.

import type { BatchNormColumns, Kernels } from "../contract/kernels.ts";
import { finishedSubtrees } from "../contract/slices.ts";
import { dBias as sumColumns, treeSum } from "./dense.ts";
import { type Values, valuesOf } from "./memory.ts";
import type { Round } from "./round.ts";

/** The reference kernels of batch normalisation in the precision of `round`. */
export function createBatchNorm(round: Round) {
  return {
    batchMoments(sums, x, shift, slices) {
      const [xs, shifts] = [valuesOf(x), valuesOf(shift)];
      const width = shifts.length;
      for (const [p, tree] of finishedSubtrees(slices).entries()) {
        const own = valuesOf(sums[p]!);
        const sum = (c: number, push: (acc: number, value: number) => number) =>
          treeSum(round, tree, slices, (from, to) => {
            let acc = 0;
            for (let s = from; s < to; s++) acc = push(acc, round(xs[s * width + c]! - shifts[c]!));
            return acc;
          });
        for (let c = 0; c < width; c++) {
          own[c] = sum(c, (acc, value) => round(acc + value));
          own[width + c] = sum(c, (acc, value) => round.fused(acc, value, value));
        }
      }
    },

    batchNorm(out, x, columns, relu) {
      const [o, xs] = [valuesOf(out), valuesOf(x)];
      const [gains, biases] = [valuesOf(columns.gain), valuesOf(columns.bias)];
      const width = gains.length;
      for (let i = 0; i < o.length; i++) {
        const c = i % width;
        const value = round.fused(biases[c]!, normalised(round, xs, columns, i, c), gains[c]!);
        o[i] = relu && value < 0 ? 0 : value;
      }
    },

    dBatchNormWeights(dGain, dBias, dOut, x, columns, slices) {
      const [d, xs] = [valuesOf(dOut), valuesOf(x)];
      for (const [p, tree] of finishedSubtrees(slices).entries()) {
        const dg = valuesOf(dGain[p]!);
        const width = dg.length;
        for (let c = 0; c < width; c++) {
          dg[c] = treeSum(round, tree, slices, (from, to) => {
            let acc = 0;
            for (let s = from; s < to; s++) {
              const i = s * width + c;
              acc = round.fused(acc, d[i]!, normalised(round, xs, columns, i, c));
            }
            return acc;
          });
        }
        sumColumns(round, valuesOf(dBias[p]!), dOut, slices, tree);
      }
    },

    dBatchNorm(dX, dOut, x, columns, dMean, dSlope) {
      const [dx, d, xs] = [valuesOf(dX), valuesOf(dOut), valuesOf(x)];
      const [means, slopes] = [valuesOf(dMean), valuesOf(dSlope)];
      const [gains, units] = [valuesOf(columns.gain), valuesOf(columns.unit)];
      const width = gains.length;
      for (let i = 0; i < dx.length; i++) {
        const c = i % width;
        const centred = round(d[i]! - means[c]!);
        const rest = round.fused(centred, -normalised(round, xs, columns, i, c), slopes[c]!);
        dx[i] = round(rest * round(gains[c]! * units[c]!));
      }
    },
  } satisfies Partial<Kernels>;
}

/** Element i, of column c, normalised: minus the mean, divided by the standard deviation. */
function normalised(
  round: Round,
  xs: Values,
  { mean, unit }: BatchNormColumns,
  i: number,
  c: number,
): number {
  return round(round(xs[i]! - valuesOf(mean)[c]!) * valuesOf(unit)[c]!);
}
