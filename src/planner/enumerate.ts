// Enumerates the ways to cut a table that its schemes, its quanta and the devices allow, with their
// costs. An option is one or more groups of parts; the parts of a group are placed together.

import { costOf, type Setting } from "./cost/cost.ts";
import type { Load, LoadGroup } from "./partition.ts";
import { cutAtPins } from "./pins.ts";
import {
  type Devices,
  deviceCount,
  isOfOneHost,
  type PlannedTable,
  type Scheme,
  type Tier,
  type Tile,
  tableQuanta,
  tileColumns,
  tileRows,
} from "./shards.ts";

/** A shard that is not placed yet. */
export interface Part extends Load {
  readonly tile: Tile;
}

/** Parts that are placed together. */
export interface Group extends LoadGroup {
  readonly parts: readonly Part[];
}

/** One way to cut a table. */
export interface Option {
  readonly scheme: Scheme;
  readonly tier: Tier;
  readonly groups: readonly Group[];
  /** Seconds of all parts, copies included. */
  readonly cost: number;
  /** Bytes of all parts, copies included. */
  readonly bytes: number;
  /** Bytes of the memory that the devices of a host share. */
  readonly hostBytes: number;
  /** Seconds and bytes of the largest part. */
  readonly partCost: number;
  readonly partBytes: number;
}

/** Returns the options of a table, the cheapest first. */
export function enumerateOptions(setting: Setting, table: PlannedTable): Option[] {
  const options: Option[] = [];
  for (const tier of table.tiers) {
    for (const scheme of table.schemes) {
      if (tier === "cached" && scheme === "data-parallel") continue; // Copies lie whole in memory.
      if (table.pins !== undefined && scheme === "data-parallel") continue; // No copy is pinned.
      const same = sameAs(setting.devices, scheme);
      if (same !== undefined && table.schemes.includes(same)) continue;
      const { devices, fleet } = setting;
      for (const tiles of tileGroupsOf(devices, table, scheme, fleet !== undefined)) {
        const groups = pinnedGroups(tiles, table.pins, setting.devices);
        options.push(optionOf(setting, table, scheme, tier, groups));
      }
    }
  }
  return options.sort((a, b) => a.cost - b.cost);
}

/** Tiles that are placed together, before their costs are known. */
export interface TileGroup {
  readonly level: Group["level"];
  readonly tiles: readonly Tile[];
  /** The devices of a pinned group. */
  readonly devices?: readonly number[] | undefined;
}

/**
 * Separates pinned parts into groups of their own. The search places the rest of a group freely;
 * the rest of a group of level `host` stays on one host if that has enough devices.
 */
function pinnedGroups(
  groups: readonly TileGroup[],
  pins: PlannedTable["pins"],
  { perHost }: Devices,
): readonly TileGroup[] {
  if (pins === undefined) return groups;
  return groups.flatMap((group): TileGroup[] => {
    const { free, pinned } = cutAtPins(group.tiles, pins);
    if (pinned.length === 0 && group.level !== "all") return [group];
    const isOfHost = group.level === "host" && free.length <= perHost && free.length > 0;
    const rest = isOfHost
      ? [{ level: "host" as const, tiles: free }]
      : free.map((tile) => ({ level: "device" as const, tiles: [tile] }));
    const devices = pinned.map(({ pin }) => pin.device);
    return [...rest, { level: "pinned", tiles: pinned.map(({ tile }) => tile), devices }];
  });
}

/** The fields of a table that decide how it can be cut. */
type Cuttable = Pick<PlannedTable, "dim" | "rowBlocks">;

/** Parts for each of unequal devices, so that a faster one may have more of a table's rows. */
const partsOfUnequal = 4;

/**
 * Returns the groups of each way in which the scheme can cut the table; the finest cut last.
 * `isUnequal`: the devices are not alike, so that even parts need not lie on all.
 */
