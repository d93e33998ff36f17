// Bundles: what devices have of a table's columns, and which way their vectors go. To devices of
// the same host each bundle goes by itself. To other hosts the bundles of a host go as their sums,
// by way of one of its devices, the gateway (table-row-wise: Neo, Mudigere et al., arXiv
// 2104.05158). Gradients come back the same way.
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
export interface Bundle extends Columns {
  /** Its place among all bundles and relays of the job, bundles of copies too. */
  readonly bundle: number;
  /** By rows. */
  readonly shards: readonly HeldShard[];
  /** The finished subtrees of their blocks: a vector of `columns` each. */
  readonly trees: readonly Subtree[];
}

/** The bundles that several devices of one host have of the same columns, added up. */
export interface Relay extends Bundle {
  /** Those devices, ascending: each is the gateway for some devices of other hosts. */
  readonly devices: readonly number[];
  readonly parts: ReadonlyMap<number, Bundle>;
}

/** What one device sends another of pooled vectors, and takes back of their gradients. */
export interface Parcel {
  /** Bundles of the sender. */
  readonly own: readonly Bundle[];
  /** Behind them what it adds up as a gateway. */
  readonly relays: readonly Relay[];
}

/** Columns of a table with row blocks, whose tree the samples' side adds up. */
export interface FoldedColumns {
  readonly firstColumn: number;
  readonly columns: number;
  /** The bundles that have them, and where they begin in each. */
  readonly parts: readonly { readonly bundle: Bundle; readonly first: number }[];
}

/** Which way bundles go. */
export interface Ways {
  /** For each host its relays; none where it is alone. */
  readonly relaysOf: readonly (readonly Relay[])[];
  /** [from][to] */
  readonly parcels: readonly (readonly Parcel[])[];
}

/** The bundles of a job, and their ways. */
export interface Bundles extends Ways {
  /** For each device those that it pools. */
  readonly bundlesOf: readonly (readonly Bundle[])[];
  readonly distinctBundles: readonly Bundle[];
  readonly replicatedBundles: readonly Bundle[];
  /** Whether each shard of a device is a bundle, and none is relayed: it pools what travels. */
  readonly isPlain: readonly boolean[];
  /** For each device its place on its host. */
  readonly places: readonly number[];
  /** For each host, as its devices get them: tables with row blocks, in runs cut nowhere. */
  readonly foldedOn: readonly ReadonlyMap<number, readonly FoldedColumns[]>[];
}

/** `hostOf`: the host of each device; those of one host are a run. */
export function bundlesIn(
  tables: readonly TableSpec[],
  hostOf: readonly number[],
  held: {
    readonly heldBy: readonly (readonly HeldShard[])[];
    readonly distinctBy: readonly (readonly HeldShard[])[];
    readonly replicated: readonly HeldShard[];
  },
): Bundles {
  let bundles = 0;
  const bundled = (own: readonly HeldShard[]): Bundle[] =>
    groupsOf(own, (shard) => shard).map((shards) => bundleOf(bundles++, shards));
  const bundlesOf = held.heldBy.map(bundled);
  const replicatedBundles = bundled(held.replicated);
  const distinctBundles = held.distinctBy.flatMap(bundled);
  const hosts = Array.from({ length: Math.max(...hostOf) + 1 }, (_, host) =>
    hostOf.flatMap((of, device) => (of === host ? device : [])),
  );
  const relaysOf = hosts.map((devices) => {
    if (hosts.length === 1) return [];
    const own = devices.flatMap((device) => {
      return (bundlesOf[device] ?? []).map((bundle) => ({ device, bundle }));
    });
    const groups = groupsOf(own, ({ bundle }) => bundle).filter(({ length }) => length > 1);
    return groups.map((group) => relayOf(bundles++, group));
  });
  const relayed = new Set(
    relaysOf.flatMap((own) => own.flatMap(({ parts }) => [...parts.values()])),
  );
  const direct = bundlesOf.map((own) => own.filter((bundle) => !relayed.has(bundle)));
  const places = hostOf.map((host, device) => hosts[host]?.indexOf(device) ?? 0);
  return {
    bundlesOf,
    distinctBundles,
    replicatedBundles,
    isPlain: bundlesOf.map((own) =>
      own.every((bundle) => bundle.shards.length === 1 && !relayed.has(bundle)),
    ),
    places,
    relaysOf,
    parcels: hostOf.map((host, from) => {
      const inside: Parcel = { own: bundlesOf[from] ?? [], relays: [] };
      const across = Array.from({ length: Math.max(...places) + 1 }, (_, place): Parcel => {
        const relays = relaysOf[host]?.filter((relay) => gatewayOf(relay, place) === from) ?? [];
        return { own: direct[from] ?? [], relays };
      });
      return hostOf.map((other, to) => (other !== host && across[places[to] ?? 0]) || inside);
    }),
    foldedOn: hosts.map((_, host) => {
      const pooled = hostOf.map((of, device) => (of === host ? bundlesOf : direct)[device] ?? []);
      const added = relaysOf.filter((_, other) => other !== host);
      return foldedOf(tables, [...pooled, ...added, distinctBundles, replicatedBundles].flat());
    }),
  };
}

