// Shard groups: what devices have of a table's columns, and which way their vectors go. To devices
// of the same host each shard group goes by itself. To other hosts the shard groups of a host go as
// their sums, by way of one of its devices, the aggregator (table-row-wise: Neo, Mudigere et al.,
// arXiv 2104.05158). Gradients come back the same way.
//
//   host 0, whose devices have rows of the same columns        host 1
//
//   device 0 ── partials ──▶ device 1 ────── pooled ─────────▶ device 3
//   device 0 ◀─ dPartials ── device 1 ◀───── dPooled ───────── device 3

import type { TableSpec } from "../../embedding/tables/options.ts";
import { type Precision, packedBytes } from "../../kernels/contract/precision.ts";
import { type Subtree, subtreesOf } from "../../kernels/contract/slices.ts";
import type { HeldShard } from "./held-shard.ts";

/** Some columns of one table. */
interface Columns {
  readonly table: number;
  readonly firstColumn: number;
  readonly columns: number;
}

/** What one device has of a table's columns: the shards whose vectors travel as one. */
export interface ShardGroup extends Columns {
  /** Its place among all shard groups and host sums of the job, shard groups of copies too. */
  readonly shardGroup: number;
  /** By rows. */
  readonly shards: readonly HeldShard[];
  /** The finished subtrees of their blocks: a vector of `columns` each. */
  readonly trees: readonly Subtree[];
}

/** The shard groups that several devices of one host have of the same columns, added up. */
export interface HostSum extends ShardGroup {
  /** Those devices, ascending: each is the aggregator for some devices of other hosts. */
  readonly devices: readonly number[];
  readonly parts: ReadonlyMap<number, ShardGroup>;
}

/** What one device sends another of pooled vectors, and takes back of their gradients. */
export interface SendList {
  /** Shard groups of the sender. */
  readonly own: readonly ShardGroup[];
  /** Behind them what it adds up as an aggregator. */
  readonly hostSums: readonly HostSum[];
}

/** Columns of a table with row blocks, whose tree the samples' side adds up. */
export interface FoldedColumns {
  readonly firstColumn: number;
  readonly columns: number;
  /** The shard groups that have them, and where they begin in each. */
  readonly parts: readonly { readonly shardGroup: ShardGroup; readonly first: number }[];
}

/** Which way shard groups go. */
export interface VectorRoutes {
  /** For each host its host sums; none where it is alone. */
  readonly hostSumsOf: readonly (readonly HostSum[])[];
  /** [from][to] */
  readonly sendLists: readonly (readonly SendList[])[];
}

/** The shard groups of a job, and their ways. */
export interface ShardGroups extends VectorRoutes {
  /** For each device those that it pools. */
  readonly shardGroupsOf: readonly (readonly ShardGroup[])[];
  readonly distinctGroups: readonly ShardGroup[];
  readonly replicatedGroups: readonly ShardGroup[];
  /**
   * Whether each shard of a device is a shard group, and none is added up on a host: it pools what
   * travels.
   */
  readonly isPlain: readonly boolean[];
  /** For each device its place on its host. */
  readonly places: readonly number[];
  /** For each host, as its devices get them: tables with row blocks, in runs cut nowhere. */
  readonly foldedOn: readonly ReadonlyMap<number, readonly FoldedColumns[]>[];
}

/** `hostOf`: the host of each device; those of one host are a run. */
export function shardGroupsIn(
  tables: readonly TableSpec[],
  hostOf: readonly number[],
  held: {
    readonly heldBy: readonly (readonly HeldShard[])[];
    readonly distinctBy: readonly (readonly HeldShard[])[];
    readonly replicated: readonly HeldShard[];
  },
): ShardGroups {
  let shardGroups = 0;
  const groupedIn = (own: readonly HeldShard[]): ShardGroup[] =>
    groupsOf(own, (shard) => shard).map((shards) => shardGroupOf(shardGroups++, shards));
  const shardGroupsOf = held.heldBy.map(groupedIn);
  const replicatedGroups = groupedIn(held.replicated);
  const distinctGroups = held.distinctBy.flatMap(groupedIn);
  const hosts = Array.from({ length: Math.max(...hostOf) + 1 }, (_, host) =>
    hostOf.flatMap((of, device) => (of === host ? device : [])),
  );
  const hostSumsOf = hosts.map((devices) => {
    if (hosts.length === 1) return [];
    const own = devices.flatMap((device) => {
      return (shardGroupsOf[device] ?? []).map((shardGroup) => ({ device, shardGroup }));
    });
    const groups = groupsOf(own, ({ shardGroup }) => shardGroup).filter(({ length }) => length > 1);
    return groups.map((group) => hostSumOf(shardGroups++, group));
  });
  const summed = new Set(
    hostSumsOf.flatMap((own) => own.flatMap(({ parts }) => [...parts.values()])),
  );
  const direct = shardGroupsOf.map((own) => own.filter((shardGroup) => !summed.has(shardGroup)));
  const places = hostOf.map((host, device) => hosts[host]?.indexOf(device) ?? 0);
  return {
    shardGroupsOf,
    distinctGroups,
    replicatedGroups,
    isPlain: shardGroupsOf.map((own) =>
      own.every((shardGroup) => shardGroup.shards.length === 1 && !summed.has(shardGroup)),
    ),
    places,
    hostSumsOf,
    sendLists: hostOf.map((host, from) => {
      const inside: SendList = { own: shardGroupsOf[from] ?? [], hostSums: [] };
      const across = Array.from({ length: Math.max(...places) + 1 }, (_, place): SendList => {
        const hostSums =
          hostSumsOf[host]?.filter((hostSum) => aggregatorOf(hostSum, place) === from) ?? [];
        return { own: direct[from] ?? [], hostSums };
      });
      return hostOf.map((other, to) => (other !== host && across[places[to] ?? 0]) || inside);
    }),
    foldedOn: hosts.map((_, host) => {
      const pooled = hostOf.map(
        (of, device) => (of === host ? shardGroupsOf : direct)[device] ?? [],
      );
      const added = hostSumsOf.filter((_, other) => other !== host);
      return foldedOf(tables, [...pooled, ...added, distinctGroups, replicatedGroups].flat());
    }),
  };
}

