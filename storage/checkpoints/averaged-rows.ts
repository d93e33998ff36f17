// Moving averages of a checkpoint's rows (row-average.ts), with the values that an evaluation after
// the checkpoint's last step uses. Exports write them, so that other programs predict alike.

import type { RowRecords } from "../../src/embedding/rows/row-records.ts";
import { lagShare, type RowAverage } from "../../src/kernels/contract/row-average.ts";
import type { OpenCheckpoint } from "./open-checkpoint.ts";

/** The moving-average settings of a checkpoint's rows; undefined: rows have no average. */
export function rowAverageIn({
  job,
  manifest,
}: Pick<OpenCheckpoint, "job" | "manifest">): RowAverage | undefined {
  const { ema } = job.optimizer.sparse;
  return ema && { decay: ema.decay, steps: manifest.cut };
}

/** The averages (n, D) of whole rows; without an `average`, their weights. */
export function averagesOf(
  { rows, weights, state }: RowRecords,
  average: RowAverage | undefined,
): Float32Array {
  if (average === undefined) return weights;
  const [dim, width] = [weights.length / rows.length, state.length / rows.length];
  const averages = new Float32Array(weights.length);
  for (let row = 0; row < rows.length; row++) {
    const share = Math.fround(lagShare(average, state[(row + 1) * width - 1] ?? 0));
    for (let c = 0; c < dim; c++) {
      const lag = state[row * width + c] ?? 0;
      averages[row * dim + c] = (weights[row * dim + c] ?? 0) + share * lag;
    }
  }
  return averages;
}
