// Logical shards: the parts of a job's tables that are placed on devices. A shard is a tile of its
// table, whole row blocks by whole quanta of columns. The plan assigns tiles to devices. So that
// sums do not depend on the plan, this file cuts tiles further into aligned runs of blocks: the sum
// of a run is a node of the tree over blocks (law 4).

import { type Subtree, subtreesOf } from "../../kernels/contract/slices.ts";
import {
  type CacheBytes,
  type PlacedShard,
  type Plan,
  quantumColumns,
  type Tier,
  type Tile,
  tileRows,
} from "../../planner/shards.ts";
import type { TableSpec } from "./options.ts";

/** A part of one table, which one device owns or which is replicated on all devices. */
export interface Shard extends Tile {
  /** Index of the shard among all shards of the job. */
  readonly shard: number;
  /** Index of the table in the job. */
  readonly table: number;
  /** Name of the table. */
  readonly name: string;
  readonly firstRow: number;
  readonly rows: number;
  readonly firstColumn: number;
  readonly columns: number;
  /** A device, or `all`: a copy on each device. */
  readonly device: number | "all";
  /** The tier of its rows: device memory, or the tiers behind a cache. */
  readonly tier: Tier;
  /** The shard's part of the plan's cache sizes for the tile. */
  readonly cache: CacheBytes | undefined;
}

/**
 * The shards of a plan that covers the tables, ordered by table, then rows, then columns. Tiles are
 * cut into aligned runs of blocks, at the same rows in all tiles of the table, so that all parts of
 * a row are in shards with the same rows. `isByBlock`: tables in which every block is a shard of
 * its own. Cached tables always are: the slots of a cache have no blocks.
 */
export function shardsOf(
  tables: readonly TableSpec[],
  plan: Plan,
  isByBlock: (table: TableSpec, index: number) => boolean = () => false,
): Shard[] {
  const tilesOf = new Map<string, PlacedShard[]>(tables.map(({ name }) => [name, []]));
  for (const tile of plan.shards) tilesOf.get(tile.table)?.push(tile);
  const shards: Shard[] = [];
  for (const [table, spec] of tables.entries()) {
    const tiles = tilesOf.get(spec.name) ?? [];
    const isCached = tiles.some(({ tier }) => tier === "cached");
    for (const { first, count } of runsOf(spec, tiles, isCached || isByBlock(spec, table))) {
      const inRun = tiles.filter((tile) => {
        return tile.firstBlock <= first && first + count <= tile.firstBlock + tile.blocks;
      });
      if (inRun.length > 1) inRun.sort((a, b) => a.firstQuantum - b.firstQuantum);
      for (const { firstQuantum, quanta, device, tier, blocks, cache } of inRun) {
        const extent = extentOf(spec, { firstBlock: first, blocks: count, firstQuantum, quanta });
        // Field by field: to spread two objects takes several times as long, and there are many.
        shards.push({
          firstBlock: first,
          blocks: count,
          firstQuantum,
          quanta,
          name: extent.name,
          firstRow: extent.firstRow,
          rows: extent.rows,
          firstColumn: extent.firstColumn,
          columns: extent.columns,
          shard: shards.length,
          table,
          device,
          tier,
          cache: partOf(cache, count / blocks),
        });
      }
    }
  }
  return shards;
}

function partOf(cache: CacheBytes | undefined, share: number): CacheBytes | undefined {
  return cache && { hbmBytes: share * cache.hbmBytes, ddrBytes: share * cache.ddrBytes };
}

export function extentOf(spec: Pick<TableSpec, "name" | "rows" | "dim" | "rowBlocks">, tile: Tile) {
  const firstColumn = tile.firstQuantum * quantumColumns;
  const end = Math.min(spec.dim, (tile.firstQuantum + tile.quanta) * quantumColumns);
  return {
    name: spec.name,
    firstRow: Math.min(spec.rows, tile.firstBlock * blockRowsOf(spec)),
    rows: tileRows(spec, tile),
    firstColumn,
    columns: end - firstColumn,
  };
}

/** Rows of a whole block. */
export function blockRowsOf({ rows, rowBlocks }: Pick<TableSpec, "rows" | "rowBlocks">): number {
  return Math.ceil(rows / rowBlocks);
}

/** Aligned runs of blocks such that every tile of the table begins and ends at a run's boundary. */
function runsOf(spec: TableSpec, tiles: readonly Tile[], isByBlock: boolean): Subtree[] {
  if (isByBlock) return Array.from({ length: spec.rowBlocks }, (_, first) => ({ first, count: 1 }));
  const [tile] = tiles;
  if (tiles.length === 1 && tile !== undefined) return subtreesOf(tile.firstBlock, tile.blocks);
  const cuts = new Set(tiles.flatMap((tile) => [tile.firstBlock, tile.firstBlock + tile.blocks]));
  const ordered = [...cuts].sort((a, b) => a - b);
  return ordered
    .slice(0, -1)
    .flatMap((first, i) => subtreesOf(first, (ordered[i + 1] ?? 0) - first));
}
