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
import type { Topology } from "../topology/topology.ts";
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
  if (rowSumRounds(topology, kind) === 0) return undefined;
  let means: WholeRows = new Map();
  if (takesMean(kind)) {
    const squares: SumsOf<Float32Array> = (own, of) =>
      own.slab.squares(of, own.bags, own.dPooled, own.slices, own.rules);
    const round = { Sums: Float32Array, each: 1, sumsOf: squares, complete: kernels.rowMeans };
    means = await share(device, updates, plan, round);
  }
  let trust: WholeRows = new Map();
  if (takesTrust(kind)) {
    const norms: SumsOf<Float64Array> = (own, of) => {
      const shards = own.slab.shards.slice(of.first, of.first + of.count);
      const known = shards.map(({ shard }) => means.get(shard) ?? new Float32Array(0));
      const given = takesMean(kind) ? known : undefined;
      return own.slab.norms(of, own.bags, own.dPooled, own.slices, own.rules, given);
    };
    const round = { Sums: Float64Array, each: 2, sumsOf: norms, complete: kernels.rowTrust };
    trust = await share(device, updates, plan, round);
  }
  return new Map(
    [...means.keys(), ...trust.keys()].map((shard) => {
      return [shard, { means: means.get(shard), trust: trust.get(shard) }];
    }),
  );
}

/** Rounds of the exchange in a step: the same on all devices of a generation. */
export function rowSumRounds(
  { columnGroups }: Pick<Topology, "columnGroups">,
  kind: SparseOptimizerSpec["kind"],
): number {
  return columnGroups.length === 0 ? 0 : Number(takesMean(kind)) + Number(takesTrust(kind));
}

/** A range of the shards of a slab. */
interface ShardRange {
  readonly first: number;
  readonly count: number;
}

/** The sums of each shard of a range: (n, quanta) floats, or (n, quanta, 2). */
type SumsOf<S> = (own: RowUpdate, of: ShardRange) => readonly S[];

/** Whole-row values (n) of all parts of rows, as `rowMeans` computes them. */
type Complete<S> = (parts: readonly S[], quanta: readonly number[], dim: number) => Float32Array;

/** Whole-row values by shard index. */
type WholeRows = ReadonlyMap<number, Float32Array>;

/** What a round sends: `each` numbers for every quantum of a row. */
interface Round<S> {
  readonly Sums: SumsArray<S>;
  readonly each: number;
  readonly sumsOf: SumsOf<S>;
  readonly complete: Complete<S>;
}

/** Groups whose sums lie one after the other: they are completed in one call. */
interface GroupRun<S> {
  readonly groups: { readonly group: ColumnGroup; readonly rows: number }[];
  readonly quanta: readonly number[];
  readonly dim: number;
  /** The first group's sums of each part, and the length of all. */
  readonly parts: readonly S[];
  readonly lengths: number[];
}

/** The array type of sums, over its own memory or that of the exchange. */
interface SumsArray<S> {
  new (length: number): S;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): S;
}

/**
 * One round: sends the sums of this device's parts of rows, and completes them when those of the
 * other devices are there.
 */
