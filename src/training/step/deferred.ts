// Deferred embeddings make reading ahead exact. Tables that are read ahead are looked up before the
// previous step's update, although it may change their rows. The device of the rows has the bags of
// both steps, so it finds the bags that have a row of the previous step: only their vectors can
// change. Right after the update it looks these bags up again, and sends their vectors to the
// devices of the samples, which write them over the ones that were read ahead. With `dedup`, the
// same is done row by row. (PEC of TorchRec; Bagpipe: Agarwal et al., SOSP 2023.)
//
//   frame   i32 n: for each shard group, then for each shard of distinct rows, of the tables read
//           ahead that the sender holds · i32 rows (n) of each: places among the receiver's vectors
//           or requested rows, ascending · the vectors of each, packed as in the output dist
//
// Invariants
//   P1. Every row that the previous step's update changes is in its bags. So a bag without a row of
//       these bags has the same vector before and after the update.
//   P2. Bags are compared before rows of the previous step are released: until then a row that both
//       steps need has one slot of a cache.

import { axisAt } from "../../data/sessions/ikjt.ts";
import type { Slab } from "../../embedding/rows/slab.ts";
import { FrameCorruptError } from "../../errors/errors.ts";
import { channels } from "../../exchange/exchange.ts";
import type { Kernels, PackedAt, PooledPart, Tensor } from "../../kernels/contract/kernels.ts";
import { packedBytes } from "../../kernels/contract/precision.ts";
import { lowerBound } from "../../ports/lower-bound.ts";
import type { HeldLookup, HeldShard } from "../topology/held-shard.ts";
import { type ShardGroup, sendListOf, vectorBytes } from "../topology/shard-groups.ts";
import { type DistinctState, GrowingTensor, slabAt } from "./dedup/dedup-state.ts";
import { type PackingDevice, packSums, partIn } from "./group-vectors.ts";
import type { StagedRows } from "./prefetch.ts";
import type { StageDevice } from "./stage-device.ts";
import type { StepPlan } from "./step-plan.ts";

/** The part of a device that deferred embeddings need. */
export interface DeferredDevice extends StageDevice<never, "deferred">, PackingDevice {
  readonly slab: Pick<Slab, "lookupAt" | "collidingBags">;
  readonly distinct: Pick<DistinctState, "slabs">;
  /** Written by one step at a time. */
  readonly deferred: DeferredMemory;
}

/** The bags and rows that a step must look up again after the previous step's update. */
export interface Deferred {
  /** Indices of bags among those of the lookups that are read ahead, ascending. */
  readonly bags: Int32Array;
  /** For each slab of distinct rows, indices of requested rows, ascending. */
  readonly rows: readonly Int32Array[];
}

/**
 * Memory for deferred bags and rows. It grows with the bags that share rows with the previous step.
 */
export class DeferredMemory {
  /** Vectors of the shards of one group. */
  readonly vectors: GrowingTensor;
  /**
   * Counts of bags and rows that this device sent again (`deferred`), and of all that it read
   * ahead.
   */
  readonly counts = { deferred: 0, read: 0 };
  readonly #lists: Int32Array[] = [];

  constructor(kernels: Kernels) {
    this.vectors = new GrowingTensor(kernels);
  }

  /**
   * Returns list `at`, filled by `find`, which returns the full length even if `out` is too short.
   */
  list(at: number, find: (out: Int32Array) => number): Int32Array {
    let list = this.#lists[at] ?? new Int32Array(0);
    let count = find(list);
    if (count > list.length) {
      list = new Int32Array(count + (count >> 1));
      count = find(list);
    }
    this.#lists[at] = list;
    return list.subarray(0, count);
  }
}

