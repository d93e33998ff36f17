// Stages 4 and 6 of a step, the output dist: forward, the devices of the rows send pooled vectors
// to the devices of the samples; backward, these send back the vectors' gradients.
//
// A shard's vectors are the shard's columns of the pooled sums over its rows. Where a table has one
// row block, the sums are columns of the table's vector. Where a table has more, the samples'
// device adds up the tree over blocks and takes the mean, even where the table is not split, so
// that no plan changes a bit. The shards of one device that hold the same columns of a table are
// sent as a shard group: forward the finished subtrees of its blocks, backward one gradient.
// Between hosts shard groups may be added up on the way (host-reduce.ts). With a reduced wire
// precision, vectors are rounded even where they stay on their device, again so that no plan
// changes a bit.

import { axisAt } from "../../data/sessions/ikjt.ts";
import type { SampleRows } from "../../embedding/lookup/sample-rows.ts";
import type { Slab } from "../../embedding/rows/slab.ts";
import type { RowDecay } from "../../embedding/tables/row-decay.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import type { Bags, PooledPart, Tensor } from "../../kernels/contract/kernels.ts";
import { packedBytes } from "../../kernels/contract/precision.ts";
import { vectorsOf } from "../../model/graph/network.ts";
import { type AxisBlock, type Read, rangeOf } from "../topology/fresh-and-stale.ts";
import type { HeldLookup } from "../topology/held-shard.ts";
import { sendListOf, vectorBytes } from "../topology/shard-groups.ts";
import { tableOf } from "../topology/topology.ts";
import { type Axes, copyToPlaces } from "./axes.ts";
import { ColumnCopies } from "./column-copies.ts";
import { type DistinctVectorsDevice, distinctVectors } from "./dedup/dedup-state.ts";
import { patchVectors, type Resent } from "./deferred.ts";
import { packSums, partIn, roundingOf, unpackGradient, unpackSums } from "./group-vectors.ts";
import {
  addPartials,
  broadcastGradients,
  type HostReduceChannel,
  type HostReduceDevice,
  openPartials,
  packPartials,
} from "./host-reduce.ts";
import { type ReplicaVectorsDevice, replicaVectorsOf } from "./replicas.ts";
import type { StepPlan } from "./step-plan.ts";
import { copyGradient, type GradientDevice, isFolded, lengthsOf } from "./vector-gradients.ts";

/** The part of a device that the output dist needs. */
export interface OutputDistDevice
  extends HostReduceDevice,
    ReplicaVectorsDevice,
    GradientDevice,
    DistinctVectorsDevice {
  readonly exchange: Pick<Exchange, HostReduceChannel | "dPooled">;
  /** Rows of the shards that this device holds and pools. */
  readonly slab: Pick<Slab, "columns" | "lookup">;
  /** Decay of each table; undefined where stored rows are the weights. */
  readonly decays: readonly (RowDecay | undefined)[];
}

/** Vectors of a shard group on the samples' device: one part for each of its trees. */
type ShardGroupParts = readonly PooledPart[];

// Vectors of rows that lie on one device each ----

/**
 * Looks up the rows of a read for each device's samples, and sends the vectors. `axes` are by
 * device.
 */
export async function sendVectors(
  device: OutputDistDevice,
  bags: Bags,
  axes: readonly Axes[],
  plan: StepPlan,
  read: Read,
): Promise<void> {
  if (!read.hasVectors) return;
  const { kernels, topology, rank } = device;
  const { forward } = topology.exchange;
  const isDirect = forward === "float32" && topology.isPlain[rank] === true;
  const channel = device.exchange[read.vectors];
  await channel.open(plan.bytes[read.vectors]);
  const partials = await openPartials(device, plan, read);
  let firstSample = 0;
  const used = plan.counts.map((count, peer) => {
    const { buffer, byteOffset } = channel.outbox(peer);
    const own = axes[peer] ?? [];
    const place = { bags, axes: own, firstSample, plan };
    firstSample += count;
    if (isDirect) {
      return lookUp(device, rangeOf(read, rank).blocks, place, (floats, shape) => {
        return kernels.view(buffer, byteOffset + 4 * floats, shape);
      }).bytes;
    }
    const { partOf } = lookUp(device, rangeOf(read, rank).blocks, place, (floats, shape) => {
      return kernels.reshape(device.rounded.held, shape, floats);
    });
    let at = byteOffset;
    for (const shardGroup of sendListOf(read, rank, peer).own) {
      packSums(device, shardGroup, shardGroup.shards.map(partOf), { buffer, byteOffset: at });
      at += vectorBytes(shardGroup, axisAt(own, shardGroup.axis).rows, forward);
    }
    packPartials(device, peer, partOf, own, partials, read);
    return at - byteOffset;
  });
  await addPartials(device, axes, plan, read, used);
  channel.start((peer) => used[peer] ?? 0);
}

