// Parts of tables that stay on their devices when the devices of a run change: only the parts of
// lost devices are placed anew, and some move to devices that are new. A plan that is searched for
// the new devices would move almost all rows, which a recovery then reads. Placement changes no bit
// of the result (law 4).

import type { TablePart } from "./pins.ts";

/** A part of a table on a device. */
export interface PlacedPart extends TablePart {
  readonly device: number | "all";
  /** Work of its lookups, in any unit. */
  readonly cost: number;
  /** Bytes of its rows. */
  readonly bytes: number;
}

/** The most that the busiest and the fullest device may have, compared with the searched plan. */
const excessMax = 1.25;
/** A device gives parts away until it has at most this share of the mean. */
const evenShare = 1.1;

/**
 * Places parts on `devices` devices so that as few bytes as possible move. `rankOf`: the new rank
 * of each former device; undefined: it is lost. `searched`: the plan that is taken otherwise.
 * Undefined: it is much better, or has copies of other tables.
 */
export function stayInPlace(options: {
  readonly former: readonly PlacedPart[];
  readonly searched: readonly PlacedPart[];
  readonly devices: number;
  rankOf(device: number): number | undefined;
}): PlacedPart[] | undefined {
  const { former, searched, devices, rankOf } = options;
  if (copiesOf(former) !== copiesOf(searched)) return undefined;
  const load = Array.from({ length: devices }, () => ({ cost: 0, bytes: 0 }));
  const placed: PlacedPart[] = [];
  const put = (part: PlacedPart, device: number) => {
    const own = load[device];
    if (own === undefined) throw new RangeError(`There is no device ${device}`);
    own.cost += part.cost;
    own.bytes += part.bytes;
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
  const leastOf = () =>
    load.reduce((least, { cost }, i) => (cost < costAt(load, least) ? i : least), 0);
  for (const part of lost.sort(byCost)) put(part, leastOf());
  even(placed, load);
  const before = loadsOf(searched, devices);
  const isFit = (["cost", "bytes"] as const).every(
    (name) => mostOf(load, name) <= excessMax * mostOf(before, name),
  );
  return isFit ? placed : undefined;
}

interface Loaded {
  cost: number;
  bytes: number;
}

/** Moves parts from the busiest to the idlest device while that brings both nearer to the mean. */
function even(placed: PlacedPart[], load: Loaded[]): void {
  const mean = load.reduce((sum, { cost }) => sum + cost, 0) / load.length;
  for (let moves = 0; moves < placed.length; moves++) {
    const ranks = [...load.keys()].sort((a, b) => costAt(load, a) - costAt(load, b) || a - b);
    const [idle = 0, busy = 0] = [ranks[0], ranks.at(-1)];
    const [from, to] = [load[busy], load[idle]];
    if (from === undefined || to === undefined || from.cost <= evenShare * mean) return;
    // The part that is nearest to half of the difference leaves the two alike.
    const half = (from.cost - to.cost) / 2;
    let best = -1;
    for (const [i, { device, cost }] of placed.entries()) {
      if (device !== busy || cost <= 0 || cost >= 2 * half) continue;
      const isNearer = Math.abs(cost - half) < Math.abs((placed[best]?.cost ?? Infinity) - half);
      if (best < 0 || isNearer) best = i;
    }
    const part = placed[best];
    if (part === undefined) return;
    placed[best] = { ...part, device: idle };
    from.cost -= part.cost;
    from.bytes -= part.bytes;
    to.cost += part.cost;
    to.bytes += part.bytes;
  }
}

function loadsOf(parts: readonly PlacedPart[], devices: number): Loaded[] {
  const load = Array.from({ length: devices }, () => ({ cost: 0, bytes: 0 }));
  for (const { device, cost, bytes } of parts) {
    const own = device === "all" ? undefined : load[device];
    if (own === undefined) continue;
    own.cost += cost;
    own.bytes += bytes;
  }
  return load;
}

function mostOf(load: readonly Loaded[], name: keyof Loaded): number {
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
