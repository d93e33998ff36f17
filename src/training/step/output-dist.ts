// Stage 4 of a step, the output dist: the devices of the rows send pooled vectors to the devices of
// the samples. In stage 6 these send back the vectors' gradients (vector-gradients.ts).
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
import type { RowDecay } from "../../embedding/tables/row-decay.ts";
import type { Region } from "../../exchange/exchange.ts";
import { aheadBytesMin } from "../../exchange/frame.ts";
import type { Bags, PooledPart } from "../../kernels/contract/kernels.ts";
import { packedBytes, type WirePrecision } from "../../kernels/contract/precision.ts";
import { vectorsOf } from "../../model/graph/network.ts";
import { isReadNext, type Read, rangeOf } from "../topology/fresh-and-stale.ts";
import { type SendList, sendListOf, vectorBytes } from "../topology/shard-groups.ts";
import { tableOf } from "../topology/topology.ts";
import type { Axes } from "./axes.ts";
import { ColumnCopies } from "./column-copies.ts";
import { type DistinctVectorsDevice, distinctVectors } from "./dedup/dedup-state.ts";
import { patchVectors, type Resent } from "./deferred.ts";
import { packSums, partIn, roundingOf, unpackSums } from "./group-vectors.ts";
import { addPartials, openPartials, packPartials } from "./host-reduce.ts";
import { FoundVectors, lookUp, sendOrder, tableGroups } from "./look-up.ts";
import { type ReplicaVectorsDevice, replicaVectorsOf } from "./replicas.ts";
import { type StepPlan, wholeOf } from "./step-plan.ts";
import { isFolded, lengthsOf, type VectorGradientsDevice } from "./vector-gradients.ts";

/** The part of a device that the output dist needs. */
export interface OutputDistDevice
  extends VectorGradientsDevice,
    ReplicaVectorsDevice,
    DistinctVectorsDevice {
  /** Decay of each table; undefined where stored rows are the weights. */
  readonly decays: readonly (RowDecay | undefined)[];
}

/** Vectors of a shard group on the samples' device: one part for each of its trees. */
type ShardGroupParts = readonly PooledPart[];

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
  const ranges = rangeOf(read, rank).blocks;
  const firsts = firstSamplesOf(plan);
  const used = plan.counts.map(() => 0);
  for (const peer of sendOrder(topology, rank)) {
    const { buffer, byteOffset } = channel.outbox(peer);
    const isFar = topology.hostOf[peer] !== topology.hostOf[rank];
    const own = axes[peer] ?? [];
    const rowsOn = (axis: number) => axisAt(own, axis).rows;
    const place = { bags, axes: own, firstSample: firsts[peer] ?? 0, plan };
    const sendList = sendListOf(read, rank, peer);
    const total = vectorBytesOf(sendList, rowsOn, forward);
    const found = new FoundVectors();
    if (isDirect) {
      const floatsMax = isFar ? aheadBytesMin / 4 : unlimited;
      const take = (floats: number, shape: readonly number[]) => {
        return kernels.view(buffer, byteOffset + 4 * floats, shape);
      };
      for (const floats of lookUp(device, ranges, place, take, { found, floatsMax })) {
        used[peer] = 4 * floats;
        channel.sendAhead(peer, 4 * floats, total);
      }
      continue;
    }
    const held = topology.lookupsBy[rank] ?? [];
    const blocks = isFar
      ? tableGroups(ranges, held, ({ columns, axis }) =>
          packedBytes(rowsOn(axis), columns, forward),
        )
      : ranges;
    const take = (floats: number, shape: readonly number[]) => {
      return kernels.reshape(device.rounded.held, shape, floats);
    };
    let [at, packed] = [byteOffset, 0];
    for (const _ of lookUp(device, blocks, place, take, { found, floatsMax: unlimited })) {
      for (; packed < sendList.own.length; packed++) {
        const shardGroup = sendList.own[packed];
        if (shardGroup?.shards.every((shard) => found.has(shard)) !== true) break;
        const parts = shardGroup.shards.map((shard) => found.partOf(shard));
        packSums(device, shardGroup, parts, { buffer, byteOffset: at });
        at += vectorBytes(shardGroup, rowsOn(shardGroup.axis), forward);
      }
      channel.sendAhead(peer, at - byteOffset, total);
    }
    packPartials(device, peer, (shard) => found.partOf(shard), own, partials, read);
    used[peer] = at - byteOffset;
  }
  await addPartials(device, axes, plan, read, used);
  channel.start((peer) => used[peer] ?? 0);
}

