// The gradient of a lookup's pooled vectors on the device of the samples, before it travels to the
// rows: where the model left it. Where the samples' device takes the mean, each row's share of
// them.

import { type AxisRows, axisAt } from "../../data/sessions/ikjt.ts";
import type { SampleRows } from "../../embedding/lookup/sample-rows.ts";
import type { Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import { gradientsAt, type Network } from "../../model/graph/network.ts";
import type { ShardGroup } from "../topology/shard-groups.ts";
import { type Topology, tableOf } from "../topology/topology.ts";
import { atPlaces } from "./axes.ts";
import type { BagLengthsDevice } from "./bag-lengths.ts";
import type { StepPlan } from "./step-plan.ts";

/** What the gradient of pooled vectors needs of a device. */
export interface GradientDevice extends Pick<BagLengthsDevice, "bagLengths"> {
  readonly topology: Topology;
  readonly kernels: Kernels;
  /** The gradients of its lookups are read. */
  readonly network: Network;
}

/** Some columns of a lookup's vectors. */
type LookupColumns = Pick<ShardGroup, "lookup" | "axis" | "firstColumn" | "columns">;

/**
 * Puts the gradient of a lookup's columns into `out` (U,·), from `column` on; of a mean, its
 * shares. U = rows of the lookup's axis.
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
 * As `copyGradient`, with each row at its place among the samples, out (b,·): as the bags lie. Rows
 * in between stay what they were; their bags are empty.
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

/** (U): lengths of the bags of a lookup; of dynamic ids, without ids that have no row. */
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