/** Finds the bags, and the distinct rows, of `next` that the update of `current` changes. P2 */
export function findDeferred(
  device: DeferredDevice,
  next: StagedRows,
  current: StagedRows,
): Deferred {
  const { deferred, rank, slab, topology } = device;
  const { ahead } = topology.reads;
  const { first = 0, count = 0 } = ahead.held[rank] ?? {};
  const bags = deferred.list(0, (out) => {
    return count === 0 ? 0 : slab.collidingBags(out, next.bags, current.bags, { first, count });
  });
  deferred.counts.read += count * next.bags.samples;
  const rows = next.lookups.map((own, i) => {
    const one = slabAt(device, i);
    const before = current.lookups[i];
    if (before === undefined || !one.shards.every(ahead.has)) return new Int32Array(0);
    deferred.counts.read += own.bags.samples;
    return deferred.list(1 + i, (out) => one.collidingBags(out, own.bags, before.bags, single));
  });
  deferred.counts.deferred += rows.reduce((sum, { length }) => sum + length, bags.length);
  return { bags, rows };
}

const single = { first: 0, count: 1 };

// Sending ----

/** Some vectors or rows of one sender for one receiver. */
interface Some {
  /** Their places at the receiver, ascending. */
  readonly rows: Int32Array;
  readonly bytes: number;
  write(to: PackedAt): void;
}

/** Looks up the deferred bags and rows after the update, and sends them to the samples' devices. */
export async function sendDeferred(
  device: DeferredDevice,
  staged: StagedRows,
  deferred: Deferred,
  plan: StepPlan,
): Promise<void> {
  const channel = device.frames.deferred;
  await channel.open(plan.bytes.deferred);
  let firstSample = 0;
  const firstRows = staged.lookups.map(() => 0);
  const used = plan.counts.map((samples, peer) => {
    const all = [
      ...vectorsFor(device, { peer, firstSample, samples }, staged, deferred),
      ...rowsFor(device, peer, firstRows, staged, deferred),
    ];
    firstSample += samples;
    const bytes = all.reduce((sum, { rows, bytes: own }) => {
      return sum + 4 * (1 + rows.length) + own;
    }, 0);
    const { buffer, byteOffset } = channel.outbox(peer, bytes);
    let at = byteOffset;
    const write = (ints: ArrayLike<number>) => {
      new Int32Array(buffer, at, ints.length).set(ints);
      at += 4 * ints.length;
    };
    write(all.map(({ rows }) => rows.length));
    for (const { rows } of all) write(rows);
    for (const { rows, bytes: own, write: writeVectors } of all) {
      if (rows.length > 0) writeVectors({ buffer, byteOffset: at });
      at += own;
    }
    return bytes;
  });
  channel.start((peer) => used[peer] ?? 0);
}

/** The samples of one device among those of the batch. */
interface SamplesOf {
  readonly peer: number;
  readonly firstSample: number;
  readonly samples: number;
}

/** The deferred vectors of this device's shard groups, for the samples of `peer`. */
function vectorsFor(
  device: DeferredDevice,
  of: SamplesOf,
  { bags, axes }: StagedRows,
  deferred: Deferred,
): Some[] {
  const { deferred: memory, kernels, rank, slab, topology } = device;
  const { forward } = topology.exchange;
  const { first = 0 } = topology.reads.ahead.held[rank] ?? {};
  const lookups = lookupIndices(topology.lookupsBy[rank] ?? []);
  return sendListOf(topology.reads.ahead, rank, of.peer).own.map((shardGroup): Some => {
    const { shards, columns, axis } = shardGroup;
    const indices = shards.map((shard) => lookups.get(shard) ?? 0);
    const lists = indices.map((lookup) => {
      return within(deferred.bags, (lookup - first) * bags.samples + of.firstSample, of.samples);
    });
    const own = lists.length === 1 ? (lists[0] ?? new Int32Array(0)) : unionOf(lists);
    const samples = own.map((sample) => of.firstSample + sample);
    return {
      rows: rowsAt(own, axisAt(axes[of.peer] ?? [], axis).runs),
      bytes: vectorBytes(shardGroup, own.length, forward),
      write(to) {
        const shape = [own.length, columns];
        const isDirect = forward === "float32" && shards.length === 1;
        const scratch = memory.vectors.take(isDirect ? 0 : shards.length * own.length * columns);
        const parts = shards.map((shard, i): PooledPart => {
          const out = isDirect
            ? kernels.view(to.buffer, to.byteOffset, shape)
            : kernels.reshape(scratch, shape, i * own.length * columns);
          slab.lookupAt(out, bags, { first: indices[i] ?? 0, count: 1 }, samples);
          return partIn(out, shard)(shard);
        });
        if (!isDirect) packSums(device, shardGroup, parts, to);
      },
    };
  });
}