/** Bytes of the vectors that travel of a bundle, of some samples. */
export function vectorBytes(
  { columns, trees }: Bundle,
  samples: number,
  precision: Precision,
): number {
  return trees.length * packedBytes(samples, columns, precision);
}

/** Floats of them. */
export function vectorFloats({ columns, trees }: Bundle, samples: number): number {
  return trees.length * samples * columns;
}

const nothing: Parcel = { own: [], relays: [] };

/** What device `from` sends device `to` of pooled vectors. */
export function parcelOf({ parcels }: Ways, from: number, to: number): Parcel {
  return parcels[from]?.[to] ?? nothing;
}

/** The device of a relay's host that adds it up for the device at a place of another host. */
export function gatewayOf({ devices }: Relay, place: number): number {
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

/** The bundle of shards that have the same columns. */
function bundleOf(bundle: number, some: readonly HeldShard[]): Bundle {
  const shards = [...some].sort((a, b) => a.firstBlock - b.firstBlock);
  const [{ table, firstColumn, columns } = { table: 0, firstColumn: 0, columns: 0 }] = shards;
  return { bundle, table, firstColumn, columns, shards, trees: treesOf(shards) };
}

function relayOf(
  bundle: number,
  group: readonly { readonly device: number; readonly bundle: Bundle }[],
): Relay {
  return {
    ...bundleOf(
      bundle,
      group.flatMap((part) => part.bundle.shards),
    ),
    devices: group.map(({ device }) => device),
    parts: new Map(group.map((part) => [part.device, part.bundle])),
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
  bundles: readonly Bundle[],
): ReadonlyMap<number, readonly FoldedColumns[]> {
  const byTable = new Map<number, Bundle[]>();
  for (const [table, { rowBlocks }] of tables.entries()) {
    if (rowBlocks > 1) byTable.set(table, []);
  }
  for (const bundle of bundles) byTable.get(bundle.table)?.push(bundle);
  return new Map([...byTable].map(([table, own]) => [table, foldedColumnsOf(own)]));
}

/** The columns of one table's bundles, cut wherever one of them is. */
function foldedColumnsOf(bundles: readonly Bundle[]): FoldedColumns[] {
  const ends = bundles.flatMap((one) => [one.firstColumn, one.firstColumn + one.columns]);
  const cuts = [...new Set(ends)].sort((a, b) => a - b);
  return cuts.slice(0, -1).map((firstColumn, i) => {
    const end = cuts[i + 1] ?? firstColumn;
    const parts = bundles.flatMap((bundle) => {
      const isIn = bundle.firstColumn <= firstColumn && end <= bundle.firstColumn + bundle.columns;
      return isIn ? [{ bundle, first: firstColumn - bundle.firstColumn }] : [];
    });
    return { firstColumn, columns: end - firstColumn, parts };
  });
}
