// Stages 4 and 6 of a step for tables with `dedup`, the dedup dist. Forward, the devices that hold
// the rows send distinct rows to the devices of the samples, which pool the rows. Backward, the
// devices of the samples send back the gradient of each row, as the sums of their finished subtrees
// of slices.
//
// In float32 the bits are the same as if the rows were pooled on their own device. The same kernels
// run over the same bags; the ids of the bags are positions in a table of the received rows. The
// gradients of a row are added up by the same tree, cut at the devices of the samples. With a
// reduced wire precision each row is rounded, and so is the gradient of a row in each slice, so
// that the bits do not depend on the devices. A weight of -0 arrives as +0, which changes no sum
// that starts at +0, except after an underflow.
//
// b = samples of this device, n = distinct rows of a shard that this device requests, V = distinct
// rows of a shard that all devices request, D = columns of the shard.

import { axisAt } from "../../../data/sessions/ikjt.ts";
import { type DistinctBags, requestedRows } from "../../../embedding/lookup/dedup-rows.ts";
import type { SampleRows } from "../../../embedding/lookup/sample-rows.ts";
import type { Bags, Kernels, PackedAt, Rows, Tensor } from "../../../kernels/contract/kernels.ts";
import { packedBytes, type WirePrecision } from "../../../kernels/contract/precision.ts";
import type { Slices } from "../../../kernels/contract/slices.ts";
import { isReadNext, type Read } from "../../topology/fresh-and-stale.ts";
import type { HeldLookup, HeldShard } from "../../topology/held-shard.ts";
import { closeGaps } from "../axes.ts";
import { type DeferredMemory, patchRows, type Resent } from "../deferred.ts";
import type { StagedLookups } from "../prefetch.ts";
import type { RowGradients } from "../row-sums.ts";
import type { StageDevice } from "../stage-device.ts";
import type { StepPlan } from "../step-plan.ts";
import { type GradientDevice, gradientAtPlaces } from "../vector-gradients.ts";
import { type DistinctState, distinctVectors, slabAt } from "./dedup-state.ts";

/** The part of a device that the dedup dist needs. */
export interface DedupDistDevice
  extends StageDevice<never, "rows" | "staleRows" | "dRows">,
    GradientDevice {
  readonly kernels: Kernels;
  /** Written by one step at a time. */
  readonly distinct: DistinctState;
  readonly deferred: DeferredMemory;
}

/** Whether no table sends rows: the same on all devices of a generation. */
function isIdle({ distinct }: Pick<DedupDistDevice, "distinct">): boolean {
  return distinct.tables.length === 0;
}

// Rows ----

/** Sends each device the rows of a read that it requested. */
export async function sendRows(
  device: DedupDistDevice,
  lookups: readonly StagedLookups[],
  plan: StepPlan,
  read: Read,
): Promise<void> {
  if (!read.hasRows) return;
  const { forward } = device.topology.exchange;
  const channel = device.frames[read.rows];
  await channel.open(plan.bytes[read.rows]);
  const firsts = lookups.map(() => 0);
  const used = plan.counts.map((_, peer) => {
    const bytes = lookups.reduce((sum, { counts }, i) => {
      const { shards, columns } = slabAt(device, i);
      const own = packedBytes(counts[peer] ?? 0, columns, forward);
      return sum + (shards.every(read.has) ? own : 0);
    }, 0);
    const { buffer, byteOffset } = channel.outbox(peer, bytes);
    let at = byteOffset;
    for (const [i, { bags, counts }] of lookups.entries()) {
      const slab = slabAt(device, i);
      if (!slab.shards.every(read.has)) continue;
      const [first, count] = [firsts[i] ?? 0, counts[peer] ?? 0];
      const place = { buffer, byteOffset: at };
      const out = plainRows(device, place, count, slab.columns, forward);
      slab.lookup(out, bags, first, count, undefined, plan.average);
      packRows(device, place, out, "forward");
      firsts[i] = first + count;
      at += packedBytes(count, slab.columns, forward);
    }
    return bytes;
  });
  channel.start((peer) => used[peer] ?? 0);
}

