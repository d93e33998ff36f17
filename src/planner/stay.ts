// Keeps the parts of tables on their devices when the devices of a run change. Only the parts of
// lost devices are placed again, and some parts move to new devices. A newly searched plan would
// move almost all rows, which the recovery would have to read. Placement changes no bit of the
// result (law 4). On unequal hosts, loads are relative to the speed and memory of each device.

import type { TablePart } from "./pins.ts";
import type { PlannedDevice } from "./shards.ts";

/** A part of a table on a device. */
export interface PlacedPart extends TablePart {
  readonly device: number | "all";
  /** Work of its lookups, in any unit. */
  readonly cost: number;
  /** Bytes of its rows. */
  readonly bytes: number;
}

/** Highest load of the busiest and the fullest device, relative to the searched plan. */
const excessMax = 1.25;
/** Parts leave a device until its load is at most this multiple of the mean. */
const evenShare = 1.1;

/**
 * Places parts on `devices` devices, moving as few bytes as possible. `rankOf`: the new rank of
 * each former device; undefined: it is lost. `searched`: a newly searched plan. Returns undefined
 * if that plan is much better, or has copies of other tables.
 */
export function stayInPlace(options: {
  readonly former: readonly PlacedPart[];
  readonly searched: readonly PlacedPart[];
  readonly devices: number;
  /** The devices, where hosts are unequal. */
  readonly fleet?: readonly PlannedDevice[] | undefined;
  rankOf(device: number): number | undefined;
}): PlacedPart[] | undefined {
  const { former, searched, devices, fleet, rankOf } = options;
  if (copiesOf(former) !== copiesOf(searched)) return undefined;
  const load = emptyLoads(devices, fleet);
  const placed: PlacedPart[] = [];
  const put = (part: PlacedPart, device: number) => {
    const own = load[device];
    if (own === undefined) throw new RangeError(`There is no device ${device}`);
    add(own, part, 1);
    placed.push({ ...part, device });
  };
  const lost: PlacedPart[] = [];
  for (const part of former) {
    if (part.device === "all") placed.push(part);
    else {
      const rank = rankOf(part.device);
      if (rank === undefined || rank >= devices) lost.push(part);
      else put(part, rank);
    }
  }
  const leastFor = ({ cost }: PlacedPart) => {
    const ends = load.map((own) => own.cost + cost / own.speed);
    return ends.indexOf(Math.min(...ends));
  };
  for (const part of lost.sort(byCost)) put(part, leastFor(part));
  even(placed, load);
  const before = emptyLoads(devices, fleet);
  for (const part of searched) {
    const own = part.device === "all" ? undefined : before[part.device];
    if (own !== undefined) add(own, part, 1);
  }
  const isFit = (["cost", "bytes"] as const).every(
    (name) => mostOf(load, name) <= excessMax * mostOf(before, name),
  );
  return isFit ? placed : undefined;
}

/** The load of a device, relative to its speed and its memory. */
interface Loaded {
  cost: number;
  bytes: number;
  readonly speed: number;
  readonly memory: number;
}

function emptyLoads(devices: number, fleet: readonly PlannedDevice[] | undefined): Loaded[] {
  return Array.from({ length: devices }, (_, device) => {
    const { rowSpeed: speed, memory } = fleet?.[device] ?? { rowSpeed: 1, memory: 1 };
    return { cost: 0, bytes: 0, speed, memory };
  });
}

/** Adds a part to a device (`sign` 1), or takes it away (-1). */
function add(to: Loaded, { cost, bytes }: PlacedPart, sign: 1 | -1): void {
  to.cost += (sign * cost) / to.speed;
  to.bytes += (sign * bytes) / to.memory;
}

/** Moves parts from the busiest to the idlest device while that brings both nearer to the mean. */
function even(placed: PlacedPart[], load: Loaded[]): void {
  const mean = load.reduce((sum, { cost }) => sum + cost, 0) / load.length;
  for (let moves = 0; moves < placed.length; moves++) {
    const ranks = [...load.keys()].sort((a, b) => costAt(load, a) - costAt(load, b) || a - b);
    const [idle = 0, busy = 0] = [ranks[0], ranks.at(-1)];
    const [from, to] = [load[busy], load[idle]];
    if (from === undefined || to === undefined || from.cost <= evenShare * mean) return;
    // A part with half of the difference in load, at their speeds, makes the devices most equal.
    const half = (from.cost - to.cost) / (1 / from.speed + 1 / to.speed);
    let best = -1;
    for (const [i, { device, cost }] of placed.entries()) {
      if (device !== busy || cost <= 0 || cost >= 2 * half) continue;
      const isNearer = Math.abs(cost - half) < Math.abs((placed[best]?.cost ?? Infinity) - half);
      if (best < 0 || isNearer) best = i;
    }
    const part = placed[best];
    if (part === undefined) return;
    placed[best] = { ...part, device: idle };
    add(from, part, -1);
    add(to, part, 1);
  }
}

function mostOf(load: readonly Loaded[], name: "cost" | "bytes"): number {
  return load.reduce((most, own) => Math.max(most, own[name]), 0);
}

function costAt(load: readonly Loaded[], device: number): number {
  return load[device]?.cost ?? 0;
}

/** The tables with a copy on every device. */
function copiesOf(parts: readonly PlacedPart[]): string {
  const copied = parts.filter(({ device }) => device === "all").map(({ table }) => table);
  return JSON.stringify([...new Set(copied)].sort());
}

function byCost(a: PlacedPart, b: PlacedPart): number {
  return b.cost - a.cost;
}
