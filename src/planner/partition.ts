// Greedy partition: the largest part first, each to the least loaded device with room (longest
// processing time first; as in Neo, Mudigere et al., arXiv 2104.05158). Ties go to the lower index,
// so a partition is a function of its arguments.

import { type Devices, deviceCount } from "./shards.ts";

/** The load of a part. */
export interface Load {
  readonly cost: number;
  readonly bytes: number;
}

/** Parts that are placed together. */
export interface LoadGroup {
  /**
   * `device`: one part, on any device. `host`: parts on different devices of one host. `all`: part
   * i on device i, or the only part on every device. `pinned`: part i on `devices[i]`.
   */
  readonly level: "device" | "host" | "all" | "pinned";
  readonly parts: readonly Load[];
  /** The devices of a pinned group. */
  readonly devices?: readonly number[] | undefined;
}

/** Whether the search may choose the devices of the parts of a group. */
export function isFree({ level }: Pick<LoadGroup, "level">): boolean {
  return level === "device" || level === "host";
}

/** The devices to place on; `bytes` is the room of each device for parts. */
export interface Room {
  readonly devices: Devices;
  readonly bytes: number;
}

/** A finished placement. */
export interface Partition {
  /** The device of each part, group by group; -1: every device has a copy. */
  readonly deviceOf: Int32Array;
  /** Cost on each device. */
  readonly cost: Float64Array;
  readonly bytes: Float64Array;
}

/** The sort key of groups, and the load to minimise on a device. */
export interface Preference {
  readonly order: keyof Load;
  readonly least: keyof Load;
}

/** Where the parts of each group start in a flat list, and the number of parts. */
export function partStarts(groups: readonly LoadGroup[]): { starts: number[]; parts: number } {
  let parts = 0;
  const starts = groups.map((group) => {
    const start = parts;
    parts += group.parts.length;
    return start;
  });
  return { starts, parts };
}

/** Adds a part to a device of the partition. */
export function put(to: Partition, part: number, load: Load, device: number): void {
  to.deviceOf[part] = device;
  to.cost[device] = (to.cost[device] ?? 0) + load.cost;
  to.bytes[device] = (to.bytes[device] ?? 0) + load.bytes;
}

/**
 * Returns a partition with only the parts of levels `all` and `pinned`, whose devices are given.
 */
export function startPartition(groups: readonly LoadGroup[], { devices }: Room): Partition {
  const { starts, parts } = partStarts(groups);
  const W = deviceCount(devices);
  const to: Partition = {
    deviceOf: new Int32Array(parts),
    cost: new Float64Array(W),
    bytes: new Float64Array(W),
  };
  for (const [i, { level, parts: loads, devices: pinned }] of groups.entries()) {
    for (const [part, device] of (pinned ?? []).entries()) {
      const load = loads[part];
      if (load !== undefined) put(to, (starts[i] ?? 0) + part, load, device);
    }
    if (level !== "all") continue;
    const [first] = loads;
    for (let device = 0; device < W; device++) {
      const load = loads.length === 1 ? first : loads[device];
      if (load !== undefined)
        put(to, (starts[i] ?? 0) + (loads.length === 1 ? 0 : device), load, device);
    }
    if (loads.length === 1) to.deviceOf[starts[i] ?? 0] = -1;
  }
  return to;
}

/** Whether every device has room for its parts. */
export function fits(partition: Partition, room: Room): boolean {
  return partition.bytes.every((bytes) => bytes <= room.bytes);
}

/** Places all groups greedily; undefined if a group does not fit. */
export function partitionGreedily(
  groups: readonly LoadGroup[],
  room: Room,
  preference: Preference = { order: "cost", least: "cost" },
): Partition | undefined {
  const { starts } = partStarts(groups);
  const to = startPartition(groups, room);
  if (!fits(to, room)) return undefined;
  for (const group of largestFirst(groups, preference.order)) {
    const { level, parts } = groups[group] ?? { level: "device", parts: [] };
    const start = starts[group] ?? 0;
    const isPlaced =
      level === "host"
        ? placeOnHost(to, parts, start, room, preference.least)
        : placeOnDevice(to, parts[0], start, room, preference.least);
    if (!isPlaced) return undefined;
  }
  return to;
}

/** Indices of the groups to place, the largest part first. */
function largestFirst(groups: readonly LoadGroup[], order: keyof Load): number[] {
  const size = groups.map(({ parts }) => {
    return parts.reduce((most, part) => Math.max(most, part[order]), 0);
  });
  const indices = [...groups.keys()].filter((i) => isFree(groups[i] ?? { level: "all" }));
  return indices.sort((a, b) => (size[b] ?? 0) - (size[a] ?? 0) || a - b);
}

function placeOnDevice(
  to: Partition,
  load: Load | undefined,
  part: number,
  room: Room,
  least: keyof Load,
): boolean {
  if (load === undefined) return false;
  const loads = to[least];
  let best = -1;
  let bestLoad = Infinity;
  for (let device = 0; device < loads.length; device++) {
    const own = loads[device] ?? 0;
    if (own < bestLoad && (to.bytes[device] ?? 0) + load.bytes <= room.bytes) {
      best = device;
      bestLoad = own;
    }
  }
  if (best < 0) return false;
  put(to, part, load, best);
  return true;
}

/** Places the parts on different devices of the least loaded host with room. */
function placeOnHost(
  to: Partition,
  loads: readonly Load[],
  start: number,
  room: Room,
  least: keyof Load,
): boolean {
  const { hosts, perHost } = room.devices;
  const sums = Array.from({ length: hosts }, (_, host) => {
    return to[least].subarray(host * perHost, (host + 1) * perHost).reduce((a, b) => a + b, 0);
  });
  const order = [...sums.keys()].sort((a, b) => (sums[a] ?? 0) - (sums[b] ?? 0) || a - b);
  const parts = [...loads.keys()].sort((a, b) => {
    return (loads[b]?.[least] ?? 0) - (loads[a]?.[least] ?? 0) || a - b;
  });
  for (const host of order) {
    const own = Array.from({ length: perHost }, (_, i) => host * perHost + i);
    own.sort((a, b) => (to[least][a] ?? 0) - (to[least][b] ?? 0) || a - b);
    const hasRoom = parts.every((part, i) => {
      const bytes = (to.bytes[own[i] ?? -1] ?? Infinity) + (loads[part]?.bytes ?? 0);
      return bytes <= room.bytes;
    });
    if (!hasRoom) continue;
    for (const [i, part] of parts.entries()) {
      const load = loads[part];
      if (load !== undefined) put(to, start + part, load, own[i] ?? 0);
    }
    return true;
  }
  return false;
}
