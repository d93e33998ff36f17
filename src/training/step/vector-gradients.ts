// The gradient of a lookup's pooled vectors on the device of the samples, before it travels to the
// rows: where the model left it. Where the samples' device takes the mean, each row's share of
// them.

import type { SampleRows } from "../../embedding/lookup/sample-rows.ts";
import type { Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import { gradientsAt, type Network } from "../../model/graph/network.ts";
import type { ShardGroup } from "../topology/shard-groups.ts";
import { type Topology, tableOf } from "../topology/topology.ts";
import type { BagLengthsDevice } from "./bag-lengths.ts";
import type { StepPlan } from "./step-plan.ts";

/** What the gradient of pooled vectors needs of a device. */
export interface GradientDevice extends Pick<BagLengthsDevice, "bagLengths"> {
  readonly topology: Topology;
  readonly kernels: Kernels;
  /** The gradients of its lookups are read. */
  readonly network: Network;
}

/** Puts the gradient of a lookup's columns into `out`, from `column` on; of a mean, its shares. */
export function copyGradient(
  device: GradientDevice,
  rows: SampleRows,
  plan: StepPlan,
  out: Tensor,
  { lookup, firstColumn, columns }: Pick<ShardGroup, "lookup" | "firstColumn" | "columns">,
  column: number,
): void {
  const { kernels, network, topology } = device;
  const { of, column: first } = gradientsAt(network, lookup, plan.samples);
  const from = first + firstColumn;
  if (topology.lookups[lookup]?.pooling === "mean" && isFolded(topology, lookup)) {
    kernels.shareColumns(out, column, of, from, columns, lengthsOf(device, rows, lookup));
  } else {
    kernels.copyColumns(out, column, of, from, columns);
  }
}

/** Whether the samples' device adds up the row blocks of a lookup's table, and takes the mean. */
export function isFolded({ input, lookups }: Topology, lookup: number): boolean {
  return tableOf(input.model.tables, lookups[lookup]?.table ?? -1).rowBlocks > 1;
}

/** (b): lengths of the bags of a lookup; of dynamic ids, without ids that have no row. */
export function lengthsOf(
  { bagLengths }: Pick<BagLengthsDevice, "bagLengths">,
  { lengths, samples }: SampleRows,
  lookup: number,
): Int32Array {
  const left = bagLengths.get(lookup)?.subarray(0, samples);
  return left ?? lengths.subarray(lookup * samples, (lookup + 1) * samples);
}
