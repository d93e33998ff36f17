// Data-parallel tables: every device holds a copy and looks up its own samples in it (stage 4). The
// gradient is dense over the whole table: it is computed after the backward pass (stage 6), and
// all-reduced after the gradient of the dense layers, in the same vector (stage 8).

import { axisAt } from "../../data/sessions/ikjt.ts";
import {
  type BagMemory,
  bagFrameBytesOf,
  writeBagFrame,
} from "../../embedding/lookup/bag-frames.ts";
import type { SampleRows } from "../../embedding/lookup/sample-rows.ts";
import type { Slab } from "../../embedding/rows/slab.ts";
import { subtreeMaxOf } from "../../exchange/top-k-layout.ts";
import type { Bags, RowRule, Tensor } from "../../kernels/contract/kernels.ts";
import type { Read } from "../topology/fresh-and-stale.ts";
import { tableOf } from "../topology/topology.ts";
import { closeGaps } from "./axes.ts";
import { type PackingDevice, roundColumns } from "./group-vectors.ts";
import type { StepPlan } from "./step-plan.ts";
import { type GradientDevice, gradientAtPlaces } from "./vector-gradients.ts";

/** The part of a device that vectors of replicated shards need. */
export interface ReplicaVectorsDevice extends PackingDevice, GradientDevice {
  /** Rows of the data-parallel shards. */
  readonly replicas: Pick<Slab, "lookup">;
  /** (bmax, columns of the replicas): the vectors of the fresh read, then of the stale read. */
  readonly replicaVectors: Tensor;
}

/** The part of a device that replicated tables need. */
export interface ReplicasDevice extends ReplicaVectorsDevice {
  readonly replicas: Pick<
    Slab,
    "lookup" | "rowsOf" | "lookedUp" | "gradients" | "changing" | "isKept"
  >;
  readonly replicaBags: BagMemory;
  readonly replicaGradients: readonly ReplicaGradient[];
}

/** Finished subtrees of a replicated shard's gradient, in the memory of the dense gradient. */
export interface ReplicaGradient {
  /** (R,D) for each subtree. */
  readonly dRows: readonly Tensor[];
  /** (R) for each subtree: 1 where a sample looked the row up. */
  readonly counts: readonly Tensor[];
}

/** Bags of this device's own samples; undefined where no table is replicated. */
export function replicaBagsOf(
  device: ReplicasDevice,
  rows: SampleRows,
  plan: StepPlan,
): Bags | undefined {
  const { topology } = device;
  const { replicatedLookups: own } = topology;
  if (own.length === 0) return undefined;
  const groups = (rows.axes?.length ?? 1) - 1;
  const frame = device.replicaBags.frame(bagFrameBytesOf(rows, own));
  writeBagFrame(frame, rows, own, -1);
  const frames = [{ ints: frame, samples: rows.samples, bounds: plan.mine.bounds }];
  return device.replicaBags.gather(frames, own, [], groups);
}

/** Looks up the replicated shards of a read. */
export function lookupReplicas(
  device: ReplicaVectorsDevice,
  bags: Bags | undefined,
  plan: StepPlan,
  read: Read,
): void {
  if (bags === undefined || read.replicated.count === 0) return;
  const out = replicaVectorsOf(device, read, plan.samples);
  device.replicas.lookup(out, bags, 0, plan.samples, read.replicated, plan.average);
  for (const { column, columns, axis } of device.topology.replicatedLookups.filter(read.has)) {
    const at = column - read.replicated.column;
    if (axis > 0) closeGaps(device.kernels, out, at, columns, axisAt(plan.axes, axis));
    roundColumns(device, out, at, columns, "forward");
  }
}

/**
 * (b,C): memory for the vectors of a read's replicated shards. A lookup fills the first rows, one
 * for each row of its axis.
 */
export function replicaVectorsOf(
  device: ReplicaVectorsDevice,
  read: Read,
  samples: number,
): Tensor {
  const { column, columns } = read.replicated;
  return device.kernels.reshape(device.replicaVectors, [samples, columns], samples * column);
}

/** The gradients (b,C) of the replicated shards' vectors. */
function replicaVectorGradients(
  device: ReplicaVectorsDevice,
  rows: SampleRows,
  plan: StepPlan,
): Tensor {
  const { kernels, topology } = device;
  const out = kernels.part(device.replicaVectors, 0, plan.samples);
  for (const one of topology.replicatedLookups) {
    gradientAtPlaces(device, rows, plan, out, one, one.column);
    roundColumns(device, out, one.column, one.columns, "backward");
  }
  return out;
}

/** Computes this device's share of the replicated shards' gradients, subtree by subtree. */
export function backwardReplicas(
  device: ReplicasDevice,
  rows: SampleRows,
  bags: Bags | undefined,
  plan: StepPlan,
): void {
  if (bags === undefined) return;
  const dPooled = replicaVectorGradients(device, rows, plan);
  // Tables are not rounded, so that no grain cuts their subtrees.
  const slices = {
    ...plan.mine,
    most: subtreeMaxOf(device.topology.topK, device.topology.input.slices),
  };
  for (const [place, { dRows, counts }] of device.replicaGradients.entries()) {
    device.replicas.gradients(place, dRows, counts, bags, dPooled, slices);
  }
}

/** Updates the replicas. Returns a table with a row that is not finite; undefined: none. */
export function applyReplicas(
  device: ReplicasDevice,
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
    const isAll = l2Scope === "table";
    if (replicas.isKept) replicas.changing(i, changedRows(kernels.read(counts), isAll));
    const good = kernels.applyRows(rows, dRows, counts, rule, isAll);
    if (!good) bad ??= `table \`${name}\``;
  }
  return bad;
}

/** The rows that an update changes: those that a sample looked up, or all. */
function changedRows(counts: Float32Array, isAll: boolean): Int32Array {
  const rows = Int32Array.from(counts.keys());
  return isAll ? rows : rows.filter((row) => counts[row] !== 0);
}