/** The bags of one device's samples among those of all, and the axes of that device. */
interface BagsOf {
  readonly bags: Bags;
  readonly axes: Axes;
  readonly firstSample: number;
  readonly plan: Pick<StepPlan, "average">;
}

/**
 * Looks up ranges of lookups for one device: (U, columns) for each range, in memory that `take`
 * returns for an offset in floats and a shape. Returns a function that finds the vectors of a
 * lookup, and the bytes of all vectors.
 */
function lookUp(
  { kernels, slab }: Pick<OutputDistDevice, "kernels" | "slab">,
  blocks: readonly AxisBlock[],
  { bags, axes, firstSample, plan }: BagsOf,
  take: (floats: number, shape: readonly number[]) => Tensor,
): { readonly partOf: (lookup: HeldLookup) => PooledPart; readonly bytes: number } {
  let floats = 0;
  const found = blocks.map((block) => {
    const { rows, runs } = axisAt(axes, block.axis);
    const out = take(floats, [rows, block.columns]);
    floats += rows * block.columns;
    let row = 0;
    for (const { first, count } of runs) {
      const some = kernels.part(out, row, count);
      slab.lookup(some, bags, firstSample + first, count, block, plan.average);
      row += count;
    }
    return { block, out };
  });
  return { partOf: partFinder(found), bytes: 4 * floats };
}

/** Returns a function that finds the vectors of a lookup among those of ranges of lookups. */
function partFinder(
  found: readonly { readonly block: AxisBlock; readonly out: Tensor }[],
): (lookup: HeldLookup) => PooledPart {
  return (lookup) => {
    // Blocks lie side by side, and there is one for each change of axis.
    let [low, high] = [0, found.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const { column = 0, columns = 0 } = found[middle]?.block ?? {};
      if (column + columns <= lookup.column) low = middle + 1;
      else high = middle;
    }
    const own = found[low];
    if (own === undefined || lookup.column < own.block.column)
      throw new RangeError(`Lookup ${lookup.lookup} was not looked up`);
    return partIn(own.out, own.block)(lookup);
  };
}

/**
 * Writes the vectors of all lookups, also of lookups pooled on this device, into the model.
 * `steps`: number of steps that trained the rows, for their decay. `resent`: what was read ahead
 * and changed since.
 */
export async function receiveVectors(
  device: OutputDistDevice,
  rows: SampleRows,
  plan: StepPlan,
  steps: number,
  resent?: Resent,
): Promise<void> {
  const { exchange, topology } = device;
  const { fresh, stale } = topology.reads;
  const parts: ShardGroupParts[] = [];
  for (const read of [stale, fresh]) await receiveParts(device, plan, read, parts);
  if (resent !== undefined) patchVectors(device, resent, parts);
  for (const shardGroup of topology.replicatedGroups) {
    const read = fresh.has(shardGroup) ? fresh : stale;
    const all = replicaVectorsOf(device, read, plan.samples);
    const from = device.kernels.part(all, 0, axisAt(plan.axes, shardGroup.axis).rows);
    parts[shardGroup.shardGroup] = shardGroup.shards.map(partIn(from, read.replicated));
  }
  for (const { shardGroup, shards, axis } of topology.distinctGroups) {
    parts[shardGroup] = shards.map((one) => {
      const all = distinctVectors(device, one.ofShard, plan.samples);
      const from = device.kernels.part(all, 0, axisAt(plan.axes, axis).rows);
      return partIn(from, one.ofShard)(one);
    });
  }
  assemble(device, rows, plan, parts);
  decayVectors(device, plan, steps);
  for (const { vectors, hasVectors } of [stale, fresh]) if (hasVectors) exchange[vectors].close();
}

