// How many distinct rows of a table, or of a part of it, the samples of a batch look up.

import type { PlannedTable, Tile } from "../shards.ts";
import { distinctIds } from "./miss-curve.ts";
import { distinctShares, rowShare } from "./row-shares.ts";

/** The distinct rows of a table that a batch needs, and their distribution over the table. */
interface Distinct {
  readonly rows: number;
  readonly shares: readonly number[] | undefined;
}

/** Cache of `distinctIn`, by table and samples, as a search computes the costs of every tile. */
const distinctOf = new WeakMap<PlannedTable, Map<number, Distinct>>();

function distinctIn(table: PlannedTable, samples: number): Distinct {
  const byTable = distinctOf.get(table) ?? new Map<number, Distinct>();
  const known = byTable.get(samples);
  if (known !== undefined) return known;
  const { zipf, poolingFactor } = table;
  const draws = samples * poolingFactor;
  const drawn = distinctIds({ rows: table.rows, draws, zipf, hot: 0 });
  const rows = Math.min(drawn, table.distinctRowsMax ?? table.rows);
  const found = { rows, shares: distinctShares(table, draws, table.idShares) };
  distinctOf.set(table, byTable.set(samples, found));
  return found;
}

export function distinctRows(table: PlannedTable, batchSize: number): number {
  return distinctIn(table, batchSize).rows;
}

/** Distinct rows of a tile in some samples. */
export function distinctOfTile(table: PlannedTable, tile: Tile, samples: number): number {
  const { rows, shares } = distinctIn(table, samples);
  return rows * rowShare(table, tile, shares);
}
