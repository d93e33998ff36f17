// Inputs of a policy about devices: sums of the vectors of their tables, and predicted costs
// relative to their mean.

import { vectorColumns } from "./cost-model.ts";

/** sums[row] += vectors[from] */
export function addVector(
  sums: Float32Array,
  row: number,
  vectors: Float32Array,
  from: number,
): void {
  const [to, start] = [row * vectorColumns, from * vectorColumns];
  for (let i = 0; i < vectorColumns; i++) {
    sums[to + i] = (sums[to + i] ?? 0) + (vectors[start + i] ?? 0);
  }
}

/**
 * A cost is in parts of the even share per device: `shareParts` of them make the share. `toldMax`
 * limits the magnitude.
 */
const shareParts = 10;
const toldMax = 10;

/**
 * Writes the costs of the devices as input of a policy: the excess of each over their mean, in
 * tenths of the even share of the tables' costs.
 */
export function tellCosts(
  seen: Float32Array,
  costs: Float32Array,
  of: { readonly devices: number; readonly heads: number; readonly share: number },
): void {
  const { devices, heads, share } = of;
  const each = devices * heads;
  for (let first = 0; first < costs.length; first += each) {
    for (let cost = first; cost < first + heads; cost++) {
      let mean = 0;
      for (let i = cost; i < first + each; i += heads) mean += (costs[i] ?? 0) / devices;
      for (let i = cost; i < first + each; i += heads) {
        const above = (shareParts * ((costs[i] ?? 0) - mean)) / Math.max(share, 1e-6);
        seen[i] = Math.max(-toldMax, Math.min(toldMax, above));
      }
    }
  }
}
