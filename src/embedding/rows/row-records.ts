// Records of rows as plain data, which row stores and checkpoints exchange.
//
// n = rows of the records, D = columns of a shard, W = state floats of its rows.

import type { Shard } from "../tables/shards.ts";

/** Rows of one shard, as written to and read from storage. All arrays run over the same rows. */
export interface RowRecords {
  /** (n), rows of the table, ascending. */
  readonly rows: Int32Array;
  /** (n, D) */
  readonly weights: Float32Array;
  /** (n, W): per-element states, then the row's own state. */
  readonly state: Float32Array;
}

/** Which initialised rows a cut takes: all, or those changed since the baseline or last cut. */
export type TakenRows = "whole" | "sinceBaseline" | "sinceCut";

/** The part of a table that records cover. */
export type Extent = Pick<Shard, "firstRow" | "rows" | "firstColumn" | "columns">;