/** Sets `parts` of a read's shard groups, from the inbox; valid until the channel is closed. */
async function receiveParts(
  device: OutputDistDevice,
  plan: StepPlan,
  read: Read,
  parts: ShardGroupParts[],
): Promise<void> {
  if (!read.hasVectors) return;
  const { exchange, kernels, rank, topology } = device;
  const { forward } = topology.exchange;
  const rowsOn = (axis: number) => axisAt(plan.axes, axis).rows;
  const { buffer, byteOffset } = await exchange[read.vectors].finish();
  let start = byteOffset;
  for (const peer of plan.counts.keys()) {
    const { own, hostSums } = sendListOf(read, peer, rank);
    if (forward === "float32" && topology.isPlain[peer] === true) {
      let at = start;
      const found = rangeOf(read, peer).blocks.map((block) => {
        const out = kernels.view(buffer, at, [rowsOn(block.axis), block.columns]);
        at += 4 * rowsOn(block.axis) * block.columns;
        return { block, out };
      });
      for (const { shardGroup, shards } of own) parts[shardGroup] = shards.map(partFinder(found));
    } else {
      let at = start;
      for (const shardGroup of [...own, ...hostSums]) {
        const place = { buffer, byteOffset: at };
        const first = device.rounded.firstOf[shardGroup.shardGroup] ?? 0;
        const rows = rowsOn(shardGroup.axis);
        parts[shardGroup.shardGroup] = unpackSums(device, shardGroup, rows, place, first);
        at += vectorBytes(shardGroup, rows, forward);
      }
    }
    start += plan.bytes[read.vectors](peer, rank);
  }
}

/**
 * Writes the vectors of shard groups into the model: concatenates columns, and adds up row blocks.
 */
function assemble(
  device: OutputDistDevice,
  rows: SampleRows,
  plan: StepPlan,
  parts: readonly ShardGroupParts[],
): void {
  const { kernels, network, rank, topology } = device;
  const { shardGroupsOf, distinctGroups, replicatedGroups } = topology;
  const copies = new ColumnCopies(kernels);
  for (const shardGroups of [...shardGroupsOf, distinctGroups, replicatedGroups]) {
    for (const { shardGroup, lookup, axis, firstColumn, columns } of shardGroups) {
      const [only] = parts[shardGroup] ?? [];
      if (only === undefined || isFolded(topology, lookup)) continue;
      const { of, column } = vectorsOf(network, lookup, axisAt(plan.axes, axis).rows);
      copies.add(of, column + firstColumn, only.from, only.first, columns);
    }
  }
  copies.flush();
  for (const [lookup, runs] of topology.foldedOn[topology.hostOf[rank] ?? 0] ?? []) {
    const { table = -1, pooling } = topology.lookups[lookup] ?? {};
    const { rowBlocks } = tableOf(topology.input.model.tables, table);
    const lengths = pooling === "mean" ? lengthsOf(device, rows, plan, lookup) : undefined;
    const axis = topology.axisOf[lookup] ?? 0;
    const { of, column } = vectorsOf(network, lookup, axisAt(plan.axes, axis).rows);
    for (const run of runs) {
      const pooled = run.parts.flatMap(({ shardGroup, first }) =>
        (parts[shardGroup.shardGroup] ?? []).map((part) => ({
          ...part,
          first: part.first + first,
        })),
      );
      pooled.sort((a, b) => a.tree.first - b.tree.first);
      const to = column + run.firstColumn;
      // Rows of tables with `dedup` were rounded, not their sums.
      const [, rounding, scale] = topology.distinctLookups.has(lookup) ? [] : roundingOf(topology);
      const [only] = pooled;
      if (only?.tree.count === rowBlocks && (lengths ?? rounding) === undefined) {
        kernels.copyColumns(of, to, only.from, only.first, run.columns); // A tree of one node.
        continue;
      }
      kernels.foldPooled(of, to, pooled, rowBlocks, run.columns, lengths, rounding, scale);
    }
  }
}

