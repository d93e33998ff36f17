// Shard groups, and the routes of their vectors. A shard group is the shards of one device that
// hold the same columns of a table, for one lookup: their vectors are sent as one. Inside a host
// each shard group is sent separately. To other hosts the shard groups of a host are sent as their
// sum, by one device of the host, the aggregator (table-row-wise: Neo, Mudigere et al., arXiv
// 2104.05158). Gradients return on the same route.
//
//   host 0: its devices hold rows of the same columns          host 1
//
//   device 0 ── partials ──▶ device 1 ────── pooled ─────────▶ device 3
//   device 0 ◀─ dPartials ── device 1 ◀───── dPooled ───────── device 3

import { packedBytes, type WirePrecision } from "../../kernels/contract/precision.ts";
import { type Subtree, subtreesOf } from "../../kernels/contract/slices.ts";
import type { Tile } from "../../planner/shards.ts";
import type { HeldLookup } from "./held-shard.ts";

/** Some columns of one lookup's vectors. */
interface Columns {
  readonly lookup: number;
  readonly firstColumn: number;
  readonly columns: number;
}

/** The shards of one device that hold the same columns of a table, for one lookup. */
export interface ShardGroup extends Columns {
  /** The table of the lookup, and its axis. */
  readonly table: number;
  readonly axis: number;
  /** Its index among all shard groups and host sums of the job, replicated ones included. */
  readonly shardGroup: number;
  /** In the order of their rows. */
  readonly shards: readonly HeldLookup[];
  /** The finished subtrees of the shards' row blocks: a vector of `columns` each. */
  readonly trees: readonly Subtree[];
}

/** The sum of shard groups that several devices of one host have of the same columns. */
export interface HostSum extends ShardGroup {
  /** These devices, ascending. Each is the aggregator for some devices of other hosts. */
  readonly devices: readonly number[];
  readonly parts: ReadonlyMap<number, ShardGroup>;
}

/** The vectors that one device sends to another; their gradients come back. */
export interface SendList {
  /** Shard groups of the sender. */
  readonly own: readonly ShardGroup[];
  /** Host sums that the sender adds up as their aggregator; sent after `own`. */
  readonly hostSums: readonly HostSum[];
}

/**
 * Columns of a lookup in a table with row blocks. The samples' device adds up the tree over the
 * blocks.
 */
export interface FoldedColumns {
  readonly firstColumn: number;
  readonly columns: number;
  /** The shard groups that hold the columns, and the offset of the columns in each group. */
  readonly parts: readonly { readonly shardGroup: ShardGroup; readonly first: number }[];
}

/** The routes of shard groups between devices. */
export interface VectorRoutes {
  /** The host sums of each host; empty on a single host. */
  readonly hostSumsOf: readonly (readonly HostSum[])[];
  /** The host of each device, and the index of each device on its host. */
  readonly hostOf: readonly number[];
  readonly places: readonly number[];
  /** By sender: what it sends to each device of its host. */
  readonly inside: readonly SendList[];
  /** By sender, and by the receiver's place: what it sends to a device of another host. */
  readonly across: readonly (readonly SendList[])[];
}

/** The shard groups of a job, and their routes. */
export interface ShardGroups extends VectorRoutes {
  /** The shard groups that each device pools. */
  readonly shardGroupsOf: readonly (readonly ShardGroup[])[];
  readonly distinctGroups: readonly ShardGroup[];
  readonly replicatedGroups: readonly ShardGroup[];
  /**
   * For each device, whether every shard is a shard group of its own and none is part of a host
   * sum: vectors are then sent as they are pooled.
   */
  readonly isPlain: readonly boolean[];
  /**
   * The columns of each lookup in a table with row blocks, as the devices of a host receive them:
   * in ranges that no shard group splits. A device needs its own host's, which are computed once.
   */
  foldedOn(host: number): ReadonlyMap<number, readonly FoldedColumns[]>;
}

/**
 * `folded`: the lookups in tables with row blocks. `hostOf`: the host of each device. The devices
 * of one host have consecutive ranks.
 */
