// Stage 6 of a step: the devices of the samples send the gradients of pooled vectors, as the model
// has them, back to the devices of the rows. Where the samples' device takes the mean, a gradient
// is sent as each row's share of it.

import { axisAt } from "../../data/sessions/ikjt.ts";
import type { SampleRows } from "../../embedding/lookup/sample-rows.ts";
import type { Slab } from "../../embedding/rows/slab.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import type { Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import { packedBytes } from "../../kernels/contract/precision.ts";
import { gradientsAt, type Network } from "../../model/graph/network.ts";
import type { Replays, Run } from "../../model/graph/replay.ts";
import { type ShardGroup, sendListOf } from "../topology/shard-groups.ts";
import { type Topology, tableOf } from "../topology/topology.ts";
import { type Axes, atPlaces, copyToPlaces } from "./axes.ts";
import type { BagLengthsDevice } from "./bag-lengths.ts";
import { ColumnCopies } from "./column-copies.ts";
import { unpackGradient } from "./group-vectors.ts";
import {
  broadcastGradients,
  type HostReduceChannel,
  type HostReduceDevice,
} from "./host-reduce.ts";
import { sendOrder } from "./look-up.ts";
import { type StepPlan, wholeOf } from "./step-plan.ts";

/** The part of a device that the gradient of pooled vectors needs. */
export interface GradientDevice extends Pick<BagLengthsDevice, "bagLengths"> {
  readonly topology: Topology;
  readonly kernels: Kernels;
  /** Source of the gradients of lookups. */
  readonly network: Network;
  /** Repeat the calls by which vectors enter the network, and their gradients leave it. */
  readonly repeats: Pick<Replays, "refuse"> & { readonly vectors: Run; readonly gradients: Run };
}

/** The part of a device that sending and receiving the gradients needs. */
export interface VectorGradientsDevice extends GradientDevice, HostReduceDevice {
  readonly kernels: Kernels;
  readonly exchange: Pick<Exchange, HostReduceChannel | "dPooled">;
  /** Rows of the shards that this device holds and pools. */
  readonly slab: Pick<Slab, "columns" | "lookup">;
  /** Whether devices of other hosts take part. */
  readonly isAcross: boolean;
}

/** Sends each shard group the gradient of its vectors. */
export async function sendVectorGradients(
  device: VectorGradientsDevice,
  rows: SampleRows,
  plan: StepPlan,
): Promise<void> {
  const { dPooled } = device.exchange;
  await dPooled.open(plan.bytes.dPooled);
  let used: readonly number[] | undefined;
  void device.repeats.gradients(wholeOf(plan), () => {
    used = writeVectorGradients(device, rows, plan);
  });
  // Calls are repeated only where whole parts are sent.
  dPooled.start(used && ((peer) => used?.[peer] ?? 0));
}

/** Writes the gradients for each device, and lets them leave. Returns the bytes for each. */
function writeVectorGradients(
  device: VectorGradientsDevice,
  rows: SampleRows,
  plan: StepPlan,
): readonly number[] {
  const { exchange, kernels, rank, topology, rounded } = device;
  const { backward } = topology.exchange;
  if (device.isAcross || plan.axes.length > 1) device.repeats.refuse();
  const rowsOn = (axis: number) => axisAt(plan.axes, axis).rows;
  const used = plan.counts.map(() => 0);
  for (const peer of sendOrder(topology, rank)) {
    const sendList = sendListOf(topology, peer, rank);
    const shardGroups = [...sendList.own, ...sendList.hostSums];
    const { buffer, byteOffset } = exchange.dPooled.outbox(peer);
    const total = shardGroups.reduce(
      (sum, { axis, columns }) => sum + packedBytes(rowsOn(axis), columns, backward),
      0,
    );
    const leave = (end: number) => {
      used[peer] = end - byteOffset;
      exchange.dPooled.sendAhead(peer, end - byteOffset, total);
    };
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
        leave(at);
      }
      continue;
    }
    for (const shardGroup of shardGroups) {
      const count = rowsOn(shardGroup.axis);
      const own = kernels.reshape(rounded.scratch, [count, shardGroup.columns]);
      copyGradient(device, rows, plan, copies, own, shardGroup, 0);
      copies.flush();
      const place = { buffer, byteOffset: at };
      const { columns } = shardGroup;
      kernels.packColumns(place, own, 0, columns, backward, topology.scales.backward);
      at += packedBytes(count, columns, backward);
      leave(at);
    }
  }
  return used;
}

