// The inner search of NeuroShard (Zha et al., MLSys 2023, section 3.3): tables, or parts of
// them, are placed greedily by predicted cost under a limit on each device's columns; the limit
// is tried at several scales of the even share, and the plan with the least cost is kept.

import { type CostNetworks, planCost } from "./cost-networks.ts";
import type { DeviceState, DeviceStates, KnownPart } from "./device-states.ts";
import type { DeviceRoom, TablesOfDevices } from "./greedy.ts";

/**
 * Scales of the even share of columns. The last scale, without a limit, is not in the paper: with
 * many devices one table may be wider than any limit, and without this scale there is often no
 * plan.
 */
export const gridScales: readonly number[] = [
  ...[1, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.4, 1.45, 1.5],
  Number.POSITIVE_INFINITY,
];

/** A placement and its cost. */
export interface GridPlan {
  readonly placed: TablesOfDevices;
  /** Milliseconds of the slowest device (`planCost`). */
  readonly cost: number;
}

/** The result if no scale has a placement. */
export interface NoRoom {
  /**
   * Sum of the squared bytes of the parts that do not fit, at the best scale. Squares make the sum
   * fall when a large part is cut, although its halves together need slightly more bytes.
   */
  readonly lacks: number;
}

/** Returns the best placement of all scales. */
export function searchGrid(
  networks: CostNetworks,
  states: DeviceStates,
  tables: readonly KnownPart[],
  room: DeviceRoom,
  scales: readonly number[] = gridScales,
): GridPlan | NoRoom {
  const order = [...tables.keys()]
    .filter((index) => tables[index]?.isCopied === false)
    .sort((a, b) => costOf(tables, b) - costOf(tables, a) || a - b);
  const copies = tables.filter(({ isCopied }) => isCopied);
  const start = copies.reduce((state, copy) => states.with(state, copy), states.empty);
  const share = tables.reduce((sum, { columns }) => sum + columns, 0) / room.devices;
  let best: GridPlan | undefined;
  let lacks = Infinity;
  let before: readonly DeviceState[] = [];
  for (const scale of scales) {
    const found = placeWithin(states, start, tables, order, room, scale * share);
    if (found.lacks > 0) {
      lacks = Math.min(lacks, found.lacks);
      continue;
    }
    const isNew = found.devices.some((state, device) => state !== before[device]);
    before = found.devices;
    if (isNew) {
      const cost = planCost(networks, found.devices);
      if (best === undefined || cost < best.cost) best = { placed: found.placed, cost };
    }
    // If the limit excluded no device, a higher limit gives the same placement.
    if (!found.isLimited) break;
  }
  return best ?? { lacks };
}

function costOf(tables: readonly KnownPart[], table: number): number {
  return tables[table]?.cost ?? 0;
}

interface Placement extends NoRoom {
  readonly placed: number[][];
  readonly devices: DeviceState[];
  /** Whether the limit of columns excluded a device for some table. */
  readonly isLimited: boolean;
}

/** Places each table on the device with the least cost so far; among equals on the emptier. */
function placeWithin(
  states: DeviceStates,
  start: DeviceState,
  tables: readonly KnownPart[],
  order: readonly number[],
  { devices: count, bytes }: DeviceRoom,
  columnsMax: number,
): Placement {
  const devices = new Array<DeviceState>(count).fill(start);
  const placed = devices.map((): number[] => []);
  let isLimited = false;
  let lacks = Math.max(0, start.bytes - bytes) ** 2;
  for (const index of order) {
    const table = tables[index];
    if (table === undefined) continue;
    let best = -1;
    for (const [device, state] of devices.entries()) {
      if (state.bytes + table.bytes > bytes) continue;
      if (state.columns + table.columns > columnsMax) {
        isLimited = true;
        continue;
      }
      const than = devices[best];
      const less =
        than === undefined ? -1 : state.compute - than.compute || state.bytes - than.bytes;
      if (less < 0) best = device;
    }
    const to = devices[best];
    if (to === undefined) {
      lacks += table.bytes ** 2;
      continue;
    }
    placed[best]?.push(index);
    devices[best] = states.with(to, table);
  }
  return { placed, devices, lacks, isLimited };
}
