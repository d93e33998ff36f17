// Greedy partition: the largest part first, each to the least loaded device with room (longest
// processing time first; as in Neo, Mudigere et al., arXiv 2104.05158). Ties go to the lower index,
// so a partition is a function of its arguments.

import { type Devices, deviceCount } from "./shards.ts";
import { createTournament } from "./tournament.ts";

/** The load of a part. */
export interface Load {
  readonly cost: number;
  readonly bytes: number;
  /** Bytes of the memory that the devices of its host share. @default 0 */
  readonly hostBytes?: number;
  /** The part of the cost that a faster device shortens. @default all of it */
  readonly work?: number;
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
  /** The memory that the devices of a host share. @default no limit */
  readonly hostBytes?: number | undefined;
  /** Where hosts are unequal, by device: its room, and how many times as long its work takes. */
  readonly each?: { readonly bytes: Float64Array; readonly slowness: Float64Array } | undefined;
}

export function roomAt({ bytes, each }: Room, device: number): number {
  return each === undefined ? bytes : Math.min(bytes, each.bytes[device] ?? 0);
}

/** The room of all devices together. */
export function roomOfAll(room: Room): number {
  const W = deviceCount(room.devices);
  if (room.each === undefined) return W * room.bytes;
  return room.each.bytes.reduce((sum, _, device) => sum + roomAt(room, device), 0);
}

/** Seconds of a part on a device. */
export function secondsOn({ each }: Room, { cost, work = cost }: Load, device: number): number {
  return each === undefined ? cost : cost + ((each.slowness[device] ?? 1) - 1) * work;
}

/** A finished placement. */
export interface Partition {
  /** The device of each part, group by group; -1: every device has a copy. */
  readonly deviceOf: Int32Array;
  /** Cost on each device. */
  readonly cost: Float64Array;
  readonly bytes: Float64Array;
  /** Bytes of the memory that devices share, on each host. */
  readonly hostBytes: Float64Array;
}