/**
 * Receives the gradients (B,C) of this device's shards' vectors, of all samples in the order of the
 * batch: each at the place of its bag; unspecified for empty bags. Valid until
 * `exchange.dPooled.close`.
 */
export async function receiveVectorGradients(
  device: VectorGradientsDevice,
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

/** Some columns of a lookup's vectors. */
type LookupColumns = Pick<ShardGroup, "lookup" | "axis" | "firstColumn" | "columns">;

/**
 * Copies the gradient of a lookup's columns to `out` (U,·), from `column` on, once `copies` are
 * flushed; for a mean, divided by the bag length. U = rows of the lookup's axis.
 */
export function copyGradient(
  device: GradientDevice,
  rows: SampleRows,
  plan: StepPlan,
  copies: ColumnCopies,
  out: Tensor,
  at: LookupColumns,
  column: number,
): void {
  const { of, first } = gradientOf(device, plan, at);
  const lengths = lengthsOfMean(device, rows, plan, at);
  if (lengths === undefined) {
    copies.add(out, column, of, first, at.columns);
    return;
  }
  device.repeats.refuse();
  device.kernels.shareColumns(out, column, of, first, at.columns, lengths);
}

/**
 * Like `copyGradient`, but writes each row at the place of its bag among the samples, out (b,·).
 * Rows in between keep their values; their bags are empty.
 */
export function gradientAtPlaces(
  device: GradientDevice,
  rows: SampleRows,
  plan: StepPlan,
  out: Tensor,
  at: LookupColumns,
  column: number,
): void {
  const { kernels } = device;
  const { of, first } = gradientOf(device, plan, at);
  const lengths = lengthsOfMean(device, rows, plan, at);
  let row = 0;
  for (const run of axisAt(plan.axes, at.axis).runs) {
    const to = kernels.part(out, run.first, run.count);
    const from = kernels.part(of, row, run.count);
    const own = lengths?.subarray(row, row + run.count);
    if (own === undefined) kernels.copyColumns(to, column, from, first, at.columns);
    else kernels.shareColumns(to, column, from, first, at.columns, own);
    row += run.count;
  }
}

/** The gradient of a lookup's columns in the model: a tensor, and its first column there. */
function gradientOf(
  { network }: GradientDevice,
  { axes }: StepPlan,
  { lookup, axis, firstColumn }: LookupColumns,
): { readonly of: Tensor; readonly first: number } {
  const { of, column } = gradientsAt(network, lookup, axisAt(axes, axis).rows);
  return { of, first: column + firstColumn };
}

/** The lengths of the bags of a lookup, if the samples' device takes their mean. */
function lengthsOfMean(
  device: GradientDevice,
  rows: SampleRows,
  plan: StepPlan,
  { lookup }: LookupColumns,
): Int32Array | undefined {
  const { topology } = device;
  const isMean = topology.lookups[lookup]?.pooling === "mean" && isFolded(topology, lookup);
  return isMean ? lengthsOf(device, rows, plan, lookup) : undefined;
}

/** Whether the samples' device adds up the row blocks of a lookup's table, and takes the mean. */
export function isFolded({ input, lookups }: Topology, lookup: number): boolean {
  return tableOf(input.model.tables, lookups[lookup]?.table ?? -1).rowBlocks > 1;
}

/** (U): lengths of the bags of a lookup. Dynamic ids without a row do not count. */
export function lengthsOf(
  { bagLengths, topology }: Pick<GradientDevice, "bagLengths" | "topology">,
  { lengths, samples }: SampleRows,
  { axes }: StepPlan,
  lookup: number,
): Int32Array {
  const left = bagLengths.get(lookup)?.subarray(0, samples);
  const own = left ?? lengths.subarray(lookup * samples, (lookup + 1) * samples);
  return atPlaces(own, axisAt(axes, topology.axisOf[lookup] ?? 0));
}
