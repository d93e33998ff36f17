// Copies the gradient of a lookup's pooled vectors from the model, on the device of the samples,
// for sending to the devices of the rows. Where the samples' device takes the mean, the copy is
// each row's share of the gradient.

import { axisAt } from "../../data/sessions/ikjt.ts";
import type { SampleRows } from "../../embedding/lookup/sample-rows.ts";
import type { Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import { gradientsAt, type Network } from "../../model/graph/network.ts";
import type { ShardGroup } from "../topology/shard-groups.ts";
import { type Topology, tableOf } from "../topology/topology.ts";
import { atPlaces } from "./axes.ts";
import type { BagLengthsDevice } from "./bag-lengths.ts";
import type { ColumnCopies } from "./column-copies.ts";
import type { StepPlan } from "./step-plan.ts";

/** The part of a device that the gradient of pooled vectors needs. */
export interface GradientDevice extends Pick<BagLengthsDevice, "bagLengths"> {
  readonly topology: Topology;
  readonly kernels: Kernels;
  /** Source of the gradients of lookups. */
  readonly network: Network;
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
  if (lengths === undefined) copies.add(out, column, of, first, at.columns);
  else device.kernels.shareColumns(out, column, of, first, at.columns, lengths);
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