/** The deferred rows of this device's shards with `dedup` that `peer` requested. */
function rowsFor(
  device: DeferredDevice,
  peer: number,
  firstRows: number[],
  { lookups }: StagedRows,
  deferred: Deferred,
): Some[] {
  const { deferred: memory, kernels, topology } = device;
  const { forward } = topology.exchange;
  return lookups.flatMap(({ bags, counts }, i): Some[] => {
    const slab = slabAt(device, i);
    if (!slab.shards.every(topology.reads.ahead.has)) return [];
    const [first, count] = [firstRows[i] ?? 0, counts[peer] ?? 0];
    firstRows[i] = first + count;
    const rows = within(deferred.rows[i] ?? new Int32Array(0), first, count);
    return [
      {
        rows,
        bytes: packedBytes(rows.length, slab.columns, forward),
        write(to) {
          const shape = [rows.length, slab.columns];
          const isDirect = forward === "float32";
          const out = isDirect
            ? kernels.view(to.buffer, to.byteOffset, shape)
            : kernels.reshape(memory.vectors.take(rows.length * slab.columns), shape);
          const places = rows.map((row) => first + row);
          slab.lookupAt(out, bags, single, places);
          if (isDirect) return;
          kernels.packColumns(to, out, 0, slab.columns, forward, topology.scales.forward);
        },
      },
    ];
  });
}

const indicesOf = new WeakMap<readonly HeldLookup[], ReadonlyMap<HeldLookup, number>>();

/** The index of each lookup in a device's list, computed once. */
function lookupIndices(lookups: readonly HeldLookup[]): ReadonlyMap<HeldLookup, number> {
  const known = indicesOf.get(lookups) ?? new Map(lookups.map((one, i) => [one, i]));
  indicesOf.set(lookups, known);
  return known;
}

/** The values first .. first+count-1 of an ascending list, relative to `first`. */
function within(list: Int32Array, first: number, count: number): Int32Array {
  const from = lowerBound(list, first);
  return list.subarray(from, lowerBound(list, first + count)).map((value) => value - first);
}

/** The distinct values of some lists, ascending. */
function unionOf(lists: readonly Int32Array[]): Int32Array {
  return Int32Array.from(new Set(lists.flatMap((list) => [...list]))).sort();
}

/** Maps places of bags, ascending, to rows of their axis. */
function rowsAt(
  places: Int32Array,
  runs: readonly { readonly first: number; readonly count: number }[],
): Int32Array {
  let [run, before] = [0, 0];
  return places.map((place) => {
    for (;;) {
      const { first, count } = runs[run] ?? { first: 0, count: Number.POSITIVE_INFINITY };
      if (place < first + count) return before + place - first;
      before += count;
      run++;
    }
  });
}

// Receiving ----

/** Vectors or rows that replace those that were read ahead. */
interface Patch {
  readonly rows: Int32Array;
  readonly from: PackedAt;
}

/** Vectors and rows that a device received again; valid until `frames.deferred.close`. */
export interface Resent {
  /** By shard group. */
  readonly vectors: ReadonlyMap<ShardGroup, Patch>;
  /** By shard of distinct rows. */
  readonly rows: ReadonlyMap<HeldShard, Patch>;
}