const unlimited = Number.POSITIVE_INFINITY;

/** The place of each device's first sample in the batch. */
function firstSamplesOf({ counts }: StepPlan): number[] {
  let samples = 0;
  return counts.map((count) => {
    samples += count;
    return samples - count;
  });
}

/** Bytes of the vectors that a device sends to another. */
function vectorBytesOf(
  { own, hostSums }: SendList,
  rowsOn: (axis: number) => number,
  precision: WirePrecision,
): number {
  let bytes = 0;
  for (const all of [own, hostSums]) {
    for (const one of all) bytes += vectorBytes(one, rowsOn(one.axis), precision);
  }
  return bytes;
}

/**
 * Writes the vectors of all lookups, also of lookups pooled on this device, into the model.
 * `steps`: number of steps that trained the rows, for their decay. `resent`: vectors that were read
 * ahead, changed by the update, and sent again.
 */
export async function receiveVectors(
  device: OutputDistDevice,
  rows: SampleRows,
  plan: StepPlan,
  steps: number,
  resent?: Resent,
): Promise<void> {
  const { exchange } = device;
  const { fresh, stale } = device.topology.reads;
  const inboxes = new Map<Read, Region>();
  for (const read of [stale, fresh]) {
    if (read.hasVectors) inboxes.set(read, await exchange[read.vectors].finish());
  }
  const place = () => placeVectors(device, rows, plan, inboxes, resent);
  if (resent === undefined) void device.repeats.vectors(wholeOf(plan), place);
  else place();
  decayVectors(device, plan, steps);
  if (fresh.hasVectors) exchange[fresh.vectors].close();
  if (stale.hasVectors) exchange[stale.vectors].close(isReadNext(device.topology.reads, plan));
}

/** Writes the vectors in the inboxes, of this device, and of distinct rows into the model. */
function placeVectors(
  device: OutputDistDevice,
  rows: SampleRows,
  plan: StepPlan,
  inboxes: ReadonlyMap<Read, Region>,
  resent: Resent | undefined,
): void {
  const { topology } = device;
  const { fresh, stale } = topology.reads;
  if (plan.axes.length > 1) device.repeats.refuse(); // Distinct lists differ from batch to batch.
  const parts: ShardGroupParts[] = [];
  for (const [read, inbox] of inboxes) placeParts(device, plan, read, inbox, parts);
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
}

/** Sets `parts` of a read's shard groups, from the inbox; valid until the channel is closed. */
function placeParts(
  device: OutputDistDevice,
  plan: StepPlan,
  read: Read,
  { buffer, byteOffset }: Region,
  parts: ShardGroupParts[],
): void {
  const { kernels, rank, topology } = device;
  const { forward } = topology.exchange;
  const rowsOn = (axis: number) => axisAt(plan.axes, axis).rows;
  let start = byteOffset;
  for (const peer of plan.counts.keys()) {
    const { own, hostSums } = sendListOf(read, peer, rank);
    if (forward === "float32" && topology.isPlain[peer] === true) {
      let at = start;
      const found = new FoundVectors();
      for (const block of rangeOf(read, peer).blocks) {
        const out = kernels.view(buffer, at, [rowsOn(block.axis), block.columns]);
        at += 4 * rowsOn(block.axis) * block.columns;
        found.add(block, out);
      }
      for (const { shardGroup, shards } of own) {
        parts[shardGroup] = shards.map((shard) => found.partOf(shard));
      }
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
  for (const [lookup, runs] of topology.foldedOn(topology.hostOf[rank] ?? 0)) {
    const { table = -1, pooling } = topology.lookups[lookup] ?? {};
    const { rowBlocks } = tableOf(topology.input.model.tables, table);
    const lengths = pooling === "mean" ? lengthsOf(device, rows, plan, lookup) : undefined;
    if (lengths !== undefined) device.repeats.refuse();
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
