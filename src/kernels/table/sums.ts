// Checks the whole-row sums that the exchange completed: native code reads one number per distinct
// row without a bounds check, so there must be exactly one for each.

import { strict as assert } from "node:assert";
import {
  type Bags,
  lookupsFrom,
  type RowRule,
  type RowSums,
  takesMean,
  takesTrust,
} from "../contract/kernels.ts";
import type { Rows } from "../contract/tables.ts";

/**
 * Asserts that a tile with some of its table's columns is given the whole-row values that its rule
 * needs, with one value for every distinct row of the tile's bags.
 */
export function completes(
  tables: readonly Rows[],
  { kind }: RowRule,
  sums: RowSums | undefined,
  bags: Bags,
  table: number,
): void {
  const rows = tables[table]!;
  const lacksMean = takesMean(kind) && sums?.means === undefined;
  const lacksTrust = takesTrust(kind) && sums?.trust === undefined;
  if (rows.dim !== rows.tableDim && (lacksMean || lacksTrust)) {
    const what = lacksMean ? "means of squares" : "trust ratios";
    assert.fail(`Expected ${what} for ${rows.dim} of ${rows.tableDim} columns under ${kind}`);
  }
  const given = [sums?.means, sums?.trust].filter((one) => one !== undefined);
  if (given.every(({ length }) => length === 0)) return;
  const distinct = distinctRows(rows.rows, bags, table, lookupsFrom(tables, table));
  for (const { length } of given) {
    const isEnough = length === 0 || length === distinct;
    assert(isEnough, `Expected a sum for each of ${distinct} distinct rows, got ${length}`);
  }
}

/** Grow-only, all zero between calls. */
let marks = new Uint8Array(0);

/** Number of distinct rows in the bags of `lookups` entries from `table` on. */
function distinctRows(
  rows: number,
  { ids, offsets, samples }: Bags,
  table: number,
  lookups: number,
): number {
  if (marks.length < rows) marks = new Uint8Array(rows);
  const [first, end] = [offsets[table * samples]!, offsets[(table + lookups) * samples]!];
  let distinct = 0;
  for (let k = first; k < end; k++) {
    const row = Number(ids[k]!);
    if (marks[row] === 0) distinct++;
    marks[row] = 1;
  }
  for (let k = first; k < end; k++) marks[Number(ids[k]!)] = 0;
  return distinct;
}