/** Scales the stored vectors of tables with a shared decay to weights (row-decay.ts). */
function decayVectors(device: OutputDistDevice, { axes }: StepPlan, steps: number): void {
  const { decays, kernels, network, topology } = device;
  for (const [lookup, { table }] of topology.lookups.entries()) {
    const decay = decays[table];
    if (decay === undefined) continue;
    const { rows } = axisAt(axes, topology.axisOf[lookup] ?? 0);
    const { of, column } = vectorsOf(network, lookup, rows);
    const { dim } = tableOf(topology.input.model.tables, table);
    kernels.scaleColumns(of, column, dim, decay.shareAt(steps));
  }
}

// Their gradients ----

/** Sends each shard group the gradient of its vectors. */
export async function sendVectorGradients(
  device: OutputDistDevice,
  rows: SampleRows,
  plan: StepPlan,
): Promise<void> {
  const { exchange, kernels, rank, topology, rounded } = device;
  const { backward } = topology.exchange;
  await exchange.dPooled.open(plan.bytes.dPooled);
  const rowsOn = (axis: number) => axisAt(plan.axes, axis).rows;
  const used = [...plan.counts.keys()].map((peer) => {
    const { own: shardGroups, hostSums } = sendListOf(topology, peer, rank);
    const { buffer, byteOffset } = exchange.dPooled.outbox(peer);
    const copies = new ColumnCopies(kernels);
    let at = byteOffset;
    if (backward === "float32" && topology.isPlain[peer] === true) {
      for (const { axis, first, count, column, columns } of topology.blocksBy[peer] ?? []) {
        const out = kernels.view(buffer, at, [rowsOn(axis), columns]);
        for (const one of (topology.lookupsBy[peer] ?? []).slice(first, first + count)) {
          copyGradient(device, rows, plan, copies, out, one, one.column - column);
        }
        copies.flush();
        at += 4 * rowsOn(axis) * columns;
      }
      return at - byteOffset;
    }
    for (const shardGroup of [...shardGroups, ...hostSums]) {
      const count = rowsOn(shardGroup.axis);
      const own = kernels.reshape(rounded.scratch, [count, shardGroup.columns]);
      copyGradient(device, rows, plan, copies, own, shardGroup, 0);
      copies.flush();
      const place = { buffer, byteOffset: at };
      const { columns } = shardGroup;
      kernels.packColumns(place, own, 0, columns, backward, topology.scales.backward);
      at += packedBytes(count, columns, backward);
    }
    return at - byteOffset;
  });
  exchange.dPooled.start((peer) => used[peer] ?? 0);
}

/**
 * Receives the gradients (B,C) of this device's shards' vectors, of all samples in the order of the
 * batch: each at the place of its bag; unspecified for empty bags. Valid until
 * `exchange.dPooled.close`.
 */
export async function receiveVectorGradients(
  device: OutputDistDevice,
  axes: readonly Axes[],
  plan: StepPlan,
): Promise<Tensor> {
  const { exchange, kernels, rank, slab, topology } = device;
  const { backward } = topology.exchange;
  const inbox = await exchange.dPooled.finish();
  await broadcastGradients(device, axes, plan, inbox);
  const { buffer, byteOffset } = inbox;
  const samples = plan.counts.reduce((sum, count) => sum + count, 0);
  const isDirect = backward === "float32" && topology.isPlain[rank] === true;
  const blocks = topology.blocksBy[rank] ?? [];
  if (isDirect && blocks.every(({ axis }) => axis === 0)) {
    return kernels.view(buffer, byteOffset, [samples, slab.columns]);
  }
  let start = byteOffset;
  let first = 0;
  for (const [peer, count] of plan.counts.entries()) {
    const out = kernels.part(device.rounded.heldGradients, first, count);
    const own = axes[peer] ?? [];
    let at = start;
    for (const { axis, column, columns } of isDirect ? blocks : []) {
      const on = axisAt(own, axis);
      const from = kernels.view(buffer, at, [on.rows, columns]);
      copyToPlaces(kernels, out, column, from, 0, columns, on);
      at += 4 * on.rows * columns;
    }
    for (const shardGroup of isDirect ? [] : sendListOf(topology, rank, peer).own) {
      unpackGradient(device, shardGroup, out, { buffer, byteOffset: at }, own);
      at += packedBytes(axisAt(own, shardGroup.axis).rows, shardGroup.columns, backward);
    }
    start += plan.bytes.dPooled(peer, rank);
    first += count;
  }
  return kernels.part(device.rounded.heldGradients, 0, samples);
}
