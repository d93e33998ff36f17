// The layout of the top-k all-reduce (top-k-all-reduce.ts) in one host's memory. The slices of a
// batch are cut into groups, aligned subtrees of the slice tree, and the selected elements into as
// many ranges as a group has slices. So there is one unit, a range of the sum of a group, for each
// slice, and the device that runs the slice owns the unit:
//
//                 range 0    range 1    range 2    range 3
//   group 0       slice 0    slice 1    slice 2    slice 3
//   group 1       slice 4    slice 5    slice 6    slice 7
//
// Groups, ranges and the number of elements that a unit selects are functions of the job, so the
// bits of the sum do not depend on devices or hosts (law 4).

import { type Subtree, subtreesOf } from "../kernels/contract/slices.ts";
import type { Elements, ExchangeShape, Extent, TopKShape } from "./exchange.ts";
import type { ExchangeSpec } from "./options.ts";

/** The usual number of groups, where a batch has as many slices. */
const usualGroups = 4;

/** The sizes of a job's top-k all-reduce, over the first `length` elements; undefined: none. */
export function topKShapeOf(
  { topk }: ExchangeSpec,
  slices: number,
  length: number,
): TopKShape | undefined {
  if (topk === undefined) return undefined;
  return { length, share: topk.share, groups: topk.groups ?? Math.min(usualGroups, slices) };
}

/** Most slices of a subtree that a device finishes: those of a group; undefined: no limit. */
export function subtreeMaxOf(topK: TopKShape | undefined, slices: number): number | undefined {
  return topK && slices / topK.groups;
}

/** A range of the sum of a group of slices. */
export interface TopKUnit {
  /** The slice whose device owns the unit. */
  readonly slice: number;
  /** The slices of the group. */
  readonly group: Subtree;
  readonly range: Elements;
  /** Number of elements that it selects. */
  readonly count: number;
}

/** Bytes of a unit's selected elements: an index of 4 bytes, and a code of 2. */
function selectedBytes({ count }: TopKUnit): number {
  return 4 * Math.ceil((6 * count) / 4);
}

export function topKUnitsOf({ length, groups, share }: TopKShape, slices: number): TopKUnit[] {
  const ranges = slices / groups;
  const chunk = Math.ceil(length / ranges / 16) * 16;
  return Array.from({ length: slices }, (_, slice) => {
    const at = slice % ranges;
    const first = Math.min(length, at * chunk);
    const range = { first, count: Math.min(length, first + chunk) - first };
    const group = { first: slice - at, count: ranges };
    return { slice, group, range, count: Math.ceil(share * range.count) };
  });
}

export interface TopKLayout {
  /** The unit of each slice. */
  readonly units: readonly TopKUnit[];
  /** The slices of a device, whose units it owns. */
  unitsOf(rank: number): readonly TopKUnit[];
  /** A device's selected elements, in the memory of each host. */
  selected(rank: number): Extent;
  /** First byte of a unit's indices; its codes follow. */
  indices(unit: TopKUnit): number;
  /** The finished subtrees of a host's slices inside the group of a unit. */
  treesIn(host: number, unit: TopKUnit): readonly Subtree[];
  /**
   * The sums of a host's subtrees over the units of a device of another host, one after the other.
   */
  partial(host: number, rank: number): Extent;
  /** Cell: last round in which `rank` has selected the elements of its units. */
  picked(rank: number): number;
  /** Cell: last round for which `host` has folded its part of the units of `rank`. */
  partialFolded(host: number, rank: number): number;
  /** Cell: last round for which `rank` has added its part of the sum. */
  added(rank: number): number;
}

/** Devices and hosts, as in layout.ts. */
interface Place {
  readonly host: number;
  readonly hosts: readonly (readonly number[])[];
  readonly hostOf: readonly number[];
}

/** Allocates memory and cells in sequence. */
interface Room {
  reserve(bytes: number): number;
  reserveCells(count: number): number;
}

export function topKLayout(
  shape: ExchangeShape & { readonly topK: TopKShape },
  { host, hosts, hostOf }: Place,
  space: Room,
): TopKLayout {
  const { devices, slices } = shape;
  const units = topKUnitsOf(shape.topK, slices);
  const runs = shape.subtrees.map(runOf);
  const rankOf = runs.flatMap(({ count }, rank) => new Array<number>(count).fill(rank));
  const unitsOf = (rank: number) => {
    const { first, count } = runs[rank] ?? { first: 0, count: 0 };
    return units.slice(first, first + count);
  };
  const before = new Float64Array(slices); // Bytes before each unit in its device's elements.
  const selected = runs.map((_, rank): Extent => {
    let bytes = 0;
    for (const unit of unitsOf(rank)) {
      before[unit.slice] = bytes;
      bytes += selectedBytes(unit);
    }
    return { first: space.reserve(bytes), bytes };
  });
  const runOfHost = hosts.map((ranks) =>
    runOf(ranks.flatMap((rank) => shape.subtrees[rank] ?? [])),
  );
  const treesIn = (of: number, { group }: TopKUnit): Subtree[] => {
    const run = runOfHost[of] ?? group;
    const first = Math.max(run.first, group.first);
    const end = Math.min(run.first + run.count, group.first + group.count);
    return subtreesOf(first, Math.max(0, end - first));
  };
  const partials = new Map<number, Extent>();
  for (const [rank, owner] of hostOf.entries()) {
    for (const of of owner === host ? hosts.keys() : [host]) {
      if (of === owner) continue;
      const floats = unitsOf(rank).map((unit) => treesIn(of, unit).length * unit.range.count);
      const bytes = 4 * floats.reduce((sum, one) => sum + one, 0);
      if (bytes > 0) partials.set(of * devices + rank, { first: space.reserve(bytes), bytes });
    }
  }
  const [firstOwn = 0] = hosts[host] ?? [];
  const count = hosts[host]?.length ?? 0;
  const picked = space.reserveCells(devices);
  const added = space.reserveCells(devices);
  const partialFolded = space.reserveCells(hosts.length === 1 ? 0 : devices + hosts.length * count);
  return {
    units,
    unitsOf,
    selected: (rank) => selected[rank] ?? nothing,
    indices(unit) {
      const { first } = selected[rankOf[unit.slice] ?? 0] ?? nothing;
      return first + (before[unit.slice] ?? 0);
    },
    treesIn,
    partial: (of, rank) => partials.get(of * devices + rank) ?? nothing,
    picked: (rank) => picked + rank,
    partialFolded: (of, rank) =>
      partialFolded + (of === host ? rank : devices + of * count + rank - firstOwn),
    added: (rank) => added + rank,
  };
}

/** The slices that adjacent subtrees cover. */
function runOf(trees: readonly Subtree[]): Subtree {
  const count = trees.reduce((sum, tree) => sum + tree.count, 0);
  return { first: trees[0]?.first ?? 0, count };
}

const nothing: Extent = { first: 0, bytes: 0 };
