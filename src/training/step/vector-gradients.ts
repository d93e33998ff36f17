// Copies the gradient of a lookup's pooled vectors from the model, on the device of the samples,
// for sending to the devices of the rows. Where the samples' device takes the mean, the copy is
// each row's share of the gradient.

import { type AxisRows, axisAt } from "../../data/sessions/ikjt.ts";
import type { SampleRows } from "../../embedding/lookup/sample-rows.ts";
import type { Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import { gradientsAt, type Network } from "../../model/graph/network.ts";
import type { ShardGroup } from "../topology/shard-groups.ts";
import { type Topology, tableOf } from "../topology/topology.ts";
import { atPlaces } from "./axes.ts";
import type { BagLengthsDevice } from "./bag-lengths.ts";
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
 * Copies the gradient of a lookup's columns to `out` (U,·), from `column` on; for a mean, divided
 * by the bag length. U = rows of the lookup's axis.
 */
export function copyGradient(
  device: GradientDevice,
  rows: SampleRows,
  plan: StepPlan,
  out: Tensor,
  at: LookupColumns,
  column: number,
): void {
  const { rows: count } = axisAt(plan.axes, at.axis);
  copyGradientTo(device, rows, plan, out, at, column, [{ first: 0, count }]);
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
  copyGradientTo(device, rows, plan, out, at, column, axisAt(plan.axes, at.axis).runs);
}

function copyGradientTo(
  device: GradientDevice,
  rows: SampleRows,
  plan: StepPlan,
  out: Tensor,
  { lookup, axis, firstColumn, columns }: LookupColumns,
  column: number,
  runs: AxisRows["runs"],
): void {
  const { kernels, network, topology } = device;
  const { of, column: first } = gradientsAt(network, lookup, axisAt(plan.axes, axis).rows);
  const isMean = topology.lookups[lookup]?.pooling === "mean" && isFolded(topology, lookup);
  const lengths = isMean ? lengthsOf(device, rows, plan, lookup) : undefined;
  let row = 0;
  for (const run of runs) {
    const to = kernels.part(out, run.first, run.count);
    const from = kernels.part(of, row, run.count);
    const own = lengths?.subarray(row, row + run.count);
    if (own === undefined) kernels.copyColumns(to, column, from, first + firstColumn, columns);
    else kernels.shareColumns(to, column, from, first + firstColumn, columns, own);
    row += run.count;
  }
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