/** Bytes of the vectors that travel of a shard group, of some samples. */
export function vectorBytes(
  { columns, trees }: ShardGroup,
  samples: number,
  precision: Precision,
): number {
  return trees.length * packedBytes(samples, columns, precision);
}

/** Floats of them. */
export function vectorFloats({ columns, trees }: ShardGroup, samples: number): number {
  return trees.length * samples * columns;
}

const nothing: SendList = { own: [], hostSums: [] };

/** What device `from` sends device `to` of pooled vectors. */
export function sendListOf({ sendLists }: VectorRoutes, from: number, to: number): SendList {
  return sendLists[from]?.[to] ?? nothing;
}

/** The device of a host sum's host that adds it up for the device at a place of another host. */
export function aggregatorOf({ devices }: HostSum, place: number): number {
  return devices[place % devices.length] ?? 0;
}

/** What has the same columns of the same table, in order of the first of each. */
function groupsOf<T>(all: readonly T[], columnsOf: (one: T) => Columns): T[][] {
  const groups = new Map<string, T[]>();
  for (const one of all) {
    const { table, firstColumn, columns } = columnsOf(one);
    const key = `${table},${firstColumn},${columns}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [one]);
    else group.push(one);
  }
  return [...groups.values()];
}

/** The shard group of shards that have the same columns. */
function shardGroupOf(shardGroup: number, some: readonly HeldShard[]): ShardGroup {
  const shards = [...some].sort((a, b) => a.firstBlock - b.firstBlock);
  const [{ table, firstColumn, columns } = { table: 0, firstColumn: 0, columns: 0 }] = shards;
  return { shardGroup, table, firstColumn, columns, shards, trees: treesOf(shards) };
}

function hostSumOf(
  shardGroup: number,
  group: readonly { readonly device: number; readonly shardGroup: ShardGroup }[],
): HostSum {
  return {
    ...shardGroupOf(
      shardGroup,
      group.flatMap((part) => part.shardGroup.shards),
    ),
    devices: group.map(({ device }) => device),
    parts: new Map(group.map((part) => [part.device, part.shardGroup])),
  };
}

/** The largest aligned subtrees that the blocks of some shards, by rows, make up. */
function treesOf(shards: readonly HeldShard[]): Subtree[] {
  const runs: { first: number; count: number }[] = [];
  for (const { firstBlock, blocks } of shards) {
    const last = runs.at(-1);
    if (last !== undefined && last.first + last.count === firstBlock) last.count += blocks;
    else runs.push({ first: firstBlock, count: blocks });
  }
  return runs.flatMap(({ first, count }) => subtreesOf(first, count));
}

/** What is added up of each table with row blocks. */
function foldedOf(
  tables: readonly TableSpec[],
  shardGroups: readonly ShardGroup[],
): ReadonlyMap<number, readonly FoldedColumns[]> {
  const byTable = new Map<number, ShardGroup[]>();
  for (const [table, { rowBlocks }] of tables.entries()) {
    if (rowBlocks > 1) byTable.set(table, []);
  }
  for (const shardGroup of shardGroups) byTable.get(shardGroup.table)?.push(shardGroup);
  return new Map([...byTable].map(([table, own]) => [table, foldedColumnsOf(own)]));
}

/** The columns of one table's shard groups, cut wherever one of them is. */
function foldedColumnsOf(shardGroups: readonly ShardGroup[]): FoldedColumns[] {
  const ends = shardGroups.flatMap((one) => [one.firstColumn, one.firstColumn + one.columns]);
  const cuts = [...new Set(ends)].sort((a, b) => a - b);
  return cuts.slice(0, -1).map((firstColumn, i) => {
    const end = cuts[i + 1] ?? firstColumn;
    const parts = shardGroups.flatMap((shardGroup) => {
      const isIn =
        shardGroup.firstColumn <= firstColumn && end <= shardGroup.firstColumn + shardGroup.columns;
      return isIn ? [{ shardGroup, first: firstColumn - shardGroup.firstColumn }] : [];
    });
    return { firstColumn, columns: end - firstColumn, parts };
  });
}
