// Checks the whole-row sums that the exchange completed: kernels read one number per distinct row.
// `updateRows` counts the rows itself, where it has sorted them.

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

/** Asserts that a tile with some of its table's columns is given the sums that its rule needs. */
export function haveSums(rows: Rows, { kind }: RowRule, sums: RowSums | undefined): void {
  const lacksMean = takesMean(kind) && sums?.means === undefined;
  const lacksTrust = takesTrust(kind) && sums?.trust === undefined;
  if (rows.dim !== rows.tableDim && (lacksMean || lacksTrust)) {
    const what = lacksMean ? "means of squares" : "trust ratios";
    assert.fail(`Expected ${what} for ${rows.dim} of ${rows.tableDim} columns under ${kind}`);
  }
}

/** Asserts that there is one sum for every distinct row of the tables' bags. */
export function areOfEachRow(tables: readonly Rows[], sums: Float32Array, bags: Bags): void {
  let distinct = 0;
  for (let table = 0; table < tables.length; ) {
    const lookups = lookupsFrom(tables, table);
    distinct += distinctRows(tables[table]!.rows, bags, table, lookups);
    table += lookups;
  }
  assert.equal(sums.length, distinct, expectedSums(distinct, sums.length));
}

/** The message where sums were given for another number of distinct rows. */
export function expectedSums(distinct: number, given: number): string {
  return `Expected a sum for each of ${distinct} distinct rows, got ${given}`;
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
