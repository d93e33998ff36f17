// The layout of an exchange in one host's memory: the offset of each array and the index of each
// cell. It is a pure function of the shape and the host, so that every thread of the host computes
// the same layout. A host has room for what its own devices receive, and for what they send to
// other hosts. So its memory follows its own devices; only lists of cells grow with all devices.

import { packedBytes } from "../kernels/contract/precision.ts";
import { type Subtree, subtreesOf } from "../kernels/contract/slices.ts";
import {
  type ChannelName,
  channelNames,
  type Elements,
  type ExchangeShape,
  type Extent,
  type GradientRounding,
  insideHost,
  isGather,
  leavesAhead,
  type PartBytes,
} from "./exchange.ts";
import { type TopKLayout, topKLayout } from "./top-k-layout.ts";

/** Regions begin at multiples of a cache line, which is enough alignment for every typed array. */
const alignment = 64;

export interface ChannelLayout {
  /** The inbox of a device of this host; for an all-gather, the same inbox for all devices. */
  inbox(to: number): Extent;
  /** Where a device of this host writes its part for a device of another host. */
  outbox(from: number, to: number): Extent;
  /**
   * Cell: last round that `from` has written for `to`, a device of this host; in an all-gather, one
   * cell for all `to`.
   */
  published(from: number, to: number): number;
  /** Cell: last round that `from`, a device of this host, has written for other hosts. */
  sent(from: number): number;
  /** Cell for the bridge: words that `from` has written for other hosts in its last round. */
  sentWords(from: number): number;
  /** Cell: last round for which `to` has released its inbox. */
  closed(to: number): number;
  /** Cell for the bridge: first word of the part in the inbox of `to`; the next cell: its words. */
  span(from: number, to: number): number;
  /** Cells for the bridge about parts that are sent ahead of their round; undefined: no part is. */
  readonly ahead?: {
    /** Counts the stores of `from` into the other cells. */
    count(from: number): number;
    /** The round that the words belong to. */
    round(from: number): number;
    /** Words of the part for `to` that are written. */
    words(from: number, to: number): number;
  };
}

export interface AllReduceLayout {
  /** Each bucket of the vector, in the order in which they are ready. */
  readonly buckets: readonly BucketLayout[];
  /** First byte of memory `index` for a finished subtree of a device of this host. */
  subtree(rank: number, index: number): number;
  /** Finished subtrees of each host. */
  readonly hostTrees: readonly (readonly Subtree[])[];
  /**
   * The device of `host` that folds its host's part of device `rank`'s ranges, and unpacks its sums
   * there.
   */
  folder(host: number, rank: number): number;
  /** First byte of the sum; of a device that is alone, that of its subtree. */
  readonly sum: number;
}

/** A bucket of the dense gradient. Device `rank` completes the sum of `ranges[rank]`. */
export interface BucketLayout {
  readonly ranges: readonly Elements[];
  /** How its larger nodes are rounded; undefined: they are not. */
  readonly rounding: GradientRounding | undefined;
  /** Finished subtrees of a device over this bucket. */
  trees(rank: number): readonly Subtree[];
  /**
   * The sums of a host's subtrees over the range of device `rank`, one after the other: of this
   * host for devices of other hosts, and of other hosts for devices of this one.
   */
  partial(host: number, rank: number): Extent;
  /** The bytes of subtree `index` in it, from its first byte on. */
  partialTree(host: number, rank: number, index: number): Extent;
  /** The range of device `rank` in the sum, as it is sent: packed, where it is rounded. */
  sent(rank: number): Extent;
  /** Cell: last round for which `rank` has written its subtrees. */
  published(rank: number): number;
  /** Cell: last round for which `host` has folded its part of the range of `rank`. */
  partialFolded(host: number, rank: number): number;
  /** Cell: last round for which `rank` has completed its range of the sum. */
  folded(rank: number): number;
  /** Cell: last round for which the range of `rank`, on another host, was unpacked on this one. */
  unpacked(rank: number): number;
}

/** Whether a subtree is rounded, and travels in half the bytes. */
export function isRounded(rounding: GradientRounding | undefined, { count }: Subtree): boolean {
  return rounding !== undefined && count >= rounding.grain;
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
  /** Present where the shape has `topK`: then `gradients` has the ranges of all other elements. */
  readonly topK: TopKLayout | undefined;
  /** Cell: number of barriers that `rank` has reached. */
  arrived(rank: number): number;
}

const layouts = new WeakMap<ExchangeShape, Map<number, SharedMemoryLayout>>();

/**
 * The layout on a host of the shape, computed once: it adds up all lookups for each pair of
 * devices. @param host left out, the only host
 */
export function layoutOf(shape: ExchangeShape, host = 0): SharedMemoryLayout {
  const ofHosts = layouts.get(shape) ?? new Map<number, SharedMemoryLayout>();
  const layout = ofHosts.get(host) ?? computeLayout(shape, host);
  layouts.set(shape, ofHosts.set(host, layout));
  return layout;
}

