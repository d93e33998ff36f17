// The layout of an exchange in a host's memory: the offset of each array and the index of each
// cell. It is a pure function of the shape, so that every thread of every host computes the same
// layout. A host has room for all devices; parts from other hosts are written to the same offsets,
// and unused pages cost nothing.

import { type Subtree, subtreesOf } from "../kernels/contract/slices.ts";
import {
  type ChannelName,
  channelNames,
  type Elements,
  type ExchangeShape,
  isGather,
  type PartBytes,
} from "./exchange.ts";

/** Regions begin at multiples of a cache line, which is enough alignment for every typed array. */
const alignment = 64;

/** A range of bytes in a host's exchange memory. */
export interface Extent {
  readonly first: number;
  readonly bytes: number;
}

export interface ChannelLayout {
  /** The inbox of each device; for an all-gather, the same inbox for all devices. */
  readonly inboxes: readonly Extent[];
  /** Cell: last round that `from` has written for `to`; in an all-gather, one cell for all `to`. */
  published(from: number, to: number): number;
  /** Cell: last round for which `to` has released its inbox. */
  closed(to: number): number;
  /** Cell for the bridge: first byte of the part in the inbox; the next cell: its bytes. */
  span(from: number, to: number): number;
}

/** Layout of the all-reduce. Device `rank` completes the sum of the elements `ranges[rank]`. */
export interface AllReduceLayout {
  readonly ranges: readonly Elements[];
  /** First byte of finished subtree `index` of a device. */
  subtree(rank: number, index: number): number;
  /** Finished subtrees of each host. */
  readonly hostTrees: readonly (readonly Subtree[])[];
  /** The sums of a host's subtrees over the range of device `rank`, one after the other. */
  partial(host: number, rank: number): Extent;
  /** The device of `host` that folds its host's part of device `rank`'s range. */
  folder(host: number, rank: number): number;
  /** First byte of the sum. */
  readonly sum: number;
  /** Cell: last round for which `rank` has written its subtrees. */
  published(rank: number): number;
  /** Cell: last round for which `host` has folded its part of the range of `rank`. */
  partialFolded(host: number, rank: number): number;
  /** Cell: last round for which `rank` has completed its range of the sum. */
  folded(rank: number): number;
}

export interface SharedMemoryLayout {
  readonly bytes: number;
  /** Number of cells of the exchange. */
  readonly cells: number;
  /** Host of each device. */
  readonly hostOf: readonly number[];
  /** Devices of each host. */
  readonly hosts: readonly (readonly number[])[];
  readonly channels: Readonly<Record<ChannelName, ChannelLayout>>;
  readonly gradients: AllReduceLayout;
  /** Cell: number of barriers that `rank` has reached. */
  arrived(rank: number): number;
}

const layouts = new WeakMap<ExchangeShape, SharedMemoryLayout>();

/** The layout of a shape, computed once: it adds up all lookups for each pair of devices. */
export function layoutOf(shape: ExchangeShape): SharedMemoryLayout {
  const layout = layouts.get(shape) ?? computeLayout(shape);
  layouts.set(shape, layout);
  return layout;
}

function computeLayout(shape: ExchangeShape): SharedMemoryLayout {
  const { devices } = shape;
  const hostOf = shape.hostOf ?? new Array<number>(devices).fill(0);
  const hosts = Array.from({ length: Math.max(...hostOf) + 1 }, (_, host) =>
    hostOf.flatMap((of, rank) => (of === host ? rank : [])),
  );
  const space = new Space();
  const channels = Object.fromEntries(
    channelNames.map((name) => {
      const layout = isGather(name) ? allGatherLayout : allToAllLayout;
      return [name, layout(shape.bytesMax[name], devices, space)];
    }),
  ) as Record<ChannelName, ChannelLayout>;
  const gradients = allReduceLayout(shape, hostOf, hosts, space);
  const barrier = space.reserveCells(devices);
  const arrived = (rank: number) => barrier + rank;
  const bytes = Math.max(space.bytes, alignment);
  return { bytes, cells: space.cells, hostOf, hosts, channels, gradients, arrived };
}

/** Allocates memory and cells in sequence. */
class Space {
  bytes = 0;
  cells = 0;

