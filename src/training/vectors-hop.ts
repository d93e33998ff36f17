// Hops 3, 4 and 6 of a step: pooled vectors from the devices of the rows to those of the samples,
// and their gradients back.
//
// A shard's vectors are its columns of the pooled sums over its rows. Where a table has one row
// block they are columns of its vector; where it has more, the samples' device adds the tree over
// blocks and takes the mean, split or not, so that no plan changes a bit. Vectors that travel in
// fewer bits are rounded also where they cross no device.

import type { SampleRows } from "../embedding/local-rows.ts";
import type { Bags, PooledPart, Tensor } from "../kernels/kernels.ts";
import { packedBytes } from "../kernels/precision.ts";
import { columnOf, columnsOf } from "../model/dlrm.ts";
import type { DeviceState } from "./device-state.ts";
import type { StepPlan } from "./step-plan.ts";
import { type HeldShard, tableOf } from "./topology.ts";

/** Where the vectors of a shard lie: in (b,·), from a column on. */
type VectorPlace = Omit<PooledPart, "tree">;

// Vectors of rows that lie on one device each ----

/** Looks the rows up for each device's samples and sends the vectors. */
export async function sendVectors(device: DeviceState, bags: Bags, plan: StepPlan): Promise<void> {
  const { exchange, kernels, slab, topology, rank } = device;
  const { forward } = topology.exchange;
  await exchange.pooled.open(plan.bytes.pooled);
  let first = 0;
  for (const [peer, count] of plan.counts.entries()) {
    const { buffer, byteOffset } = exchange.pooled.outbox(peer);
    const isDirect = forward === "float32";
    const out = isDirect
      ? kernels.view(buffer, byteOffset, [count, slab.columns])
      : kernels.part(device.rounded.held, 0, count);
    if (slab.columns > 0) slab.lookup(out, bags, first, count);
    if (!isDirect) {
      let at = byteOffset;
      for (const { column, columns } of topology.heldBy[rank] ?? []) {
        kernels.packColumns({ buffer, byteOffset: at }, out, column, columns, forward);
        at += packedBytes(count, columns, forward);
      }
    }
    first += count;
  }
  exchange.pooled.start();
}

/** Puts the vectors of all tables, the copied ones too, into the model's `x`. */
export async function receiveVectors(
  device: DeviceState,
  rows: SampleRows,
  plan: StepPlan,
): Promise<void> {
  const { exchange, kernels, rank, topology } = device;
  const { vectors, firstOf } = device.rounded;
  const { forward } = topology.exchange;
  const inbox = await exchange.pooled.finish();
  const places = new Map<number, VectorPlace>();
  let { byteOffset } = inbox;
  for (const [peer, shards] of topology.heldBy.entries()) {
    if (forward === "float32") {
      const shape = [plan.samples, topology.columnsOf[peer] ?? 0];
      const from = kernels.view(inbox.buffer, byteOffset, shape);
      for (const { shard, column } of shards) places.set(shard, { from, first: column });
    } else {
      let at = byteOffset;
      for (const { shard, columns } of shards) {
        const first = firstOf[shard] ?? 0;
        const from = kernels.reshape(vectors, [plan.samples, columns], first);
        kernels.unpackColumns(from, 0, { buffer: inbox.buffer, byteOffset: at }, columns, forward);
        places.set(shard, { from, first: 0 });
        at += packedBytes(plan.samples, columns, forward);
      }
    }
    byteOffset += plan.bytes.pooled(peer, rank);
  }
  for (const { shard, column } of topology.replicated) {
    const from = kernels.part(device.replicaVectors, 0, plan.samples);
    places.set(shard, { from, first: column });
  }
  assemble(device, rows, plan, places);
  exchange.pooled.close();
}

/** Looks up what every device has a copy of. */
export function lookupReplicas(device: DeviceState, bags: Bags | undefined, plan: StepPlan): void {
  if (bags === undefined) return;
  const { kernels, replicas, topology } = device;
  const { forward } = topology.exchange;
  const out = kernels.part(device.replicaVectors, 0, plan.samples);
  replicas.lookup(out, bags, 0, plan.samples);
  if (forward === "float32") return;
  for (const shard of topology.replicated) roundColumns(device, out, shard, forward);
}