async function share<S extends Float32Array | Float64Array>(
  device: RowSumsDevice,
  updates: readonly RowUpdate[],
  plan: StepPlan,
  { Sums, each, sumsOf, complete }: Round<S>,
): Promise<WholeRows> {
  const { rank, topology } = device;
  const { rowSums } = device.frames;
  const groups = topology.columnGroups.filter((group) => isIn(group, rank));
  const sums = ownSums(groups, updates, sumsOf);
  await rowSums.open(plan.bytes.rowSums);
  const bytes = plan.counts.map(() => 0);
  const sent = groups.map((group) => {
    const own = group.filter((one) => one.device === rank);
    const peers = [...new Set(group.map((one) => one.device))].filter((one) => one !== rank);
    const all = own.reduce((sum, { shard }) => sum + (sums.get(shard)?.byteLength ?? 0), 0);
    for (const peer of peers) if (typeof peer === "number") bytes[peer] = (bytes[peer] ?? 0) + all;
    return { own, peers };
  });
  const places = bytes.map((most, peer) => {
    return peer === rank ? undefined : rowSums.outbox(peer, most);
  });
  const used = plan.counts.map(() => 0);
  for (const { own, peers } of sent) {
    for (const peer of peers) {
      const place = typeof peer === "number" ? places[peer] : undefined;
      if (place === undefined || typeof peer !== "number") continue;
      for (const { shard } of own) {
        const part = sums.get(shard) ?? new Sums(0);
        const at = used[peer] ?? 0;
        new Sums(place.buffer, place.byteOffset + at, part.length).set(part);
        used[peer] = at + part.byteLength;
      }
    }
  }
  rowSums.start((peer) => used[peer] ?? 0);
  const frames = await rowSums.finish();
  const next = frames.map(({ byteOffset }) => byteOffset);
  const runs: GroupRun<S>[] = [];
  for (const group of groups) {
    // This device's part has the same rows, and so gives the number of rows.
    const here = group.find((one) => one.device === rank);
    const like = sums.get(here?.shard ?? -1)?.length ?? 0;
    const quanta = group.map(({ columns }) => quantaOf(columns));
    const rows = like / (each * quantaOf(here?.columns ?? 1));
    const parts = group.map(({ shard, device: peer }, i) => {
      const frame = typeof peer === "number" ? frames[peer] : undefined;
      if (peer === rank || typeof peer !== "number" || frame === undefined) {
        return sums.get(shard) ?? new Sums(0);
      }
      const theirs = new Sums(frame.buffer, next[peer] ?? 0, rows * each * (quanta[i] ?? 0));
      next[peer] = (next[peer] ?? 0) + theirs.byteLength;
      return theirs;
    });
    const own = { group, rows };
    const [dim, last] = [dimOf(group), runs.at(-1)];
    if (last !== undefined && last.dim === dim && isNext(last, parts, quanta)) {
      last.groups.push(own);
      for (const [i, { length }] of parts.entries())
        last.lengths[i] = (last.lengths[i] ?? 0) + length;
    } else {
      runs.push({ groups: [own], quanta, dim, parts, lengths: parts.map(({ length }) => length) });
    }
  }
  const whole = completeRuns(runs, Sums, complete);
  rowSums.close(true); // Some optimizers need a second round at once.
  return whole;
}

/** Completes the sums of each run, and divides the values among its groups. */
function completeRuns<S extends Float32Array | Float64Array>(
  runs: readonly GroupRun<S>[],
  Sums: SumsArray<S>,
  complete: Complete<S>,
): WholeRows {
  const whole = new Map<number, Float32Array>();
  for (const { groups, quanta, dim, parts, lengths } of runs) {
    const all = parts.map(({ buffer, byteOffset }, i) => {
      return new Sums(buffer, byteOffset, lengths[i] ?? 0);
    });
    const values = complete(all, quanta, dim);
    let end = 0;
    for (const { group, rows } of groups) {
      const own = values.subarray(end, end + rows);
      for (const { shard } of group) whole.set(shard, own);
      end += rows;
    }
  }
  return whole;
}

/** Whether the parts of a group begin where those of the groups in the run end. */
function isNext<S extends Float32Array | Float64Array>(
  run: GroupRun<S>,
  parts: readonly S[],
  quanta: readonly number[],
): boolean {
  return (
    parts.length === run.parts.length &&
    parts.every((part, i) => {
      const { buffer, byteOffset = 0, BYTES_PER_ELEMENT = 0 } = run.parts[i] ?? {};
      const end = byteOffset + BYTES_PER_ELEMENT * (run.lengths[i] ?? 0);
      return part.buffer === buffer && part.byteOffset === end && quanta[i] === run.quanta[i];
    })
  );
}

/** The sums of this device's shards in groups: one call for each range of such shards of a slab. */
function ownSums<S>(
  groups: readonly ColumnGroup[],
  updates: readonly RowUpdate[],
  sumsOf: SumsOf<S>,
): Map<number, S> {
  const inGroups = new Set(groups.flatMap((group) => group.map(({ shard }) => shard)));
  const sums = new Map<number, S>();
  for (const own of updates) {
    const { shards } = own.slab;
    for (let first = 0; first < shards.length; first++) {
      let end = first;
      while (inGroups.has(shards[end]?.shard ?? -1)) end++;
      if (end === first) continue;
      for (const [i, sum] of sumsOf(own, { first, count: end - first }).entries()) {
        sums.set(shards[first + i]?.shard ?? -1, sum);
      }
      first = end;
    }
  }
  return sums;
}

function isIn(group: ColumnGroup, device: number): boolean {
  return group.some((shard) => shard.device === device);
}

/** Columns of the group's whole rows. */
function dimOf(group: ColumnGroup): number {
  const last = group.at(-1);
  return (last?.firstColumn ?? 0) + (last?.columns ?? 0);
}