/** Bytes of a host's memory that the top-k all-reduce takes beside the dense gradients. */
export function topKBytesOf(shape: ExchangeShape, host: number): number {
  const space = new Space();
  if (shape.topK) topKLayout({ ...shape, topK: shape.topK }, { host, ...hostsOf(shape) }, space);
  return space.bytes;
}

function hostsOf({ devices, hostOf = new Array<number>(devices).fill(0) }: ExchangeShape) {
  const hosts: number[][] = Array.from({ length: (hostOf.at(-1) ?? 0) + 1 }, () => []);
  for (const [rank, of] of hostOf.entries()) hosts[of]?.push(rank);
  return { hostOf, hosts };
}

function computeLayout(shape: ExchangeShape, host: number): SharedMemoryLayout {
  const { devices } = shape;
  const { hostOf, hosts } = hostsOf(shape);
  const own = hosts[host] ?? [];
  const place = { devices, first: own[0] ?? 0, count: own.length };
  const space = new Space();
  const channels = Object.fromEntries(
    channelNames.map((name) => {
      const bytesMax = shape.bytesMax[name];
      if (isGather(name)) return [name, allGatherLayout(bytesMax, place, space)];
      return [name, allToAllLayout(name, bytesMax, place, space)];
    }),
  ) as Record<ChannelName, ChannelLayout>;
  const gradients = allReduceLayout(shape, { ...place, host, hosts, hostOf }, space);
  const topK =
    shape.topK && topKLayout({ ...shape, topK: shape.topK }, { host, hosts, hostOf }, space);
  const barrier = space.reserveCells(devices);
  const arrived = (rank: number) => barrier + rank;
  const bytes = Math.max(space.bytes, alignment);
  return { bytes, cells: space.cells, hostOf, hosts, channels, gradients, topK, arrived };
}

