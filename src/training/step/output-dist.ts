// Stages 4 and 6 of a step, the output dist: forward, pooled vectors travel from the devices of the
// rows to the devices of the samples; backward, the vectors' gradients travel back.
//
// A shard's vectors are the shard's columns of the pooled sums over its rows. Where a table has one
// row block, the sums are columns of the table's vector. Where a table has more, the samples'
// device adds up the tree over blocks and takes the mean, even where the table is not split, so
// that no plan changes a bit. The shards of one device that hold the same columns of a table travel
// as a shard group: forward the finished subtrees of its blocks, backward one gradient. Between
// hosts shard groups may be added up on the way (host-reduce.ts). Vectors that travel in fewer bits
// are rounded even where they stay on their device, again so that no plan changes a bit.

import type { SampleRows } from "../../embedding/lookup/sample-rows.ts";
import type { Slab } from "../../embedding/rows/slab.ts";
import type { RowDecay } from "../../embedding/tables/row-decay.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import type { Bags, PooledPart, Tensor } from "../../kernels/contract/kernels.ts";
import { packedBytes } from "../../kernels/contract/precision.ts";
import { vectorsOf } from "../../model/graph/network.ts";
import { type Read, rangeOf } from "../topology/fresh-and-stale.ts";
import { sendListOf, vectorBytes } from "../topology/shard-groups.ts";
import { tableOf } from "../topology/topology.ts";
import { type DistinctVectorsDevice, distinctVectors } from "./dedup-state.ts";
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

/** What the output dist needs of a device. */
export interface OutputDistDevice
  extends HostReduceDevice,
    ReplicaVectorsDevice,
    GradientDevice,
    DistinctVectorsDevice {
  readonly exchange: Pick<Exchange, HostReduceChannel | "dPooled">;
  /** Rows of the shards that are placed here and pooled here. */
  readonly slab: Pick<Slab, "columns" | "lookup">;
  /** By table; undefined where rows are stored as they are. */
  readonly decays: readonly (RowDecay | undefined)[];
}

/** Vectors of a shard group on the samples' device: one part for each of its trees. */
type ShardGroupParts = readonly PooledPart[];

// Vectors of rows that lie on one device each ----

/** Looks the rows of a read up for each device's samples and sends the vectors. */
export async function sendVectors(
  device: OutputDistDevice,
  bags: Bags,
  plan: StepPlan,
  read: Read,
): Promise<void> {
  if (!read.hasVectors) return;
  const { kernels, slab, topology, rank } = device;
  const { forward } = topology.exchange;
  const isDirect = forward === "float32" && topology.isPlain[rank] === true;
  const range = rangeOf(read, rank);
  const channel = device.exchange[read.vectors];
  await channel.open(plan.bytes[read.vectors]);
  const partials = await openPartials(device, plan, read);
  let first = 0;
  for (const [peer, count] of plan.counts.entries()) {
    const { buffer, byteOffset } = channel.outbox(peer);
    const shape = [count, range.columns];
    const out = isDirect
      ? kernels.view(buffer, byteOffset, shape)
      : kernels.reshape(device.rounded.held, shape);
    if (range.columns > 0) slab.lookup(out, bags, first, count, range, plan.average);
    if (!isDirect) {
      let at = byteOffset;
      for (const shardGroup of sendListOf(read, rank, peer).own) {
        const parts = shardGroup.shards.map(partIn(out, range));
        packSums(device, shardGroup, parts, { buffer, byteOffset: at });
        at += vectorBytes(shardGroup, count, forward);
      }
      packPartials(device, peer, out, partials, read);
    }
    first += count;
  }
  await addPartials(device, plan, read);
  channel.start();
}

/**
 * Puts the vectors of all lookups, also of those pooled here, into the model. `steps`: those that
 * trained the rows.
 */
export async function receiveVectors(
  device: OutputDistDevice,
  rows: SampleRows,
  plan: StepPlan,
  steps: number,
): Promise<void> {
  const { exchange, topology } = device;
  const { fresh, stale } = topology.reads;
  const { samples } = plan;
  const parts: ShardGroupParts[] = [];
  for (const read of [stale, fresh]) await receiveParts(device, plan, read, parts);
  for (const shardGroup of topology.replicatedGroups) {
    const read = fresh.has(shardGroup) ? fresh : stale;
    const from = replicaVectorsOf(device, read, samples);
    parts[shardGroup.shardGroup] = shardGroup.shards.map(partIn(from, read.replicated));
  }
  for (const { shardGroup, shards } of topology.distinctGroups) {
    parts[shardGroup] = shards.map((one) => {
      const from = distinctVectors(device, one.ofShard, samples);
      return partIn(from, one.ofShard)(one);
    });
  }
  assemble(device, rows, plan, parts);
  decayVectors(device, plan, steps);
  for (const { vectors, hasVectors } of [stale, fresh]) if (hasVectors) exchange[vectors].close();
}

