// Stage 7 of a step, for rows that are split by columns over devices, with an optimizer that needs
// a sum over the whole row. Each device sends the others the sums of its quanta, and all devices
// add them up in the order of the columns, as an update of the whole row does
// (docs/architecture.md, "How law 4 is kept").
//
// n = distinct rows of a shard in the batch: the same for all shards that have parts of these rows.

import { quantaOf, type Slab } from "../../embedding/rows/slab.ts";
import type { StagedBags } from "../../embedding/rows/staging.ts";
import type { SparseOptimizerSpec } from "../../embedding/tables/options.ts";
import {
  type Kernels,
  type RowRule,
  type RowSums,
  type Tensor,
  takesMean,
  takesTrust,
} from "../../kernels/contract/kernels.ts";
import type { Slices } from "../../kernels/contract/slices.ts";
import type { HeldShard } from "../topology/held-shard.ts";
import type { StageDevice } from "./stage-device.ts";
import type { StepPlan } from "./step-plan.ts";

/** The part of a device that the exchange of row sums needs. */
export interface RowSumsDevice extends StageDevice<never, "rowSums"> {
  readonly kernels: Pick<Kernels, "rowMeans" | "rowTrust">;
  readonly recipe: { readonly optimizer: { readonly sparse: Pick<SparseOptimizerSpec, "kind"> } };
}

/** Shards with different columns of the same rows, left to right. */
type ColumnGroup = readonly HeldShard[];

/** The gradients of a slab's rows. */
export interface RowGradients {
  readonly slab: Slab;
  readonly bags: StagedBags;
  /** (B,C): gradients of the pooled vectors of the samples of `bags`. */
  readonly dPooled: Tensor;
  readonly slices: Slices;
}

/** Gradients, and the optimizer rules that apply them to the rows. */
export interface RowUpdate extends RowGradients {
  readonly rules: readonly RowRule[];
}

/**
 * Exchanges row sums, and returns the sums over whole rows by shard index; undefined if no rule
 * needs them. Either every device of the generation takes part in the exchange, or none does.
 */
export async function completeRows(
  device: RowSumsDevice,
  updates: readonly RowUpdate[],
  plan: StepPlan,
): Promise<ReadonlyMap<number, RowSums> | undefined> {
  const { kernels, recipe, topology } = device;
  const { kind } = recipe.optimizer.sparse;
  if (topology.columnGroups.length === 0 || !(takesMean(kind) || takesTrust(kind))) {
    return undefined;
  }
  const means = new Map<number, Float32Array>();
  if (takesMean(kind)) {
    const squares = await share(device, updates, plan, Float32Array, (own, at) =>
      own.slab.squares(at, own.bags, own.dPooled, own.slices, own.rules),
    );
    for (const { group, parts, quanta } of squares) {
      const whole = kernels.rowMeans(parts, quanta, dimOf(group));
      for (const { shard } of group) means.set(shard, whole);
    }
  }
  const trust = new Map<number, Float32Array>();
  if (takesTrust(kind)) {
    const norms = await share(device, updates, plan, Float64Array, (own, at, shard) =>
      own.slab.norms(at, own.bags, own.dPooled, own.slices, own.rules, means.get(shard)),
    );
    for (const { group, parts, quanta } of norms) {
      const whole = kernels.rowTrust(parts, quanta);
      for (const { shard } of group) trust.set(shard, whole);
    }
  }
  return new Map(
    [...means.keys(), ...trust.keys()].map((shard) => {
      return [shard, { means: means.get(shard), trust: trust.get(shard) }];
    }),
  );
}

/** The sums of all parts of a group's rows: each part (n, quanta) floats, or (n, quanta, 2). */
interface SharedSums<S> {
  readonly group: ColumnGroup;
  readonly parts: readonly S[];
  readonly quanta: readonly number[];
}

/** The array type of sums, over its own memory or that of the exchange. */
interface SumsArray<S> {
  new (length: number): S;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): S;
}

/** One round: sends the sums of this device's parts of rows and receives the other devices'. */
async function share<S extends Float32Array | Float64Array>(
  device: RowSumsDevice,
  updates: readonly RowUpdate[],
  plan: StepPlan,
  Sums: SumsArray<S>,
  sumsAt: (own: RowUpdate, at: number, shard: number) => S,
): Promise<SharedSums<S>[]> {
  const { rank, topology } = device;
  const { rowSums } = device.frames;
  const groups = topology.columnGroups.filter((group) => isIn(group, rank));
  const inGroups = new Set(groups.flatMap((group) => group.map(({ shard }) => shard)));
  const sums = new Map<number, S>();
  for (const own of updates) {
    for (const [at, { shard }] of own.slab.shards.entries()) {
      if (inGroups.has(shard)) sums.set(shard, sumsAt(own, at, shard));
    }
  }
  await rowSums.open(plan.bytes.rowSums);
  const used = plan.counts.map((_, peer) => {
    if (peer === rank) return 0;
    const parts = groups
      .filter((one) => isIn(one, peer))
      .flatMap((group) => group.filter((one) => one.device === rank))
      .map(({ shard }) => sums.get(shard) ?? new Sums(0));
    const bytes = parts.reduce((sum, own) => sum + own.byteLength, 0);
    const { buffer, byteOffset } = rowSums.outbox(peer, bytes);
    let at = byteOffset;
    for (const own of parts) {
      new Sums(buffer, at, own.length).set(own);
      at += own.byteLength;
    }
    return bytes;
  });
  rowSums.start((peer) => used[peer] ?? 0);
  const frames = await rowSums.finish();
  for (const [peer, { buffer, byteOffset }] of frames.entries()) {
    let at = byteOffset;
    for (const group of groups) {
      // This device's part has the same rows, and so gives the number of rows.
      const here = group.find((one) => one.device === rank);
      const like = sums.get(here?.shard ?? -1) ?? new Sums(0);
      for (const { shard, columns } of group.filter((one) => one.device === peer)) {
        if (peer === rank) continue;
        const length = (like.length / quantaOf(here?.columns ?? 1)) * quantaOf(columns);
        const theirs = new Sums(length);
        theirs.set(new Sums(buffer, at, length));
        sums.set(shard, theirs);
        at += theirs.byteLength;
      }
    }
  }
  rowSums.close();
  return groups.map((group) => ({
    group,
    parts: group.map(({ shard }) => sums.get(shard) ?? new Sums(0)),
    quanta: group.map(({ columns }) => quantaOf(columns)),
  }));
}

function isIn(group: ColumnGroup, device: number): boolean {
  return group.some((shard) => shard.device === device);
}

/** Columns of the group's whole rows. */
function dimOf(group: ColumnGroup): number {
  const last = group.at(-1);
  return (last?.firstColumn ?? 0) + (last?.columns ?? 0);
}