export function tileGroupsOf(
  devices: Devices,
  table: Cuttable,
  scheme: Scheme,
  isUnequal = false,
): TileGroup[][] {
  const { hosts, perHost } = devices;
  const W = deviceCount(devices);
  const rows = (parts: number) => Math.min(table.rowBlocks, parts);
  const columns = (most: number) => columnCounts(table, most);
  const each = (tiles: readonly Tile[]): TileGroup[] =>
    tiles.map((tile) => ({ level: "device", tiles: [tile] }));
  switch (scheme) {
    case "table-wise":
      return [each(tilesOf(table, 1, 1))];
    case "data-parallel":
      return [[{ level: "all", tiles: tilesOf(table, 1, 1) }]];
    case "row-wise": {
      const parts = rows(W);
      if (parts === 1) return [];
      if (isUnequal) {
        const counts = [...new Set([parts, rows(partsOfUnequal * W)])];
        return counts.map((count) => each(tilesOf(table, count, 1)));
      }
      const tiles = tilesOf(table, parts, 1);
      return [parts === W ? [{ level: "all", tiles }] : each(tiles)];
    }
    case "column-wise":
      return W === 1 ? [] : columns(W).map((count) => each(tilesOf(table, 1, count)));
    case "table-row-wise":
      if (rows(perHost) === 1) return [];
      return [[{ level: "host", tiles: tilesOf(table, rows(perHost), 1) }]];
    case "table-column-wise":
      return columns(perHost).map((count) => [{ level: "host", tiles: tilesOf(table, 1, count) }]);
    case "grid": {
      const parts = rows(perHost);
      const counts = hosts === 1 && parts > 1 ? [1] : columns(hosts);
      return counts.map((count) => {
        const tiles = tilesOf(table, parts, count);
        return Array.from({ length: count }, (_, column) => ({
          level: "host" as const,
          tiles: tiles.slice(column * parts, (column + 1) * parts),
        }));
      });
    }
    default:
      return scheme satisfies never;
  }
}

/**
 * The scheme that cuts as this one on these devices, so that a search tries only that; undefined:
 * none does. A table whose job writes a scheme keeps its name.
 */
export function sameAs({ hosts, perHost }: Devices, scheme: Scheme): Scheme | undefined {
  if (hosts > 1) return scheme === "grid" && perHost === 1 ? "column-wise" : undefined;
  if (scheme === "table-column-wise") return "column-wise";
  return isOfOneHost(scheme) ? "row-wise" : undefined;
}

/** The numbers of column runs to try: 2, 4, 8, … and single quanta; never more than `most`. */
function columnCounts(table: Cuttable, most: number): number[] {
  const quanta = Math.min(tableQuanta(table), most);
  const counts: number[] = [];
  for (let count = 2; count < quanta; count *= 2) counts.push(count);
  return quanta > 1 ? [...counts, quanta] : [];
}

/** Cuts the table into even runs of quanta, column after column. */
function tilesOf(table: Cuttable, rowParts: number, columnParts: number): Tile[] {
  const rows = evenRuns(table.rowBlocks, rowParts);
  return evenRuns(tableQuanta(table), columnParts).flatMap(([firstQuantum, quanta]) =>
    rows.map(([firstBlock, blocks]) => ({ firstBlock, blocks, firstQuantum, quanta })),
  );
}

function evenRuns(count: number, parts: number): [first: number, count: number][] {
  return Array.from({ length: parts }, (_, i) => {
    const first = Math.floor((i * count) / parts);
    return [first, Math.floor(((i + 1) * count) / parts) - first];
  });
}

function optionOf(
  setting: Setting,
  table: PlannedTable,
  scheme: Scheme,
  tier: Tier,
  tileGroups: readonly TileGroup[],
): Option {
  const load = loadsOf(setting, table, scheme, tier);
  const groups = tileGroups.map(({ level, tiles, devices }): Group => {
    return { level, devices, parts: tiles.map((tile) => ({ tile, ...load(tile) })) };
  });
  const parts = groups.flatMap((group) => group.parts);
  const copies = scheme === "data-parallel" ? deviceCount(setting.devices) : 1;
  return {
    scheme,
    tier,
    groups,
    cost: copies * parts.reduce((sum, part) => sum + part.cost, 0),
    bytes: copies * parts.reduce((sum, part) => sum + part.bytes, 0),
    hostBytes: parts.reduce((sum, part) => sum + (part.hostBytes ?? 0), 0),
    partCost: parts.reduce((most, part) => Math.max(most, part.cost), 0),
    partBytes: parts.reduce((most, part) => Math.max(most, part.bytes), 0),
  };
}

/** Costs of tiles. Tiles of one shape are computed once, as most tiles of a table share a shape. */
function loadsOf(setting: Setting, table: PlannedTable, scheme: Scheme, tier: Tier) {
  let shape = "";
  let load: Load = { cost: 0, bytes: 0 };
  return (tile: Tile): Load => {
    const first = table.idShares === undefined ? 0 : tile.firstBlock;
    const own = `${first},${tile.blocks},${tileRows(table, tile)},${tileColumns(table, tile)}`;
    if (own !== shape) {
      const { seconds: _, ...all } = costOf(setting, table, scheme, tier, tile);
      shape = own;
      load = all;
    }
    return load;
  };
}