/** Where rows (n,D) are written: at their place in a frame, or in memory to pack them from. */
function plainRows(
  { kernels, distinct }: DedupDistDevice,
  { buffer, byteOffset }: PackedAt,
  rows: number,
  columns: number,
  precision: WirePrecision,
): Tensor {
  if (precision === "float32") return kernels.view(buffer, byteOffset, [rows, columns]);
  return kernels.reshape(distinct.plain.take(rows * columns), [rows, columns]);
}

/** Packs rows (n,D), unless they already lie at their place in a frame. */
function packRows(
  { kernels, topology }: DedupDistDevice,
  place: PackedAt,
  rows: Tensor,
  way: "forward" | "backward",
): void {
  const precision = topology.exchange[way];
  if (precision === "float32") return;
  kernels.packColumns(place, rows, 0, rows.shape[1] ?? 0, precision, topology.scales[way]);
}

/**
 * Pools the received rows into `distinct.vectors`. `resent`: rows that were read ahead, changed by
 * the update, and sent again.
 */
export async function receiveRows(
  device: DedupDistDevice,
  requested: DistinctBags,
  plan: StepPlan,
  resent?: Resent,
): Promise<void> {
  const { stale, fresh } = device.topology.reads;
  for (const read of [stale, fresh]) await receiveRowsOf(device, requested, plan, read, resent);
}

async function receiveRowsOf(
  device: DedupDistDevice,
  requested: DistinctBags,
  plan: StepPlan,
  read: Read,
  resent: Resent | undefined,
): Promise<void> {
  if (!read.hasRows) return;
  const { kernels, topology } = device;
  const { forward } = topology.exchange;
  const channel = device.frames[read.rows];
  const frames = await channel.finish();
  let next = 0;
  for (const [peer, { buffer, byteOffset }] of frames.entries()) {
    let at = byteOffset;
    for (const shard of topology.distinctBy[peer] ?? []) {
      const { tables, bags, rows } = pooledAt(device, requested, next++);
      if (!read.has(shard)) continue;
      const place = { buffer, byteOffset: at };
      const weights = plainRows(device, place, rows, shard.columns, forward);
      if (forward !== "float32") {
        kernels.unpackColumns(weights, 0, place, shard.columns, forward, topology.scales.forward);
      }
      if (resent !== undefined) patchRows(device, resent, shard, weights);
      const out = distinctVectors(device, columnsIn(shard), plan.samples);
      const received = tables.map((table) => ({ ...table, weights }));
      poolWithoutGaps(kernels, out, received, bags, shard.lookups, plan);
      at += packedBytes(rows, shard.columns, forward);
    }
  }
  const isLast = read === topology.reads.stale && !read.hasVectors;
  channel.close(isLast && isReadNext(topology.reads, plan));
}

/**
 * out (b,·): the vectors of all lookups in a shard. A lookup fills the first rows, one for each row
 * of its axis.
 */
function poolWithoutGaps(
  kernels: Kernels,
  out: Tensor,
  tables: readonly Rows[],
  bags: Bags,
  lookups: readonly HeldLookup[],
  { axes, samples }: StepPlan,
): void {
  const [{ axis: first = 0 } = {}] = lookups;
  if (lookups.every(({ axis }) => axis === first)) {
    let row = 0;
    for (const run of axisAt(axes, first).runs) {
      kernels.pool(kernels.part(out, row, run.count), tables, bags, run.first, run.count);
      row += run.count;
    }
    return;
  }
  kernels.pool(out, tables, bags, 0, samples);
  for (const { axis, column, ofShard, columns } of lookups) {
    if (axis > 0) closeGaps(kernels, out, column - ofShard.column, columns, axisAt(axes, axis));
  }
}

/**
 * Bags of this device, and the tables that they are pooled from, which have no weights yet; `rows`
 * is the number of requested rows.
 */
function pooledAt(
  { distinct }: Pick<DedupDistDevice, "distinct">,
  requested: DistinctBags,
  at: number,
): { tables: Rows[]; bags: Bags; rows: number } {
  const [lookedUp, bags] = [distinct.tables[at], requested.bags[at]];
  if (lookedUp === undefined || bags === undefined) {
    throw new RangeError(`The job has no shard of distinct rows ${at}`);
  }
  const rows = requestedRows(requested, at);
  const shape = { rows, blockRows: Math.max(1, rows) };
  return { tables: lookedUp.map((table) => ({ ...table, ...shape })), bags, rows };
}

