// What a policy knows of devices: sums of the vectors of their tables, and predicted costs, told
// beside each other.

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

/** Parts of the even share that a cost is told in, and the most that is told. */
const shareParts = 10;
const toldMax = 10;

/**
 * What a policy sees of the costs of the devices: by how much each lies above their mean, in
 * tenths of what a device has of the tables' costs if they are even.
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