/** Finds the parts of a read's shard groups in the inbox; valid until its channel is closed. */
async function receiveParts(
  device: OutputDistDevice,
  plan: StepPlan,
  read: Read,
  parts: ShardGroupParts[],
): Promise<void> {
  if (!read.hasVectors) return;
  const { exchange, kernels, rank, topology } = device;
  const { forward } = topology.exchange;
  const { samples } = plan;
  const { buffer, byteOffset } = await exchange[read.vectors].finish();
  let start = byteOffset;
  for (const peer of plan.counts.keys()) {
    const { own, hostSums } = sendListOf(read, peer, rank);
    if (forward === "float32" && topology.isPlain[peer] === true) {
      const theirs = rangeOf(read, peer);
      const from = kernels.view(buffer, start, [samples, theirs.columns]);
      for (const { shardGroup, shards } of own)
        parts[shardGroup] = shards.map(partIn(from, theirs));
    } else {
      let at = start;
      for (const shardGroup of [...own, ...hostSums]) {
        const place = { buffer, byteOffset: at };
        const first = device.rounded.firstOf[shardGroup.shardGroup] ?? 0;
        parts[shardGroup.shardGroup] = unpackSums(device, shardGroup, samples, place, first);
        at += vectorBytes(shardGroup, samples, forward);
      }
    }
    start += plan.bytes[read.vectors](peer, rank);
  }
}

/** Puts the vectors of shard groups into the model: columns side by side, blocks added up. */
function assemble(
  device: OutputDistDevice,
  rows: SampleRows,
  plan: StepPlan,
  parts: readonly ShardGroupParts[],
): void {
  const { kernels, network, rank, topology } = device;
  const { shardGroupsOf, distinctGroups, replicatedGroups } = topology;
  for (const shardGroups of [...shardGroupsOf, distinctGroups, replicatedGroups]) {
    for (const { shardGroup, lookup, firstColumn, columns } of shardGroups) {
      const [only] = parts[shardGroup] ?? [];
      if (only === undefined || isFolded(topology, lookup)) continue;
      const { of, column } = vectorsOf(network, lookup, plan.samples);
      kernels.copyColumns(of, column + firstColumn, only.from, only.first, columns);
    }
  }
  for (const [lookup, runs] of topology.foldedOn[topology.hostOf[rank] ?? 0] ?? []) {
    const { table = -1, pooling } = topology.lookups[lookup] ?? {};
    const { rowBlocks } = tableOf(topology.input.model.tables, table);
    const lengths = pooling === "mean" ? lengthsOf(device, rows, lookup) : undefined;
    const { of, column } = vectorsOf(network, lookup, plan.samples);
    for (const run of runs) {
      const pooled = run.parts.flatMap(({ shardGroup, first }) =>
        (parts[shardGroup.shardGroup] ?? []).map((part) => ({
          ...part,
          first: part.first + first,
        })),
      );
      pooled.sort((a, b) => a.tree.first - b.tree.first);
      const to = column + run.firstColumn;
      const [, rounding] = roundingOf(topology);
      kernels.foldPooled(of, to, pooled, rowBlocks, run.columns, lengths, rounding);
    }
  }
}

/** Makes weights of what is stored of tables whose rows decay together (row-decay.ts). */
function decayVectors(device: OutputDistDevice, { samples }: StepPlan, steps: number): void {
  const { decays, kernels, network, topology } = device;
  for (const [lookup, { table }] of topology.lookups.entries()) {
    const decay = decays[table];
    if (decay === undefined) continue;
    const { of, column } = vectorsOf(network, lookup, samples);
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
  for (const peer of plan.counts.keys()) {
    const { own: shardGroups, hostSums } = sendListOf(topology, peer, rank);
    const { buffer, byteOffset } = exchange.dPooled.outbox(peer);
    if (backward === "float32" && topology.isPlain[peer] === true) {
      const shape = [plan.samples, topology.columnsOf[peer] ?? 0];
      const out = kernels.view(buffer, byteOffset, shape);
      for (const { shards } of shardGroups) {
        for (const shard of shards) copyGradient(device, rows, plan, out, shard, shard.column);
      }
      continue;
    }
    let at = byteOffset;
    for (const shardGroup of [...shardGroups, ...hostSums]) {
      const own = kernels.reshape(rounded.scratch, [plan.samples, shardGroup.columns]);
      copyGradient(device, rows, plan, own, shardGroup, 0);
      kernels.packColumns({ buffer, byteOffset: at }, own, 0, shardGroup.columns, backward);
      at += packedBytes(plan.samples, shardGroup.columns, backward);
    }
  }
  exchange.dPooled.start();
}

/**
 * The gradients (B,C) of this device's shards' vectors, of all samples in the order of the batch;
 * valid until `exchange.dPooled.close`.
 */
export async function receiveVectorGradients(
  device: OutputDistDevice,
  plan: StepPlan,
): Promise<Tensor> {
  const { exchange, kernels, rank, slab, topology } = device;
  const { backward } = topology.exchange;
  const inbox = await exchange.dPooled.finish();
  await broadcastGradients(device, plan, inbox);
  const { buffer, byteOffset } = inbox;
  const samples = plan.counts.reduce((sum, count) => sum + count, 0);
  if (backward === "float32" && topology.isPlain[rank] === true) {
    return kernels.view(buffer, byteOffset, [samples, slab.columns]);
  }
  let start = byteOffset;
  let first = 0;
  for (const [peer, count] of plan.counts.entries()) {
    const out = kernels.part(device.rounded.heldGradients, first, count);
    let at = start;
    for (const shardGroup of sendListOf(topology, rank, peer).own) {
      unpackGradient(device, shardGroup, out, { buffer, byteOffset: at });
      at += packedBytes(count, shardGroup.columns, backward);
    }
    start += plan.bytes.dPooled(peer, rank);
    first += count;
  }
  return kernels.part(device.rounded.heldGradients, 0, samples);
}
