// The lookups of a model in a serving process, without other devices: which vectors are adjacent,
// and their destinations in the model's graph.
//
// A run is a sequence of lookups with vectors in consecutive columns of one node: one kernel call
// pools or copies the whole run. Vectors of a table with row blocks are folded first, one at a
// time.

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
  /** Width of the table's vectors. */
  readonly dim: number;
  /** Pooling in the kernel; with row blocks always `sum`: the fold then divides for the mean. */
  readonly pooling: Pooling;
  readonly isMean: boolean;
  readonly rowBlocks: number;
  readonly isWeighted: boolean;
  /** Destination of the vector: a node, and the first column in it. */
  readonly node: number;
  readonly column: number;
}

/** All lookups of a model, and the tables that its features' ids are checked against. */
export interface ServedLookups {
  readonly lookups: readonly ServedLookup[];
  /** By feature. */
  readonly bagTables: readonly BagTable[];
  readonly isWide: boolean;
}

/** Lookups with vectors in consecutive columns of a node. */
export interface LookupRun {
  readonly node: number;
  /** The first column of the node. */
  readonly column: number;
  readonly columns: number;
  /** Index of the first lookup in its set, and their number. */
  readonly first: number;
  readonly count: number;
  /** The first column of the run's vectors in the set's concatenated vectors. */
  readonly from: number;
  /** Whether the run is one lookup in a table with row blocks, which must be folded. */
  readonly isFolded: boolean;
}

/** Lookups that one call makes together, in the order of the model. */
export interface LookupSet {
  readonly lookups: readonly ServedLookup[];
  readonly runs: readonly LookupRun[];
  /** Columns of all vectors of the set. */
  readonly columns: number;
}

/** Collects the lookups of a model. `weighted`: for each feature, whether its ids have weights. */
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

/** Makes a set from lookups of a model, given in model order. */
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
