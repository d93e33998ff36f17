// Records of rows as plain data, between row stores and checkpoints.
//
// n = rows of the records, D = columns of a shard, W = state floats of its rows.

import type { Shard } from "../tables/shards.ts";

/** Rows of one shard on their way to and from storage. All arrays run over the same rows. */
export interface RowRecords {
  /** (n), rows of the table, ascending. */
  readonly rows: Int32Array;
  /** (n, D) */
  readonly weights: Float32Array;
  /** (n, W): per-element states, then the row's own state. */
  readonly state: Float32Array;
}

/** Which initialised rows of a shard a cut takes: all, or only rows that changed since a cut. */
export type TakenRows = "whole" | "sinceBaseline" | "sinceCut";

/** The part of a table that records cover. */
export type Extent = Pick<Shard, "firstRow" | "rows" | "firstColumn" | "columns">;