  reserve(bytes: number): number {
    const at = this.bytes;
    this.bytes = alignUp(at + bytes);
    return at;
  }

  reserveCells(count: number): number {
    const at = this.cells;
    this.cells += count;
    return at;
  }
}

function allToAllLayout(bytesMax: PartBytes, devices: number, space: Space): ChannelLayout {
  const inboxes = Array.from({ length: devices }, (_, to) => {
    const bytes = inboxBytes(bytesMax, devices, to);
    return { first: space.reserve(bytes), bytes };
  });
  const published = space.reserveCells(devices * devices);
  const closed = space.reserveCells(devices);
  const spans = space.reserveCells(2 * devices * devices);
  return {
    inboxes,
    published: (from, to) => published + from * devices + to,
    closed: (to) => closed + to,
    span: (from, to) => spans + 2 * (from * devices + to),
  };
}

function allGatherLayout(bytesMax: PartBytes, devices: number, space: Space): ChannelLayout {
  const bytes = inboxBytes(bytesMax, devices, 0);
  const inbox = { first: space.reserve(bytes), bytes };
  const published = space.reserveCells(devices);
  const closed = space.reserveCells(devices);
  const spans = space.reserveCells(2 * devices);
  return {
    inboxes: new Array<Extent>(devices).fill(inbox),
    published: (from) => published + from,
    closed: (to) => closed + to,
    span: (from) => spans + 2 * from,
  };
}

function allReduceLayout(
  shape: ExchangeShape,
  hostOf: readonly number[],
  hosts: readonly (readonly number[])[],
  space: Space,
): AllReduceLayout {
  const { devices, gradientLength } = shape;
  const chunk = Math.ceil(gradientLength / devices / 16) * 16;
  const ranges = Array.from({ length: devices }, (_, rank) => {
    const first = Math.min(gradientLength, rank * chunk);
    return { first, count: Math.min(gradientLength, first + chunk) - first };
  });
  const vector = alignUp(gradientLength * 4);
  const subtrees = shape.subtrees.map((trees) => space.reserve(trees.length * vector));
  const sum = space.reserve(vector);
  const hostTrees = hosts.map((ranks) =>
    joined(ranks.flatMap((rank) => shape.subtrees[rank] ?? [])),
  );
  const isAlone = hosts.length === 1;
  const partials = hostTrees.map((trees) => (isAlone ? 0 : space.reserve(trees.length * vector)));
  const published = space.reserveCells(devices);
  const partialFolded = space.reserveCells(isAlone ? 0 : hosts.length * devices);
  const folded = space.reserveCells(devices);
  return {
    ranges,
    subtree: (rank, index) => (subtrees[rank] ?? 0) + index * vector,
    hostTrees,
    partial(host, rank) {
      const range = ranges[rank] ?? { first: 0, count: 0 };
      const floats = 4 * (hostTrees[host]?.length ?? 0);
      return { first: (partials[host] ?? 0) + floats * range.first, bytes: floats * range.count };
    },
    folder(host, rank) {
      const own = hosts[host] ?? [];
      const index = hosts[hostOf[rank] ?? 0]?.indexOf(rank) ?? 0;
      return own[index % own.length] ?? 0;
    },
    sum,
    published: (rank) => published + rank,
    partialFolded: (host, rank) => partialFolded + host * devices + rank,
    folded: (rank) => folded + rank,
  };
}

/** The largest aligned subtrees over the slices that these adjacent subtrees cover. */
function joined(trees: readonly Subtree[]): Subtree[] {
  const slices = trees.reduce((sum, { count }) => sum + count, 0);
  return subtreesOf(trees[0]?.first ?? 0, slices);
}

/** Bytes that a device receives in a round. */
export function inboxBytes(bytes: PartBytes, devices: number, to: number): number {
  return partFirst(bytes, devices, to);
}

/** The offset of the part from `from` in the inbox of `to`. */
export function partFirst(bytes: PartBytes, from: number, to: number): number {
  let first = 0;
  for (let other = 0; other < from; other++) first += bytes(other, to);
  return first;
}

function alignUp(bytes: number): number {
  return Math.ceil(bytes / alignment) * alignment;
}
