// The lookups of a model as a process that is alone makes them: which vectors lie side by side, and
// where they go in the model's graph.
//
// A run is a row of consecutive lookups whose vectors have consecutive columns of one node: they
// are pooled, or copied, as one. Vectors of a table with row blocks are folded first, one by one.

import { wideOf } from "../data/text/columns.ts";
import type { BagTable } from "../embedding/lookup/sample-rows.ts";
import { poolingOf } from "../embedding/rows/slab.ts";
import type { Pooling } from "../kernels/contract/kernels.ts";
import { featuresOf, lookupsOf } from "../model/features.ts";
import type { Graph } from "../model/graph/graph.ts";
import type { ModelSpec } from "../model/options.ts";

/** One lookup of a sample. */
export interface ServedLookup {
  /** Index among the lookups of the model. */
  readonly lookup: number;
  readonly feature: number;
  readonly table: number;
  /** Of the table's vectors. */
  readonly dim: number;
  /** How the kernel pools; with row blocks it sums, and the fold takes the mean. */
  readonly pooling: Pooling;
  readonly isMean: boolean;
  readonly rowBlocks: number;
  readonly isWeighted: boolean;
  /** Where its vector goes: a node, and its first column there. */
  readonly node: number;
  readonly column: number;
}

/** All lookups of a model, and the tables that the ids of its features are checked against. */
export interface ServedLookups {
  readonly lookups: readonly ServedLookup[];
  /** By feature. */
  readonly bagTables: readonly BagTable[];
  readonly isWide: boolean;
}

/** Lookups side by side that go to consecutive columns of a node. */
export interface LookupRun {
  readonly node: number;
  /** The first column of the node. */
  readonly column: number;
  readonly columns: number;
  /** Index of the first lookup in its set, and their number. */
  readonly first: number;
  readonly count: number;
  /** The first column of its vectors, where those of the set lie side by side. */
  readonly from: number;
  /** Whether the row blocks of its one lookup are to be folded. */
  readonly isFolded: boolean;
}

/** Lookups that are made together, in the order of the model. */
export interface LookupSet {
  readonly lookups: readonly ServedLookup[];
  readonly runs: readonly LookupRun[];
  /** Columns of all their vectors side by side. */
  readonly columns: number;
}

/** `weighted`: of each feature, whether its ids have weights. */
export function servedLookups(
  model: ModelSpec,
  graph: Graph,
  weighted: readonly boolean[],
): ServedLookups {
  const features = featuresOf(model);
  const lookups = lookupsOf(features).map(({ feature, table, pooling }, lookup): ServedLookup => {
    const { dim, rowBlocks } = tableAt(model, table);
    const { node = -1, column = -1 } = graph.places[lookup] ?? {};
    return {
      ...{ lookup, feature, table, dim, node, column, rowBlocks },
      pooling: poolingOf(pooling, rowBlocks),
      isMean: pooling === "mean",
      isWeighted: weighted[feature] === true,
    };
  });
  const bagTables = features.map(({ table, pooling, positions, kept }, i): BagTable => {
    const of = { ...tableAt(model, table), isWeighted: weighted[i] === true };
    return pooling === "none" ? { ...of, positions, kept } : of;
  });
  return { lookups, bagTables, isWide: wideOf(bagTables).includes(true) };
}

/** The set of some lookups of a model, in their order. */
export function lookupSet(lookups: readonly ServedLookup[]): LookupSet {
  const runs: LookupRun[] = [];
  let columns = 0;
  for (const [i, { node, column, dim, rowBlocks }] of lookups.entries()) {
    const last = runs.at(-1);
    const isFolded = rowBlocks > 1;
    const isNext =
      !isFolded &&
      last !== undefined &&
      !last.isFolded &&
      last.node === node &&
      last.column + last.columns === column;
    if (isNext) {
      runs[runs.length - 1] = { ...last, columns: last.columns + dim, count: last.count + 1 };
    } else {
      runs.push({ node, column, columns: dim, first: i, count: 1, from: columns, isFolded });
    }
    columns += dim;
  }
  return { lookups, runs, columns };
}

function tableAt({ tables }: ModelSpec, table: number) {
  const spec = tables[table];
  if (spec === undefined) throw new RangeError(`The model has no table ${table}`);
  return spec;
}
