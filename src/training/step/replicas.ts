// Data-parallel tables: every device holds a copy and looks its own samples up there (stage 4). The
// gradient is a dense one of the whole table, made after the backward pass (stage 6) and added up
// over all devices behind the gradient of the dense layers (stage 8).

import { bagFrameBytes, writeBagFrame } from "../../embedding/lookup/bag-frames.ts";
import type { SampleRows } from "../../embedding/lookup/ids-to-rows.ts";
import type { Bags, RowRule, Tensor } from "../../kernels/contract/kernels.ts";
import { tableOf } from "../topology/topology.ts";
import type { DeviceState } from "./device-state.ts";
import { replicaVectorGradients } from "./output-dist.ts";
import type { StepPlan } from "./step-plan.ts";

/** Bags of this device's own samples; undefined where nothing is copied. */
export function replicaBagsOf(device: DeviceState, rows: SampleRows): Bags | undefined {
  const { replicated, input } = device.topology;
  if (replicated.length === 0) return undefined;
  const idsMax = replicated.map(({ table }) => input.idsMax[table] ?? 0);
  const frame = device.replicaBags.frame(bagFrameBytes(rows.samples, replicated, idsMax));
  writeBagFrame(frame, rows, replicated, -1);
  return device.replicaBags.gather([{ ints: frame, samples: rows.samples }], replicated);
}

/** This device's share of the copies' gradients, subtree by subtree. */
export function backwardReplicas(
  device: DeviceState,
  rows: SampleRows,
  bags: Bags | undefined,
  plan: StepPlan,
): void {
  if (bags === undefined) return;
  const { kernels, replicas } = device;
  const dPooled = replicaVectorGradients(device, rows, plan);
  for (const [i, { dRows, counts }] of device.replicaGradients.entries()) {
    kernels.dRows(dRows, counts, replicas.rowsOf, i, bags, dPooled, plan.mine);
  }
}

/** The copies take their gradients. The table of which a row is not finite; undefined: none. */
export function applyReplicas(
  device: DeviceState,
  gradient: Tensor,
  rules: readonly RowRule[],
): string | undefined {
  const { kernels, replicas, topology } = device;
  let bad: string | undefined;
  for (const [i, { table, name }] of topology.replicated.entries()) {
    const rows = replicas.rowsOf[i];
    const rule = rules[i];
    const at = topology.replicatedAt[i];
    if (rows === undefined || rule === undefined || at === undefined) continue;
    const dRows = kernels.reshape(gradient, [rows.rows, rows.dim], at.gradient);
    const counts = kernels.reshape(gradient, [rows.rows], at.counts);
    const { l2Scope } = tableOf(topology.input.model.tables, table);
    const good = kernels.applyRows(rows, dRows, counts, rule, l2Scope === "table");
    if (!good) bad ??= `table \`${name}\``;
  }
  return bad;
}
