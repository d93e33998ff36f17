// The baseline plans for learned sharding: whole tables, the most expensive first, each to the
// device with the least cost so far, by one of the four costs that NeuroShard compares itself with
// (Zha et al., MLSys 2023, section 4.1); or each to a random device.

import { type CostTable, purposes, RandomStream, weightBytesOf } from "../../../internal.ts";

/** The tables on each device, by index, in the order in which they were placed. */
export type TablesOfDevices = readonly (readonly number[])[];

/** The devices to place on. */
export interface DeviceRoom {
  readonly devices: number;
  /** Bytes of weights that each device can hold. */
  readonly bytes: number;
}

/** Cost of a table, by name: columns; elements; ids times columns; the same times log10 of rows. */
export const greedyCosts = {
  dim: ({ dim }: CostTable) => dim,
  size: ({ rows, dim }: CostTable) => rows * dim,
  lookup: ({ dim, poolingFactor }: CostTable) => dim * poolingFactor,
  sizeLookup: ({ rows, dim, poolingFactor }: CostTable) => {
    return dim * poolingFactor * Math.log10(rows);
  },
} as const;

export type GreedyCost = keyof typeof greedyCosts;

/**
 * Places the tables by the sum of a cost; undefined if a table does not fit on any device. Among
 * tables of equal cost the larger goes first, then the later; among devices of equal sum the
 * emptier is taken.
 */
export function placeByCost(
  tables: readonly CostTable[],
  { devices, bytes }: DeviceRoom,
  cost: GreedyCost,
): TablesOfDevices | undefined {
  const costs = tables.map(greedyCosts[cost]);
  const sizes = tables.map(weightBytesOf);
  const by = (of: readonly number[], a: number, b: number) => (of[b] ?? 0) - (of[a] ?? 0);
  const order = [...tables.keys()].sort((a, b) => by(costs, a, b) || by(sizes, a, b) || b - a);
  const placed = Array.from({ length: devices }, (): number[] => []);
  const load = new Float64Array(devices);
  const held = new Float64Array(devices);
  for (const table of order) {
    const size = sizes[table] ?? 0;
    let best = -1;
    for (let device = 0; device < devices; device++) {
      if ((held[device] ?? 0) + size > bytes) continue;
      const less = best < 0 ? -1 : (load[device] ?? 0) - (load[best] ?? 0);
      if (less < 0 || (less === 0 && (held[device] ?? 0) < (held[best] ?? 0))) best = device;
    }
    if (best < 0) return undefined;
    placed[best]?.push(table);
    load[best] = (load[best] ?? 0) + (costs[table] ?? 0);
    held[best] = (held[best] ?? 0) + size;
  }
  return placed;
}

/** Places each table on a random device, whether it has room or not. */
export function placeAtRandom(tables: number, devices: number, seed: number): TablesOfDevices {
  const random = new RandomStream(seed, purposes.placements);
  const placed = Array.from({ length: devices }, (): number[] => []);
  for (let table = 0; table < tables; table++) placed[random.below(devices)]?.push(table);
  return placed;
}

/** Returns the bytes of weights on the fullest device. */
export function mostBytes(tables: readonly CostTable[], placed: TablesOfDevices): number {
  return placed.reduce((fullest, own) => {
    const sum = own.reduce((bytes, table) => {
      const found = tables[table];
      return bytes + (found === undefined ? 0 : weightBytesOf(found));
    }, 0);
    return Math.max(fullest, sum);
  }, 0);
}