export function shardGroupsIn(
  folded: readonly number[],
  hostOf: readonly number[],
  held: {
    readonly heldBy: readonly (readonly HeldLookup[])[];
    readonly distinctBy: readonly (readonly HeldLookup[])[];
    readonly replicated: readonly HeldLookup[];
  },
): ShardGroups {
  let shardGroups = 0;
  const groupedIn = (own: readonly HeldLookup[]): ShardGroup[] =>
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
  const places = hostOf.map((host, device) => device - (hosts[host]?.[0] ?? 0));
  const foldedOn = new Map<number, ReadonlyMap<number, readonly FoldedColumns[]>>();
  const placesMax = Math.max(...hosts.map(({ length }) => length));
  return {
    shardGroupsOf,
    distinctGroups,
    replicatedGroups,
    isPlain: shardGroupsOf.map((own) =>
      own.every((shardGroup) => shardGroup.shards.length === 1 && !summed.has(shardGroup)),
    ),
    hostOf,
    places,
    hostSumsOf,
    inside: shardGroupsOf.map((own) => ({ own, hostSums: [] })),
    across: hostOf.map((host, from) =>
      Array.from({ length: hosts.length === 1 ? 0 : placesMax }, (_, place): SendList => {
        const hostSums =
          hostSumsOf[host]?.filter((hostSum) => aggregatorOf(hostSum, place) === from) ?? [];
        return { own: direct[from] ?? [], hostSums };
      }),
    ),
    foldedOn(host) {
      const known = foldedOn.get(host);
      if (known !== undefined) return known;
      const pooled = hostOf.map(
        (of, device) => (of === host ? shardGroupsOf : direct)[device] ?? [],
      );
      const added = hostSumsOf.filter((_, other) => other !== host);
      const all = [...pooled, ...added, distinctGroups, replicatedGroups].flat();
      const columns = foldedOf(folded, all);
      foldedOn.set(host, columns);
      return columns;
    },
  };
}

/** Bytes on the wire of a shard group's vectors, for some samples. */
export function vectorBytes(
  { columns, trees }: ShardGroup,
  samples: number,
  precision: WirePrecision,
): number {
  return trees.length * packedBytes(samples, columns, precision);
}

/** Floats of a shard group's vectors, for some samples. */
export function vectorFloats({ columns, trees }: ShardGroup, samples: number): number {
  return trees.length * samples * columns;
}

const nothing: SendList = { own: [], hostSums: [] };

/** The pooled vectors that device `from` sends to device `to`. */
export function sendListOf(
  { hostOf, places, inside, across }: VectorRoutes,
  from: number,
  to: number,
): SendList {
  const list = hostOf[from] === hostOf[to] ? inside[from] : across[from]?.[places[to] ?? 0];
  return list ?? nothing;
}

/** The aggregator of a host sum for the device at index `place` of another host. */
export function aggregatorOf({ devices }: HostSum, place: number): number {
  return devices[place % devices.length] ?? 0;
}

/** Groups of items with the same columns of the same lookup, in the order of their first items. */
function groupsOf<T>(all: readonly T[], columnsOf: (one: T) => Columns): T[][] {
  const groups = new Map<string, T[]>();
  for (const one of all) {
    const { lookup, firstColumn, columns } = columnsOf(one);
    const key = `${lookup},${firstColumn},${columns}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [one]);
    else group.push(one);
  }
  return [...groups.values()];
}

/** The shard group of shards that have the same columns. */
function shardGroupOf(shardGroup: number, some: readonly HeldLookup[]): ShardGroup {
  const shards = [...some].sort((a, b) => a.firstBlock - b.firstBlock);
  const [first] = shards;
  const { lookup = 0, table = 0, axis = 0, firstColumn = 0, columns = 0 } = first ?? {};
  return { shardGroup, lookup, table, axis, firstColumn, columns, shards, trees: treesOf(shards) };
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

/** The largest aligned subtrees of the row blocks of some shards, which are ordered by rows. */
export function treesOf(shards: readonly Pick<Tile, "firstBlock" | "blocks">[]): Subtree[] {
  const runs: { first: number; count: number }[] = [];
  for (const { firstBlock, blocks } of shards) {
    const last = runs.at(-1);
    if (last !== undefined && last.first + last.count === firstBlock) last.count += blocks;
    else runs.push({ first: firstBlock, count: blocks });
  }
  return runs.flatMap(({ first, count }) => subtreesOf(first, count));
}

/** For each lookup in a table with row blocks, the columns that the samples' device adds up. */
function foldedOf(
  folded: readonly number[],
  shardGroups: readonly ShardGroup[],
): ReadonlyMap<number, readonly FoldedColumns[]> {
  const byLookup = new Map<number, ShardGroup[]>(folded.map((lookup) => [lookup, []]));
  for (const shardGroup of shardGroups) byLookup.get(shardGroup.lookup)?.push(shardGroup);
  return new Map([...byLookup].map(([lookup, own]) => [lookup, foldedColumnsOf(own)]));
}

/** The columns of one lookup's shard groups, cut wherever any group begins or ends. */
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
