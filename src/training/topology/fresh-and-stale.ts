// When each table is read: fresh, or before the previous step's update. Rows of most tables are
// read as the previous step left them. Two kinds of tables are read before that step is applied, so
// that they are sent while it computes: those with `staleness: 1`, whose rows are one update late,
// and those that are read ahead (`pipeline.ahead`), whose bags are sent again where the update
// changes a row of theirs. The first step of a window has no previous step: there all tables are
// read together. The two reads happen at different times, so each has channels of its own; those of
// the early read are named after its first kind, stale tables.

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
  /** Of stale tables, and of tables that are read ahead. */
  readonly stale: Read;
  /** The tables that are read ahead: a part of `stale`. */
  readonly ahead: Omit<Read, "vectors" | "partials" | "rows">;
  /** Whether any table is stale; whether any is read ahead. */
  readonly isStale: boolean;
  readonly isAhead: boolean;
}

/** The reads of a job. In each list shards are ordered by their read (`freshFirst`). */
export function readsOf(options: {
  readonly tables: readonly TableSpec[];
  /** By table (ahead-tables.ts). */
  readonly aheadTables: readonly boolean[];
  readonly heldBy: readonly (readonly HeldLookup[])[];
  readonly shardGroups: ShardGroups;
  readonly distinct: readonly HeldLookup[];
  readonly replicated: readonly HeldLookup[];
}): Reads {
  const { tables, aheadTables, heldBy, shardGroups, distinct, replicated } = options;
  const isStaleTable = tables.map(({ staleness }) => staleness > 0);
  const readOf = (isRead: (table: number) => boolean): Reads["ahead"] => {
    const has = ({ table }: Pick<HeldLookup, "table">) => isRead(table);
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
  const isAhead = (table: number) => aheadTables[table] === true;
  const isEarly = (table: number) => isStaleTable[table] === true || isAhead(table);
  const fresh = readOf((table) => !isEarly(table));
  return {
    fresh: { vectors: "pooled", partials: "partials", rows: "rows", ...fresh },
    stale: {
      vectors: "stalePooled",
      partials: "stalePartials",
      rows: "staleRows",
      ...readOf(isEarly),
    },
    ahead: readOf(isAhead),
    isStale: isStaleTable.includes(true),
    isAhead: aheadTables.includes(true),
  };
}

/**
 * Whether a device that has received the early read of a step sends that of the next step at once.
 * It sends nothing else before, so the release of the inbox must wake the bridge.
 */
export function isReadNext(
  { isAhead, isStale }: Reads,
  { isTraining }: { readonly isTraining: boolean },
): boolean {
  return isTraining && isAhead && !isStale;
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

/** The same shards: of fresh tables, then of tables that are read ahead, then of stale ones. */
export function freshFirst<S extends Pick<HeldLookup, "table">>(
  tables: readonly TableSpec[],
  aheadTables: readonly boolean[],
  shards: readonly S[],
): S[] {
  const kindOf = ({ table }: S) =>
    (tables[table]?.staleness ?? 0) > 0 ? 2 : aheadTables[table] === true ? 1 : 0;
  return [0, 1, 2].flatMap((kind) => shards.filter((shard) => kindOf(shard) === kind));
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
