// Distribution of the ids of the data over the rows of a table. Tables are often sorted by
// popularity, or by time; the first or the last row blocks are then needed far more than the
// others.

import type { PlannedTable, Tile } from "../shards.ts";

type Cut = Pick<PlannedTable, "rows" | "rowBlocks">;

/**
 * Returns a tile's share of the accesses. `shares` has the shares of equal ranges of the table's
 * rows, in order; undefined: the tile's share of the row blocks.
 */
export function rowShare(
  table: Cut,
  tile: Pick<Tile, "firstBlock" | "blocks">,
  shares: readonly number[] | undefined,
): number {
  if (tile.blocks === table.rowBlocks || shares === undefined) return tile.blocks / table.rowBlocks;
  const [block, run] = [Math.ceil(table.rows / table.rowBlocks), runRows(table, shares)];
  const [from, to] = [tile.firstBlock * block, (tile.firstBlock + tile.blocks) * block];
  return shares.reduce((sum, share, i) => {
    const inside = Math.min(to, (i + 1) * run) - Math.max(from, i * run);
    return sum + share * Math.max(0, inside / run);
  }, 0);
}

/** Converts shares of ids to shares of the distinct rows that `draws` draws need. */
export function distinctShares(
  table: Cut,
  draws: number,
  shares: readonly number[] | undefined,
): readonly number[] | undefined {
  if (shares === undefined) return undefined;
  const run = runRows(table, shares);
  const seen = shares.map((share, i) => {
    const rows = Math.min(run, Math.max(0, table.rows - i * run));
    return rows === 0 ? 0 : -rows * Math.expm1((-draws * share) / rows);
  });
  const all = seen.reduce((sum, rows) => sum + rows, 0);
  return all > 0 ? seen.map((rows) => rows / all) : undefined;
}

function runRows({ rows }: Cut, shares: readonly number[]): number {
  return Math.max(1, Math.ceil(rows / shares.length));
}
