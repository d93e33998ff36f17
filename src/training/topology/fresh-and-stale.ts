// When each table is read: fresh, or one update late. Rows of most tables are read as the previous
// step left them. Rows of tables with `staleness: 1` are read before the previous step is applied,
// so that they are sent while that step computes. The first step of a window has no previous step:
// there stale tables are read with the fresh ones. Fresh and stale rows are sent at different
// times, so each read has channels of its own.

import type { TableSpec } from "../../embedding/tables/options.ts";
import type { HeldLookup } from "./held-shard.ts";
import type { SendList, ShardGroups, VectorRoutes } from "./shard-groups.ts";

/** A contiguous range of lookups in a list; the lookups may have several axes. */
export interface LookupRange {
  readonly first: number;
  readonly count: number;
  /** First column of the range, and its number of columns. */
  readonly column: number;
  readonly columns: number;
  /** The parts of the range with one axis each, in order. */
  readonly blocks: readonly AxisBlock[];
}

/**
 * A range of lookups with one bag per row of the same axis: samples, or distinct lists of one
 * group.
 */
export interface AxisBlock extends Omit<LookupRange, "blocks"> {
  readonly axis: number;
}

/** The tables that are read and sent at one time, with the routes of their shard groups. */
export interface Read extends VectorRoutes {
  /** Channels of the read: of pooled vectors, of their parts inside a host, of distinct rows. */
  readonly vectors: "pooled" | "stalePooled";
  readonly partials: "partials" | "stalePartials";
  readonly rows: "rows" | "staleRows";
  has(one: Pick<HeldLookup, "table">): boolean;
  /** For each device, the lookups of this read among the lookups that the device pools. */
  readonly held: readonly LookupRange[];
  /** The lookups of this read among those in replicated shards. */
  readonly replicated: LookupRange;
  /** Whether any device has pooled vectors to send; whether any has distinct rows. */
  readonly hasVectors: boolean;
  readonly hasRows: boolean;
}

export interface Reads {
  readonly fresh: Read;
  readonly stale: Read;
  /** Whether any table is stale. */
  readonly isStale: boolean;
}

/** The two reads of a job. In each list stale shards come after fresh ones (`staleLast`). */
export function readsOf(options: {
  readonly tables: readonly TableSpec[];
  readonly heldBy: readonly (readonly HeldLookup[])[];
  readonly shardGroups: ShardGroups;
  readonly distinct: readonly HeldLookup[];
  readonly replicated: readonly HeldLookup[];
}): Reads {
  const { tables, heldBy, shardGroups, distinct, replicated } = options;
  const isStaleTable = tables.map(({ staleness }) => staleness > 0);
  const readOf = (isStale: boolean): Omit<Read, "vectors" | "partials" | "rows"> => {
    const has = ({ table }: Pick<HeldLookup, "table">) => isStaleTable[table] === isStale;
    const held = heldBy.map((shards) => stretchOf(shards, has));
    return {
      has,
      held,
      ...routesOf(shardGroups, has),
      replicated: stretchOf(replicated, has),
      hasVectors: held.some(({ columns }) => columns > 0),
      hasRows: distinct.some(has),
    };
  };
  return {
    fresh: { vectors: "pooled", partials: "partials", rows: "rows", ...readOf(false) },
    stale: {
      vectors: "stalePooled",
      partials: "stalePartials",
      rows: "staleRows",
      ...readOf(true),
    },
    isStale: isStaleTable.includes(true),
  };
}

/** Returns the range of a device's lookups that belongs to a read. */
export function rangeOf(read: Read, device: number): LookupRange {
  const range = read.held[device];
  if (range === undefined) throw new RangeError(`The topology has no device ${device}`);
  return range;
}

/** The routes of the selected shard groups. */
function routesOf(
  { hostOf, places, hostSumsOf, inside, across }: ShardGroups,
  has: (shard: Pick<HeldLookup, "table">) => boolean,
): VectorRoutes {
  const keep = ({ own, hostSums }: SendList): SendList => {
    return { own: own.filter(has), hostSums: hostSums.filter(has) };
  };
  return {
    hostOf,
    places,
    hostSumsOf: hostSumsOf.map((hostSums) => hostSums.filter(has)),
    inside: inside.map(keep),
    across: across.map((byPlace) => byPlace.map(keep)),
  };
}

/** The same shards, with shards of stale tables last. */
export function staleLast<S extends Pick<HeldLookup, "table">>(
  tables: readonly TableSpec[],
  shards: readonly S[],
): S[] {
  const isStale = ({ table }: S) => (tables[table]?.staleness ?? 0) > 0;
  return [...shards.filter((shard) => !isStale(shard)), ...shards.filter(isStale)];
}

/** The range of `lookups` that `has` selects; the selected lookups must be contiguous. */
function stretchOf(lookups: readonly HeldLookup[], has: (one: HeldLookup) => boolean): LookupRange {
  const own = lookups.filter(has);
  const [first] = own;
  if (first === undefined) return { first: 0, count: 0, column: 0, columns: 0, blocks: [] };
  const columns = own.reduce((sum, one) => sum + one.columns, 0);
  const begin = lookups.indexOf(first);
  const range = { first: begin, count: own.length, column: first.column, columns };
  return { ...range, blocks: axisBlocksOf(own, begin) };
}

/** Splits lookups into ranges of one axis; the first lookup has index `begin` in its list. */
export function axisBlocksOf(lookups: readonly HeldLookup[], begin = 0): AxisBlock[] {
  const blocks: { -readonly [Name in keyof AxisBlock]: AxisBlock[Name] }[] = [];
  for (const [i, { axis, column, columns }] of lookups.entries()) {
    const last = blocks.at(-1);
    if (last?.axis === axis) {
      last.count++;
      last.columns += columns;
    } else {
      blocks.push({ axis, first: begin + i, count: 1, column, columns });
    }
  }
  return blocks;
}
