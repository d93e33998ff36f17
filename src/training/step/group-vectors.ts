// The vectors of shard groups on the wire: the sender adds them up to finished subtrees of row
// blocks and packs them; the receiver unpacks them.

import { axisAt } from "../../data/sessions/ikjt.ts";
import type { Kernels, PackedAt, PooledPart, Tensor } from "../../kernels/contract/kernels.ts";
import { packedBytes, type WirePrecision } from "../../kernels/contract/precision.ts";
import type { Subtree } from "../../kernels/contract/slices.ts";
import type { LookupRange } from "../topology/fresh-and-stale.ts";
import type { HeldLookup } from "../topology/held-shard.ts";
import type { ShardGroup } from "../topology/shard-groups.ts";
import type { Topology } from "../topology/topology.ts";
import { type Axes, copyToPlaces } from "./axes.ts";
import type { RoundedMemory } from "./rounded-memory.ts";

/** The part of a device that packing and unpacking need. */
export interface PackingDevice {
  readonly topology: Topology;
  readonly kernels: Kernels;
  /** Written and read within one call of a stage. */
  readonly rounded: RoundedMemory;
}

/**
 * Returns a function that finds a lookup's vectors in `from`, the vectors of a range of lookups on
 * one device.
 */
export function partIn(from: Tensor, own: Pick<LookupRange, "column">) {
  return ({ column, firstBlock, blocks }: HeldLookup): PooledPart => ({
    from,
    first: column - own.column,
    tree: { first: firstBlock, count: blocks },
  });
}

/** Packs the finished subtrees of a shard group from its parts by rows, (b,·) each. */
export function packSums(
  device: PackingDevice,
  { columns, trees }: ShardGroup,
  parts: readonly PooledPart[],
  { buffer, byteOffset }: PackedAt,
): void {
  const { kernels, topology } = device;
  const { forward } = topology.exchange;
  const scale = topology.scales.forward;
  let at = byteOffset;
  for (const tree of trees) {
    const { from, first } = sumOf(device, columns, tree, parts);
    kernels.packColumns({ buffer, byteOffset: at }, from, first, columns, forward, scale);
    at += packedBytes(from.shape[0] ?? 0, columns, forward);
  }
}

/**
 * Returns the vectors of a finished subtree: those of one part, or the sum of several in `scratch`.
 */
function sumOf(
  { kernels, rounded, topology }: PackingDevice,
  columns: number,
  tree: Subtree,
  parts: readonly PooledPart[],
): Omit<PooledPart, "tree"> {
  const inside = parts.filter(({ tree: { first } }) => {
    return first >= tree.first && first < tree.first + tree.count;
  });
  const [one] = inside;
  if (one !== undefined && one.tree.count === tree.count) return one;
  // Folded as a separate tree, so that blocks outside the subtree add no zeros.
  const moved = inside.map(({ from, first, tree: { first: block, count } }) => {
    return { from, first, tree: { first: block - tree.first, count } };
  });
  const out = kernels.reshape(rounded.scratch, [one?.from.shape[0] ?? 0, columns]);
  kernels.foldPooled(out, 0, moved, tree.count, columns, ...roundingOf(topology));
  return { from: out, first: 0 };
}

/**
 * Returns the parts of a shard group that `packSums` packed. Float32 parts stay in place; parts in
 * fewer bits are unpacked into `rounded.vectors`, from float `first` on.
 */
export function unpackSums(
  { kernels, rounded, topology }: PackingDevice,
  { columns, trees }: ShardGroup,
  samples: number,
  { buffer, byteOffset }: PackedAt,
  first: number,
): PooledPart[] {
  const { forward } = topology.exchange;
  return trees.map((tree, i) => {
    const place = { buffer, byteOffset: byteOffset + i * packedBytes(samples, columns, forward) };
    if (forward === "float32") {
      const from = kernels.view(buffer, place.byteOffset, [samples, columns]);
      return { from, first: 0, tree };
    }
    const shape = [samples, columns];
    const from = kernels.reshape(rounded.vectors, shape, first + i * samples * columns);
    kernels.unpackColumns(from, 0, place, columns, forward, topology.scales.forward);
    return { from, first: 0, tree };
  });
}

/**
 * Unpacks the gradient of a shard group into the columns of each of its shards, of (b,C), at the
 * places of its bags.
 */
export function unpackGradient(
  { kernels, rounded, topology }: PackingDevice,
  { columns, shards, axis }: ShardGroup,
  out: Tensor,
  from: PackedAt,
  axes: Axes,
): void {
  const [one = 0, ...others] = shards.map(({ column }) => column);
  const { backward } = topology.exchange;
  const scale = topology.scales.backward;
  if (axis === 0) {
    kernels.unpackColumns(out, one, from, columns, backward, scale);
  } else {
    const own = axisAt(axes, axis);
    const unpacked = kernels.reshape(rounded.scratch, [own.rows, columns]);
    kernels.unpackColumns(unpacked, 0, from, columns, backward, scale);
    copyToPlaces(kernels, out, one, unpacked, 0, columns, own);
  }
  for (const other of others) kernels.copyColumns(out, other, out, one, columns);
}

/** The last arguments of `foldPooled` for a sum: no lengths, and the rounding of its nodes. */
export function roundingOf({
  exchange: { forward },
  scales,
}: Topology): [undefined, WirePrecision | undefined, number] {
  return [undefined, forward === "float32" ? undefined : forward, scales.forward];
}

/** Rounds some columns as the exchange would round them in one direction. */
export function roundColumns(
  { kernels, rounded, topology }: PackingDevice,
  t: Tensor,
  column: number,
  columns: number,
  way: "forward" | "backward",
): void {
  const precision = topology.exchange[way];
  const scale = topology.scales[way];
  if (precision === "float32") return;
  const place = { buffer: rounded.packed, byteOffset: 0 };
  kernels.packColumns(place, t, column, columns, precision, scale);
  kernels.unpackColumns(t, column, place, columns, precision, scale);
}