/** The columns of all lookups in a shard, among those of all shards with distinct rows. */
function columnsIn({ lookups }: HeldShard): HeldLookup["ofShard"] {
  return lookups[0]?.ofShard ?? { column: 0, columns: 0 };
}

// Their gradients ----

/** Sends each shard the gradients of the rows that this device requested. */
export async function sendRowGradients(
  device: DedupDistDevice,
  rows: SampleRows,
  requested: DistinctBags,
  plan: StepPlan,
): Promise<void> {
  if (isIdle(device)) return;
  const { kernels, distinct, topology } = device;
  const { backward } = topology.exchange;
  const channel = device.frames.dRows;
  await channel.open(plan.bytes.dRows);
  const slices = wholeBatchOf(plan);
  let next = 0;
  const used = topology.distinctBy.map((shards, peer) => {
    const bytes = shards.reduce((sum, { columns }, i) => {
      return sum + packedBytes(requestedRows(requested, next + i), columns, backward);
    }, 0);
    const { buffer, byteOffset } = channel.outbox(peer, bytes);
    let at = byteOffset;
    for (const shard of shards) {
      const { tables, bags, rows: count } = pooledAt(device, requested, next++);
      const dVectors = distinctVectors(device, columnsIn(shard), plan.samples);
      for (const one of shard.lookups) {
        gradientAtPlaces(device, rows, plan, dVectors, one, one.column - one.ofShard.column);
      }
      const place = { buffer, byteOffset: at };
      const out = plainRows(device, place, count, shard.columns, backward);
      const marks = distinct.marks.take(count);
      kernels.dRows([out], [marks], tables, bags, dVectors, 0, slices);
      packRows(device, place, out, "backward");
      at += packedBytes(count, shard.columns, backward);
    }
    return bytes;
  });
  channel.start((peer) => used[peer] ?? 0);
}

/**
 * This device's slices as slices of the batch, where all other slices are empty. The sums equal
 * this device's subtrees in the tree over the batch, as empty slices add nothing.
 */
function wholeBatchOf({ mine, all, samples }: StepPlan): Slices {
  const bounds = new Int32Array(all.bounds.length).fill(samples, mine.first);
  bounds.set(mine.bounds, mine.first);
  return { first: 0, bounds };
}

/**
 * Receives the gradients (V,D) of the rows of each shard of this device, as gradients of bags of
 * one row each. Valid until the next call.
 */
export async function receiveRowGradients(
  device: DedupDistDevice,
  lookups: readonly StagedLookups[],
): Promise<RowGradients[]> {
  if (isIdle(device)) return [];
  const { kernels, distinct, topology } = device;
  const { backward } = topology.exchange;
  const shapes = lookups.map(({ bags }, i) => [bags.samples, slabAt(device, i).columns] as const);
  const memory = distinct.dRows.take(shapes.reduce((sum, [rows, dim]) => sum + rows * dim, 0));
  let floats = 0;
  const gradients = shapes.map((shape) => {
    const own = kernels.reshape(memory, shape, floats);
    floats += shape[0] * shape[1];
    return own;
  });
  const frames = await device.frames.dRows.finish();
  const firsts = lookups.map(() => 0);
  for (const [peer, { buffer, byteOffset }] of frames.entries()) {
    let at = byteOffset;
    for (const [i, out] of gradients.entries()) {
      const [first, count] = [firsts[i] ?? 0, lookups[i]?.counts[peer] ?? 0];
      const { columns } = slabAt(device, i);
      const own = kernels.part(out, first, count);
      const place = { buffer, byteOffset: at };
      kernels.unpackColumns(own, 0, place, columns, backward, topology.scales.backward);
      firsts[i] = first + count;
      at += packedBytes(count, columns, backward);
    }
  }
  device.frames.dRows.close();
  return lookups.map(({ bags, slices }, i) => {
    return { slab: slabAt(device, i), bags, dPooled: gradients[i] ?? memory, slices };
  });
}
