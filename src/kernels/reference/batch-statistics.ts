// Statistics of a whole batch, one number per column. The reference and native kernels share this
// code: it handles few numbers, so it needs no native version, and computes in float64.

import type { BlockKernels } from "../contract/kernels.ts";
import { valuesOf } from "./memory.ts";

/** See `BlockKernels.wholeBatchStatistics`. */
export const wholeBatchStatistics: BlockKernels["wholeBatchStatistics"] = (
  columns,
  running,
  sums,
  { count, momentum, epsilon },
) => {
  const [means, units, own] = [columns.mean, columns.unit, sums].map(valuesOf);
  const [runningMeans, runningVariances] = [valuesOf(running.mean), valuesOf(running.variance)];
  const width = runningMeans.length;
  for (let c = 0; c < width; c++) {
    const shifted = own![c]! / count;
    const variance = Math.max(0, own![width + c]! / count - shifted * shifted);
    const mean = runningMeans[c]! + shifted;
    means![c] = mean;
    units![c] = 1 / Math.sqrt(variance + epsilon);
    const unbiased = (variance * count) / Math.max(1, count - 1);
    runningMeans[c] = runningMeans[c]! + momentum * (mean - runningMeans[c]!);
    runningVariances[c] = runningVariances[c]! + momentum * (unbiased - runningVariances[c]!);
  }
};

/** See `BlockKernels.batchStatistics`. */
export const batchStatistics: BlockKernels["batchStatistics"] = (
  columns,
  mean,
  variance,
  epsilon,
) => {
  const [means, units, from, variances] = [columns.mean, columns.unit, mean, variance].map(
    valuesOf,
  );
  for (let c = 0; c < means!.length; c++) {
    means![c] = from![c]!;
    units![c] = 1 / Math.sqrt(variances![c]! + epsilon);
  }
};

/** See `BlockKernels.divide`. */
export const divide: BlockKernels["divide"] = (t, divisor) => {
  const values = valuesOf(t);
  for (let i = 0; i < values.length; i++) values[i] = values[i]! / divisor;
};