/** The sort key of groups, and the load to minimise on a device. */
export interface Preference {
  readonly order: "cost" | "bytes";
  readonly least: "cost" | "bytes";
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
export function put(to: Partition, part: number, load: Load, device: number, room: Room): void {
  to.deviceOf[part] = device;
  to.cost[device] = (to.cost[device] ?? 0) + secondsOn(room, load, device);
  to.bytes[device] = (to.bytes[device] ?? 0) + load.bytes;
  const host = Math.floor(device / room.devices.perHost);
  to.hostBytes[host] = (to.hostBytes[host] ?? 0) + (load.hostBytes ?? 0);
}

/** Whether a device, and its host, have room for a part; `beside`: bytes of others on the host. */
export function hasRoomFor(
  to: Partition,
  load: Load,
  device: number,
  room: Room,
  beside = 0,
): boolean {
  const { hostBytes = Infinity, devices } = room;
  const onHost = (to.hostBytes[Math.floor(device / devices.perHost)] ?? Infinity) + beside;
  const isOnDevice = (to.bytes[device] ?? Infinity) + load.bytes <= roomAt(room, device);
  return isOnDevice && onHost + (load.hostBytes ?? 0) <= hostBytes;
}

/**
 * Returns a partition with only the parts of levels `all` and `pinned`, whose devices are given.
 */
export function startPartition(groups: readonly LoadGroup[], room: Room): Partition {
  const { starts, parts } = partStarts(groups);
  const W = deviceCount(room.devices);
  const to: Partition = {
    deviceOf: new Int32Array(parts),
    cost: new Float64Array(W),
    bytes: new Float64Array(W),
    hostBytes: new Float64Array(room.devices.hosts),
  };
  for (const [i, { level, parts: loads, devices: pinned }] of groups.entries()) {
    for (const [part, device] of (pinned ?? []).entries()) {
      const load = loads[part];
      if (load !== undefined) put(to, (starts[i] ?? 0) + part, load, device, room);
    }
    if (level !== "all") continue;
    const [first] = loads;
    for (let device = 0; device < W; device++) {
      const load = loads.length === 1 ? first : loads[device];
      if (load !== undefined)
        put(to, (starts[i] ?? 0) + (loads.length === 1 ? 0 : device), load, device, room);
    }
    if (loads.length === 1) to.deviceOf[starts[i] ?? 0] = -1;
  }
  return to;
}

/** Whether every device has room for its parts. */
export function fits(partition: Partition, room: Room): boolean {
  const { hostBytes: most = Infinity } = room;
  const isOnHosts = partition.hostBytes.every((bytes) => bytes <= most);
  return isOnHosts && partition.bytes.every((bytes, device) => bytes <= roomAt(room, device));
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
  const choice = choiceOf(to, room, preference.least);
  for (const group of largestFirst(groups, preference.order)) {
    const { level, parts } = groups[group] ?? { level: "device", parts: [] };
    const start = starts[group] ?? 0;
    const isPlaced =
      level === "host"
        ? placeOnHost(to, parts, start, room, choice)
        : placeOnDevice(to, parts[0], start, room, choice);
    if (!isPlaced) return undefined;
  }
  return to;
}

/** Indices of the groups to place, the largest part first. */
function largestFirst(groups: readonly LoadGroup[], order: Preference["order"]): number[] {
  const size = groups.map(({ parts }) => {
    return parts.reduce((most, part) => Math.max(most, part[order]), 0);
  });
  const indices = [...groups.keys()].filter((i) => isFree(groups[i] ?? { level: "all" }));
  return indices.sort((a, b) => (size[b] ?? 0) - (size[a] ?? 0) || a - b);
}

/**
 * Finds the least loaded device, or host, with room for new parts; -1: none. It is the last one for
 * which `hasRoom` returned true.
 */
interface Choice {
  readonly least: Preference["least"];
  device(load: Load, hasRoom: (device: number) => boolean): number;
  host(loads: readonly Load[], hasRoom: (host: number) => boolean): number;
  /** A device has another load than before. */
  changed(device: number): void;
}

function choiceOf(to: Partition, room: Room, least: Preference["least"]): Choice {
  const { hosts, perHost } = room.devices;
  const hostLoad = (host: number, loads: readonly Load[]) => {
    let sum = 0;
    for (let i = 0; i < perHost; i++) {
      sum += loadWith(to, i === 0 ? loads : [], host * perHost + i, room, least);
    }
    return sum;
  };
  if (room.each !== undefined) {
    return {
      least,
      device: (load, hasRoom) =>
        leastBy(hosts * perHost, (device) => loadWith(to, [load], device, room, least), hasRoom),
      host: (loads, hasRoom) => leastBy(hosts, (host) => hostLoad(host, loads), hasRoom),
      changed: () => {},
    };
  }
  const devices = createTournament(to[least]);
  const ofHosts = createTournament(Float64Array.from({ length: hosts }, (_, i) => hostLoad(i, [])));
  return {
    least,
    device: (_, hasRoom) => devices.find(hasRoom),
    host: (_, hasRoom) => ofHosts.find(hasRoom),
    changed: (device) => {
      const host = Math.floor(device / perHost);
      devices.set(device, to[least][device] ?? 0);
      ofHosts.set(host, hostLoad(host, []));
    },
  };
}

/** As `Tournament.find`, but examines all devices, because their loads depend on the parts. */
function leastBy(
  count: number,
  loadAt: (index: number) => number,
  isAllowed: (index: number) => boolean,
): number {
  let best = -1;
  let bestLoad = Infinity;
  for (let index = 0; index < count; index++) {
    const own = loadAt(index);
    if (own < bestLoad && isAllowed(index)) [best, bestLoad] = [index, own];
  }
  return best;
}

function placeOnDevice(
  to: Partition,
  load: Load | undefined,
  part: number,
  room: Room,
  choice: Choice,
): boolean {
  if (load === undefined) return false;
  const best = choice.device(load, (device) => hasRoomFor(to, load, device, room));
  if (best < 0) return false;
  put(to, part, load, best, room);
  choice.changed(best);
  return true;
}

/**
 * The load by which devices are compared for new parts: the present load; on unequal devices with
 * the parts, whose seconds and share of the room depend on the device.
 */
function loadWith(
  to: Partition,
  loads: readonly Load[],
  device: number,
  room: Room,
  least: Preference["least"],
): number {
  const own = to[least][device] ?? 0;
  if (room.each === undefined) return own;
  const added = loads.reduce((sum, load) => {
    return sum + (least === "cost" ? secondsOn(room, load, device) : load.bytes);
  }, own);
  return least === "cost" ? added : added / roomAt(room, device);
}

/** Places the parts on different devices of the least loaded host with room. */
function placeOnHost(
  to: Partition,
  loads: readonly Load[],
  start: number,
  room: Room,
  choice: Choice,
): boolean {
  const { perHost } = room.devices;
  const { least } = choice;
  const parts = [...loads.keys()].sort((a, b) => {
    return (loads[b]?.[least] ?? 0) - (loads[a]?.[least] ?? 0) || a - b;
  });
  /** Devices of one host, the least loaded first. */
  const own = new Int32Array(perHost);
  const best = choice.host(loads, (host) => {
    sortDevices(own, host * perHost, to[least]);
    let beside = 0;
    return parts.every((part, i) => {
      const load = loads[part] ?? noLoad;
      const isThere = hasRoomFor(to, load, own[i] ?? -1, room, beside);
      beside += load.hostBytes ?? 0;
      return isThere;
    });
  });
  if (best < 0) return false;
  sortDevices(own, best * perHost, to[least]);
  for (const [i, part] of parts.entries()) {
    const load = loads[part];
    if (load === undefined) continue;
    put(to, start + part, load, own[i] ?? 0, room);
    choice.changed(own[i] ?? 0);
  }
  return true;
}

const noLoad: Load = { cost: 0, bytes: 0 };

/** Fills `sorted` with the devices from `first` on, by load and then by index. */
function sortDevices(sorted: Int32Array, first: number, loads: Float64Array): void {
  for (let i = 0; i < sorted.length; i++) {
    const load = loads[first + i] ?? 0;
    let at = i;
    for (; at > 0; at--) {
      const before = sorted[at - 1] ?? 0;
      if ((loads[before] ?? 0) <= load) break;
      sorted[at] = before;
    }
    sorted[at] = first + i;
  }
}
