// Exact partition of tiny instances by branch and bound: tries every placement, except those
// already as expensive as the best known one.

import type { LoadGroup, Partition, Room } from "./partition.ts";
import {
  fits,
  hasRoomFor,
  isFree,
  partStarts,
  put,
  secondsOn,
  startPartition,
} from "./partition.ts";

/** Maximum number of placements for one proposal. */
const placementsMax = 20_000;

/** Whether the groups have few enough placements to try all. */
export function isTiny(groups: readonly LoadGroup[], devices: number): boolean {
  const free = groups.filter(isFree);
  const parts = free.reduce((sum, group) => sum + group.parts.length, 0);
  return parts * Math.log(devices) <= Math.log(placementsMax);
}

/**
 * Returns the placement with the smallest maximum cost on a device, below `below`; undefined if
 * there is none. Among equals, the first in order of devices.
 */
export function partitionExactly(
  groups: readonly LoadGroup[],
  room: Room,
  below: number,
): Partition | undefined {
  const { perHost } = room.devices;
  const { starts } = partStarts(groups);
  const to = startPartition(groups, room);
  const open = groups.flatMap(({ level, parts }, group) => {
    const first = starts[group] ?? 0;
    return !isFree({ level })
      ? []
      : parts.map((load, i) => ({ level, load, first, part: first + i }));
  });
  let best: Partition | undefined;
  let bound = below;

  /** Whether part `part` of a host's group, which begins at `first`, may lie on `device`. */
  const isAllowed = (first: number, part: number, device: number): boolean => {
    for (let before = first; before < part; before++) {
      const other = to.deviceOf[before] ?? 0;
      if (other === device || Math.floor(other / perHost) !== Math.floor(device / perHost)) {
        return false;
      }
    }
    return true;
  };
  const visit = (depth: number): void => {
    const next = open[depth];
    if (next === undefined) {
      bound = to.cost.reduce((most, cost) => Math.max(most, cost), 0);
      best = copyOf(to);
      return;
    }
    const { level, load, first, part } = next;
    for (let device = 0; device < to.cost.length; device++) {
      if (level === "host" && !isAllowed(first, part, device)) continue;
      const cost = to.cost[device] ?? 0;
      const bytes = to.bytes[device] ?? 0;
      const host = Math.floor(device / perHost);
      const hostBytes = to.hostBytes[host] ?? 0;
      if (cost + secondsOn(room, load, device) >= bound) continue;
      if (!hasRoomFor(to, load, device, room)) continue;
      put(to, part, load, device, room);
      visit(depth + 1);
      to.cost[device] = cost;
      to.bytes[device] = bytes;
      to.hostBytes[host] = hostBytes;
    }
  };
  const isBelow = to.cost.every((cost) => cost < bound);
  if (isBelow && fits(to, room)) visit(0);
  return best;
}

function copyOf({ deviceOf, cost, bytes, hostBytes }: Partition): Partition {
  return {
    ...{ deviceOf: deviceOf.slice(), cost: cost.slice() },
    ...{ bytes: bytes.slice(), hostBytes: hostBytes.slice() },
  };
}
