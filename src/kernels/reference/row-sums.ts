// Computes the whole-row values of rows split by columns from the sums over their quanta. The
// native kernels share `rowTrust`.

import type { Kernels } from "../contract/kernels.ts";

/** The means of squares, with the bits of an unsplit update; see `Kernels.rowMeans`. */
export const rowMeans: Kernels["rowMeans"] = (squares, quanta, dim) => {
  // Storing rounds to float32 after each addition, and after the division.
  const means = new Float32Array((squares[0]?.length ?? 0) / (quanta[0] ?? 1));
  for (let i = 0; i < squares.length; i++) {
    const [run, width] = [squares[i]!, quanta[i]!];
    for (let row = 0, q = 0; row < means.length; row++) {
      for (const end = q + width; q < end; q++) means[row]! += run[q]!;
    }
  }
  for (let row = 0; row < means.length; row++) means[row]! /= dim;
  return means;
};

/** The trust ratios, with the bits of an unsplit update; see `Kernels.rowTrust`. */
export const rowTrust: Kernels["rowTrust"] = (norms, quanta) => {
  const trust = new Float32Array((norms[0]?.length ?? 0) / (2 * (quanta[0] ?? 1)));
  for (let row = 0; row < trust.length; row++) {
    let [weights, steps] = [0, 0];
    for (const [i, run] of norms.entries()) {
      const width = 2 * quanta[i]!;
      for (let q = row * width; q < (row + 1) * width; q += 2) {
        weights += run[q]!;
        steps += run[q + 1]!;
      }
    }
    const [length, stepLength] = [Math.fround(Math.sqrt(weights)), Math.fround(Math.sqrt(steps))];
    trust[row] = length > 0 && stepLength > 0 ? length / stepLength : 1;
  }
  return trust;
};