/** All devices, and those of this host. */
interface Place {
  readonly devices: number;
  readonly first: number;
  readonly count: number;
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

function allToAllLayout(
  name: ChannelName,
  bytesMax: PartBytes,
  { devices, first, count }: Place,
  space: Space,
): ChannelLayout {
  const ranks = Array.from({ length: devices }, (_, rank) => rank);
  const isOwn = (rank: number) => rank >= first && rank < first + count;
  const own = ranks.filter(isOwn);
  const inboxes = own.map((to) => {
    const bytes = inboxBytes(bytesMax, devices, to);
    return { first: space.reserve(bytes), bytes };
  });
  const outboxes = own.map((from) =>
    ranks.map((to) => {
      const bytes = isOwn(to) ? 0 : bytesMax(from, to);
      return { first: space.reserve(bytes), bytes };
    }),
  );
  const published = space.reserveCells(devices * count);
  const closed = space.reserveCells(devices);
  const isAlone = count === devices || insideHost.has(name);
  const sent = space.reserveCells(isAlone ? 0 : 2 * count);
  const spans = space.reserveCells(isAlone ? 0 : 2 * count * devices);
  const mayLeave = !isAlone && leavesAhead.has(name);
  const ahead = space.reserveCells(mayLeave ? count * (devices + 2) : 0);
  return {
    ...(mayLeave && {
      ahead: {
        count: (from) => ahead + from - first,
        round: (from) => ahead + count + from - first,
        words: (from, to) => ahead + 2 * count + (from - first) * devices + to,
      },
    }),
    inbox: (to) => inboxes[to - first] ?? nothing,
    outbox: (from, to) => outboxes[from - first]?.[to] ?? nothing,
    published: (from, to) => published + from * count + to - first,
    sent: (from) => sent + from - first,
    sentWords: (from) => sent + count + from - first,
    closed: (to) => closed + to,
    span: (from, to) => spans + 2 * ((from - first) * devices + to),
  };
}

const nothing: Extent = { first: 0, bytes: 0 };

function allGatherLayout(bytesMax: PartBytes, { devices }: Place, space: Space): ChannelLayout {
  const bytes = inboxBytes(bytesMax, devices, 0);
  const inbox = { first: space.reserve(bytes), bytes };
  const published = space.reserveCells(devices);
  const closed = space.reserveCells(devices);
  const spans = space.reserveCells(2 * devices);
  return {
    inbox: () => inbox,
    outbox: () => inbox,
    published: (from) => published + from,
    sent: (from) => published + from,
    sentWords: (from) => spans + 2 * from + 1,
    closed: (to) => closed + to,
    span: (from) => spans + 2 * from,
  };
}

/** The hosts, and the devices of one of them. */
interface HostPlace extends Place {
  readonly host: number;
  readonly hosts: readonly (readonly number[])[];
  readonly hostOf: readonly number[];
}

function allReduceLayout(shape: ExchangeShape, place: HostPlace, space: Space): AllReduceLayout {
  const { gradientLength, rounding, topK } = shape;
  const first = topK?.length ?? 0;
  const { buckets = [{ first, count: gradientLength - first }] } = shape;
  const { hosts, hostOf, first: firstOwn, count } = place;
  const vector = alignUp(gradientLength * 4);
  const rounded = alignUp((rounding?.elements ?? 0) * 4);
  const subtrees = shape.subtrees.slice(firstOwn, firstOwn + count).map((trees) => {
    const further = grainsOf(trees, rounding).length - trees.length;
    return { first: space.reserve(trees.length * vector + further * rounded), whole: trees.length };
  });
  // A device that is alone has one subtree, which is the sum, unless rounding changes it.
  const isWhole = shape.devices === 1 && shape.subtrees[0]?.length === 1;
  const isSum = isWhole && rounding === undefined && topK === undefined;
  const sum = isSum ? (subtrees[0]?.first ?? 0) : space.reserve(vector);
  const hostTrees = hosts.map((ranks) =>
    joined(ranks.flatMap((rank) => shape.subtrees[rank] ?? [])),
  );
  return {
    buckets: buckets.map((own) => bucketLayout(own, shape, { ...place, hostTrees, sum }, space)),
    subtree(rank, index) {
      const { first, whole } = subtrees[rank - firstOwn] ?? { first: 0, whole: 0 };
      return first + Math.min(index, whole) * vector + Math.max(0, index - whole) * rounded;
    },
    hostTrees,
    folder(of, rank) {
      const own = hosts[of] ?? [];
      const index = rank - (hosts[hostOf[rank] ?? 0]?.[0] ?? 0);
      return own[index % own.length] ?? 0;
    },
    sum,
  };
}

/** These subtrees, cut into subtrees of at most one grain. */
export function grainsOf(
  trees: readonly Subtree[],
  rounding: GradientRounding | undefined,
): readonly Subtree[] {
  if (rounding === undefined) return trees;
  return trees.flatMap(({ first, count }) => subtreesOf(first, count, rounding.grain));
}

function bucketLayout(
  bucket: Elements,
  shape: ExchangeShape,
  place: HostPlace & Pick<AllReduceLayout, "hostTrees" | "sum">,
  space: Space,
): BucketLayout {
  const { host, hosts, devices, first: firstOwn, count, hostTrees, sum } = place;
  const end = bucket.first + bucket.count;
  const isWithin = end <= (shape.rounding?.elements ?? 0);
  const rounding = isWithin ? shape.rounding : undefined;
  const chunk = Math.ceil(bucket.count / devices / 16) * 16;
  const ranges = Array.from({ length: devices }, (_, rank) => {
    const first = Math.min(end, bucket.first + rank * chunk);
    return { first, count: Math.min(end, first + chunk) - first };
  });
  const trees = shape.subtrees.map((own) => grainsOf(own, rounding));
  const elements = (rank: number) => ranges[rank]?.count ?? 0;
  const treeBytes = (tree: Subtree, floats: number) => {
    return isRounded(rounding, tree) ? packedBytes(1, floats, "bfloat16") : 4 * floats;
  };
  const bytesOf = (some: readonly Subtree[], floats: number) =>
    some.reduce((bytes, tree) => bytes + treeBytes(tree, floats), 0);
  const isAlone = hosts.length === 1;
  const partials = hostTrees.map((some, of) => {
    const ofRanges = of === host ? devices : count;
    return isAlone ? 0 : space.reserve(ofRanges * bytesOf(some, chunk));
  });
  const isPacked = rounding !== undefined && !isAlone;
  const packed = isPacked ? space.reserve(devices * packedBytes(1, chunk, "bfloat16")) : 0;
  const published = space.reserveCells(devices);
  const partialFolded = space.reserveCells(isAlone ? 0 : devices + hosts.length * count);
  const folded = space.reserveCells(devices);
  const unpacked = space.reserveCells(isPacked ? devices : 0);
  const partial = (of: number, rank: number) => {
    const some = hostTrees[of] ?? [];
    const index = of === host ? rank : rank - firstOwn;
    const first = (partials[of] ?? 0) + index * bytesOf(some, chunk);
    return { first, bytes: bytesOf(some, elements(rank)) };
  };
  return {
    ranges,
    rounding,
    trees: (rank) => trees[rank] ?? [],
    partial,
    partialTree(of, rank, index) {
      const some = hostTrees[of] ?? [];
      const [floats, tree] = [elements(rank), some[index]];
      const first = partial(of, rank).first + bytesOf(some.slice(0, index), floats);
      return { first, bytes: tree === undefined ? 0 : treeBytes(tree, floats) };
    },
    sent(rank) {
      const { first } = ranges[rank] ?? bucket;
      if (!isPacked) return { first: sum + 4 * first, bytes: 4 * elements(rank) };
      const bytes = packedBytes(1, elements(rank), "bfloat16");
      return { first: packed + rank * packedBytes(1, chunk, "bfloat16"), bytes };
    },
    published: (rank) => published + rank,
    partialFolded: (of, rank) =>
      partialFolded + (of === host ? rank : devices + of * count + rank - firstOwn),
    folded: (rank) => folded + rank,
    unpacked: (rank) => unpacked + rank,
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