/** Puts the shards' vectors together in `x`: columns side by side, blocks added up. */
function assemble(
  device: DeviceState,
  rows: SampleRows,
  plan: StepPlan,
  places: ReadonlyMap<number, VectorPlace>,
): void {
  const { kernels, model, topology } = device;
  const { model: spec } = topology.input;
  const { forward } = topology.exchange;
  const x = columnsOf(model, model.x, plan.samples);
  const placeOf = ({ shard, name }: HeldShard): VectorPlace => {
    const place = places.get(shard);
    if (place === undefined) throw new RangeError(`No vectors came of shard ${shard} of ${name}`);
    return place;
  };
  for (const shards of [...topology.heldBy, topology.replicated]) {
    for (const shard of shards) {
      if (topology.folded.has(shard.table)) continue;
      const { from, first } = placeOf(shard);
      const to = columnOf(topology.shape, shard.table) + shard.firstColumn;
      kernels.copyColumns(x, to, from, first, shard.columns);
    }
  }
  for (const [table, runs] of topology.folded) {
    const { rowBlocks, pooling } = tableOf(spec.tables, table);
    const lengths = pooling === "mean" ? lengthsOf(rows, table) : undefined;
    for (const { firstColumn, columns, parts } of runs) {
      const pooled = parts.map(({ shard, first }): PooledPart => {
        const place = placeOf(shard);
        const tree = { first: shard.firstBlock, count: shard.blocks };
        return { from: place.from, first: place.first + first, tree };
      });
      const to = columnOf(topology.shape, table) + firstColumn;
      const rounding = forward === "float32" ? undefined : forward;
      kernels.foldPooled(x, to, pooled, rowBlocks, columns, lengths, rounding);
    }
  }
}

// Their gradients ----

/** Sends each shard the gradient of its vectors. */
export async function sendVectorGradients(
  device: DeviceState,
  rows: SampleRows,
  plan: StepPlan,
): Promise<void> {
  const { exchange, kernels, topology } = device;
  const { backward } = topology.exchange;
  await exchange.dPooled.open(plan.bytes.dPooled);
  for (const [peer, shards] of topology.heldBy.entries()) {
    const { buffer, byteOffset } = exchange.dPooled.outbox(peer);
    if (backward === "float32") {
      const shape = [plan.samples, topology.columnsOf[peer] ?? 0];
      const out = kernels.view(buffer, byteOffset, shape);
      for (const shard of shards) copyGradient(device, rows, plan, out, shard);
      continue;
    }
    let at = byteOffset;
    for (const shard of shards) {
      const own = kernels.reshape(device.rounded.vectors, [plan.samples, shard.columns]);
      copyGradient(device, rows, plan, own, { ...shard, column: 0 });
      kernels.packColumns({ buffer, byteOffset: at }, own, 0, shard.columns, backward);
      at += packedBytes(plan.samples, shard.columns, backward);
    }
  }
  exchange.dPooled.start();
}

/**
 * The gradients (B,C) of this device's shards' vectors, of all samples in the order of the batch;
 * valid until `exchange.dPooled.close`.
 */
export async function receiveVectorGradients(device: DeviceState, plan: StepPlan): Promise<Tensor> {
  const { exchange, kernels, rank, slab, topology } = device;
  const { backward } = topology.exchange;
  const { buffer, byteOffset } = await exchange.dPooled.finish();
  const samples = plan.counts.reduce((sum, count) => sum + count, 0);
  if (backward === "float32") return kernels.view(buffer, byteOffset, [samples, slab.columns]);
  let at = byteOffset;
  let first = 0;
  for (const count of plan.counts) {
    const out = kernels.part(device.rounded.heldGradients, first, count);
    for (const { column, columns } of topology.heldBy[rank] ?? []) {
      kernels.unpackColumns(out, column, { buffer, byteOffset: at }, columns, backward);
      at += packedBytes(count, columns, backward);
    }
    first += count;
  }
  return kernels.part(device.rounded.heldGradients, 0, samples);
}

/** The gradients (b,C) of the copied shards' vectors. */
export function replicaVectorGradients(
  device: DeviceState,
  rows: SampleRows,
  plan: StepPlan,
): Tensor {
  const { kernels, topology } = device;
  const { backward } = topology.exchange;
  const out = kernels.part(device.replicaVectors, 0, plan.samples);
  for (const shard of topology.replicated) {
    copyGradient(device, rows, plan, out, shard);
    if (backward !== "float32") roundColumns(device, out, shard, backward);
  }
  return out;
}

/** The gradient of a shard's vectors, into its column of `out`: of a mean, each row's share. */
function copyGradient(
  { kernels, model, topology }: DeviceState,
  rows: SampleRows,
  plan: StepPlan,
  out: Tensor,
  shard: HeldShard,
): void {
  const { table, column, columns, firstColumn } = shard;
  const { pooling } = tableOf(topology.input.model.tables, table);
  const dX = columnsOf(model, model.dX, plan.samples);
  const from = columnOf(topology.shape, table) + firstColumn;
  if (pooling === "mean" && topology.folded.has(table)) {
    kernels.shareColumns(out, column, dX, from, columns, lengthsOf(rows, table));
  } else {
    kernels.copyColumns(out, column, dX, from, columns);
  }
}

/** Rounds a shard's columns as they would be on their way. */
function roundColumns(
  { kernels, rounded }: DeviceState,
  t: Tensor,
  { column, columns }: HeldShard,
  precision: "float16" | "bfloat16" | "int8",
): void {
  const place = { buffer: rounded.packed, byteOffset: 0 };
  kernels.packColumns(place, t, column, columns, precision);
  kernels.unpackColumns(t, column, place, columns, precision);
}

/** (b): lengths of the bags of a feature. */
function lengthsOf({ lengths, samples }: SampleRows, feature: number): Int32Array {
  return lengths.subarray(feature * samples, (feature + 1) * samples);
}
