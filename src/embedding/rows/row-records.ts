// Records of rows as plain data: a row store takes them in and gives them out, and checkpoints hold
// them.
//
// n = rows of the records, D = columns of a shard, W = state floats of its rows.

import type { Shard } from "../tables/shards.ts";

/** Rows of one shard as they travel to and from rest. All arrays run over the same rows. */
export interface RowRecords {
  /** (n), rows of the table, ascending. */
  readonly rows: Int32Array;
  /** (n, D) */
  readonly weights: Float32Array;
  /** (n, W): states of the elements, then those of the row. */
  readonly state: Float32Array;
}

/** Which initialised rows of a shard a cut takes: all, or only rows that changed since a cut. */
export type TakenRows = "whole" | "sinceBaseline" | "sinceCut";

/** The part of a table that records cover. */
export type Extent = Pick<Shard, "firstRow" | "rows" | "firstColumn" | "columns">;