/** Receives the deferred embeddings of all devices. @throws FrameCorruptError */
export async function receiveDeferred(device: DeferredDevice): Promise<Resent> {
  const { rank, topology } = device;
  const { ahead } = topology.reads;
  const { forward } = topology.exchange;
  const [vectors, rows] = [new Map<ShardGroup, Patch>(), new Map<HeldShard, Patch>()];
  const frames = await device.frames.deferred.finish();
  for (const [peer, { buffer, byteOffset, byteLength }] of frames.entries()) {
    const { own } = sendListOf(ahead, peer, rank);
    const shards = (topology.distinctBy[peer] ?? []).filter(ahead.has);
    let at = byteOffset;
    const take = (count: number) => {
      const isThere = count >= 0 && at + 4 * count <= byteOffset + byteLength;
      if (!isThere) throw new FrameCorruptError(channels.deferred, `it lacks ${count} numbers`);
      at += 4 * count;
      return new Int32Array(buffer, at - 4 * count, count);
    };
    const counts = take(own.length + shards.length);
    const places = Array.from(counts, take);
    const patchOf = (i: number, bytesOf: (rows: number) => number): Patch => {
      const patch = { rows: places[i] ?? counts, from: { buffer, byteOffset: at } };
      at += bytesOf(patch.rows.length);
      return patch;
    };
    for (const [i, one] of own.entries()) {
      vectors.set(
        one,
        patchOf(i, (count) => vectorBytes(one, count, forward)),
      );
    }
    for (const [i, shard] of shards.entries()) {
      rows.set(
        shard,
        patchOf(own.length + i, (count) => packedBytes(count, shard.columns, forward)),
      );
    }
    if (at === byteOffset + byteLength) continue;
    const reason = `${byteLength} bytes of device ${peer}, not ${at - byteOffset}`;
    throw new FrameCorruptError(channels.deferred, reason);
  }
  return { vectors, rows };
}

/** Writes received vectors over the parts of their shard groups. */
export function patchVectors(
  { kernels, rounded, topology }: PackingDevice,
  { vectors }: Resent,
  parts: readonly (readonly PooledPart[])[],
): void {
  const { forward } = topology.exchange;
  for (const [{ shardGroup, columns }, { rows, from }] of vectors) {
    if (rows.length === 0) continue;
    const shape = [rows.length, columns];
    const bytes = packedBytes(rows.length, columns, forward);
    for (const [i, part] of (parts[shardGroup] ?? []).entries()) {
      const place = { ...from, byteOffset: from.byteOffset + i * bytes };
      const isPacked = forward !== "float32";
      const own = isPacked
        ? kernels.reshape(rounded.scratch, shape)
        : kernels.view(place.buffer, place.byteOffset, shape);
      if (isPacked) {
        kernels.unpackColumns(own, 0, place, columns, forward, topology.scales.forward);
      }
      kernels.placeColumns(part.from, part.first, own, 0, columns, rows);
    }
  }
}

/** Writes received rows over the rows (n,D) of a shard with `dedup`. */
export function patchRows(
  { deferred, kernels, topology }: Pick<DeferredDevice, "deferred" | "kernels" | "topology">,
  { rows: received }: Resent,
  shard: HeldShard,
  weights: Tensor,
): void {
  const { rows, from } = received.get(shard) ?? {};
  if (rows === undefined || from === undefined || rows.length === 0) return;
  const { forward } = topology.exchange;
  const shape = [rows.length, shard.columns];
  const isPacked = forward !== "float32";
  const own = isPacked
    ? kernels.reshape(deferred.vectors.take(rows.length * shard.columns), shape)
    : kernels.view(from.buffer, from.byteOffset, shape);
  if (isPacked) {
    kernels.unpackColumns(own, 0, from, shard.columns, forward, topology.scales.forward);
  }
  kernels.placeColumns(weights, 0, own, 0, shard.columns, rows);
}
