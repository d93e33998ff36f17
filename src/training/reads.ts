// What a step reads when. Rows of most tables are read as the step before left them. Those of
// tables with `staleness: 1` are read before the step before is applied, so that they travel while
// it computes; only where there is no step before (the first of a window) are they read with the
// rest. The two travel at different times, and so on channels of their own.

import type { TableSpec } from "../embedding/options.ts";
import type { Bundle, HeldShard } from "./topology.ts";

/** Shards of one list that lie side by side. */
export interface ShardRange {
  readonly first: number;
  readonly count: number;
  /** First column, and columns, of all of them. */
  readonly column: number;
  readonly columns: number;
}

/** What is read, and sent, at one time. */
export interface Read {
  /** Where its pooled vectors travel, and where its distinct rows. */
  readonly vectors: "pooled" | "stalePooled";
  readonly rows: "rows" | "staleRows";
  has(shard: Pick<HeldShard, "table">): boolean;
  /** For each device, which of the shards that it pools; and these as they travel. */
  readonly held: readonly ShardRange[];
  readonly bundlesOf: readonly (readonly Bundle[])[];
  /** Which of the shards that every device holds a copy of. */
  readonly replicated: ShardRange;
  /** Whether any device has vectors, and distinct rows, to send. */
  readonly hasVectors: boolean;
  readonly hasRows: boolean;
}

export interface Reads {
  readonly fresh: Read;
  readonly stale: Read;
  /** Whether any table is stale. */
  readonly isStale: boolean;
}

/** The two reads of a job. Stale shards lie behind the fresh ones (`staleLast`). */
export function readsOf(options: {
  readonly tables: readonly TableSpec[];
  readonly heldBy: readonly (readonly HeldShard[])[];
  readonly bundlesOf: readonly (readonly Bundle[])[];
  readonly distinct: readonly HeldShard[];
  readonly replicated: readonly HeldShard[];
}): Reads {
  const { tables, heldBy, bundlesOf, distinct, replicated } = options;
  const isStaleTable = tables.map(({ staleness }) => staleness > 0);
  const readOf = (isStale: boolean): Omit<Read, "vectors" | "rows"> => {
    const has = ({ table }: Pick<HeldShard, "table">) => isStaleTable[table] === isStale;
    const held = heldBy.map((shards) => rangeOf(shards, has));
    return {
      has,
      held,
      bundlesOf: bundlesOf.map((bundles) => bundles.filter(has)),
      replicated: rangeOf(replicated, has),
      hasVectors: held.some(({ columns }) => columns > 0),
      hasRows: distinct.some(has),
    };
  };
  return {
    fresh: { vectors: "pooled", rows: "rows", ...readOf(false) },
    stale: { vectors: "stalePooled", rows: "staleRows", ...readOf(true) },
    isStale: isStaleTable.includes(true),
  };
}

/** The same shards, those of stale tables behind the others. */
export function staleLast<S extends Pick<HeldShard, "table">>(
  tables: readonly TableSpec[],
  shards: readonly S[],
): S[] {
  const isStale = ({ table }: S) => (tables[table]?.staleness ?? 0) > 0;
  return [...shards.filter((shard) => !isStale(shard)), ...shards.filter(isStale)];
}

/** The stretch of `shards` that `has` is true of. */
function rangeOf(shards: readonly HeldShard[], has: (shard: HeldShard) => boolean): ShardRange {
  const own = shards.filter(has);
  const [first] = own;
  if (first === undefined) return { first: 0, count: 0, column: 0, columns: 0 };
  const columns = own.reduce((sum, shard) => sum + shard.columns, 0);
  return { first: shards.indexOf(first), count: own.length, column: first.column, columns };
}
