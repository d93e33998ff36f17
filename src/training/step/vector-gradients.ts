// The gradient of a table's pooled vectors on the device of the samples, before it travels to the
// rows: columns of the model's `dX`. Where the samples' device takes the mean, each row's share of
// them.

import type { SampleRows } from "../../embedding/lookup/ids-to-rows.ts";
import type { Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import { columnOf, columnsOf, type Dlrm } from "../../model/dlrm.ts";
import type { ShardGroup } from "../topology/shard-groups.ts";
import { type Topology, tableOf } from "../topology/topology.ts";
import type { BagLengthsDevice } from "./bag-lengths.ts";
import type { StepPlan } from "./step-plan.ts";

/** What the gradient of pooled vectors needs of a device. */
export interface GradientDevice extends Pick<BagLengthsDevice, "bagLengths"> {
  readonly topology: Topology;
  readonly kernels: Kernels;
  /** Its `dX` is read. */
  readonly model: Dlrm;
}

/** Puts the gradient of a table's columns into `out`, from `column` on; of a mean, its shares. */
export function copyGradient(
  device: GradientDevice,
  rows: SampleRows,
  plan: StepPlan,
  out: Tensor,
  { table, firstColumn, columns }: Pick<ShardGroup, "table" | "firstColumn" | "columns">,
  column: number,
): void {
  const { kernels, model, topology } = device;
  const { pooling } = tableOf(topology.input.model.tables, table);
  const dX = columnsOf(model, model.dX, plan.samples);
  const from = columnOf(topology.shape, table) + firstColumn;
  if (pooling === "mean" && isFolded(topology, table)) {
    kernels.shareColumns(out, column, dX, from, columns, lengthsOf(device, rows, table));
  } else {
    kernels.copyColumns(out, column, dX, from, columns);
  }
}

/** Whether the samples' device adds up a table's row blocks, and takes the mean. */
export function isFolded({ input }: Topology, table: number): boolean {
  return tableOf(input.model.tables, table).rowBlocks > 1;
}

/** (b): lengths of the bags of a feature; of dynamic ids, without ids that have no row. */
export function lengthsOf(
  { bagLengths }: Pick<BagLengthsDevice, "bagLengths">,
  { lengths, samples }: SampleRows,
  feature: number,
): Int32Array {
  const left = bagLengths.get(feature)?.subarray(0, samples);
  return left ?? lengths.subarray(feature * samples, (feature + 1) * samples);
}
