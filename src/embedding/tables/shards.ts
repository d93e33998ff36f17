// Logical shards: how the rows of a job are cut into parts that can be placed. A shard is a tile of
// its table, whole row blocks by whole quanta of columns. Where the tiles lie is the plan's; that
// their sums come out alike is settled here: what a plan cuts anywhere is cut on into aligned runs
// of blocks, whose sums the tree over blocks knows (law 4).

import { type Subtree, subtreesOf } from "../../kernels/contract/slices.ts";
import {
  type CacheBytes,
  type PlacedShard,
  type Plan,
  quantumColumns,
  rowsOf,
  type Tier,
  type Tile,
} from "../../planner/shards.ts";
import type { TableSpec } from "./options.ts";

/** A part of one table that one device answers for, or all have a copy of. */
export interface Shard extends Tile {
  /** Its place among all shards of the job. */
  readonly shard: number;
  /** Index of the table, and so of its feature, in the job. */
  readonly table: number;
  /** The table's. */
  readonly name: string;
  readonly firstRow: number;
  readonly rows: number;
  readonly firstColumn: number;
  readonly columns: number;
  /** A device, or `all`: a copy on each. */
  readonly device: number | "all";
  /** Where its rows rest. */
  readonly tier: Tier;
  /** Its part of what the plan gives the tile's caches. */
  readonly cache: CacheBytes | undefined;
}

/**
 * The shards of a plan that covers the tables: by table, then by rows, then by columns. A tile is
 * cut into aligned runs of blocks, at the same rows in every run of columns, so that the parts of a
 * row are alike. `isByBlock`: of which tables every block is a shard of its own; so it is where
 * rows lie behind a cache, whose places know no blocks.
 */
export function shardsOf(
  tables: readonly TableSpec[],
  plan: Plan,
  isByBlock: (table: TableSpec) => boolean = () => false,
): Shard[] {
  const tilesOf = new Map<string, PlacedShard[]>(tables.map(({ name }) => [name, []]));
  for (const tile of plan.shards) tilesOf.get(tile.table)?.push(tile);
  const shards: Shard[] = [];
  for (const [table, spec] of tables.entries()) {
    const tiles = tilesOf.get(spec.name) ?? [];
    const isCached = tiles.some(({ tier }) => tier === "cached");
    for (const { first, count } of runsOf(spec, tiles, isCached || isByBlock(spec))) {
      const inRun = tiles.filter((tile) => {
        return tile.firstBlock <= first && first + count <= tile.firstBlock + tile.blocks;
      });
      for (const tile of inRun.sort((a, b) => a.firstQuantum - b.firstQuantum)) {
        const { firstQuantum, quanta, device, tier, blocks } = tile;
        const place = { firstBlock: first, blocks: count, firstQuantum, quanta };
        const extent = extentOf(spec, place);
        const cache = partOf(tile.cache, count / blocks);
        shards.push({ ...place, ...extent, shard: shards.length, table, device, tier, cache });
      }
    }
  }
  return shards;
}

function partOf(cache: CacheBytes | undefined, share: number): CacheBytes | undefined {
  return cache && { hbmBytes: share * cache.hbmBytes, ddrBytes: share * cache.ddrBytes };
}

/** The rows and columns of a tile. */
export function extentOf(spec: Pick<TableSpec, "name" | "rows" | "dim" | "rowBlocks">, tile: Tile) {
  const firstColumn = tile.firstQuantum * quantumColumns;
  const end = Math.min(spec.dim, (tile.firstQuantum + tile.quanta) * quantumColumns);
  return {
    name: spec.name,
    firstRow: Math.min(spec.rows, tile.firstBlock * blockRowsOf(spec)),
    rows: rowsOf(spec, tile),
    firstColumn,
    columns: end - firstColumn,
  };
}

/** Rows of a whole block. */
export function blockRowsOf({ rows, rowBlocks }: Pick<TableSpec, "rows" | "rowBlocks">): number {
  return Math.ceil(rows / rowBlocks);
}

/** Whether a shard has whole rows of its table. */
export function hasWholeRows(shard: Shard, { dim }: Pick<TableSpec, "dim">): boolean {
  return shard.columns === dim;
}

/** Aligned runs of blocks that no tile of the table is cut inside of. */
function runsOf(spec: TableSpec, tiles: readonly Tile[], isByBlock: boolean): Subtree[] {
  if (isByBlock) return Array.from({ length: spec.rowBlocks }, (_, first) => ({ first, count: 1 }));
  const cuts = new Set(tiles.flatMap((tile) => [tile.firstBlock, tile.firstBlock + tile.blocks]));
  const ordered = [...cuts].sort((a, b) => a - b);
  return ordered
    .slice(0, -1)
    .flatMap((first, i) => subtreesOf(first, (ordered[i + 1] ?? 0) - first));
}
