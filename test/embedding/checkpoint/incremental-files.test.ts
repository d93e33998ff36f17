// Rows of a baseline and its incremental files, merged: the newest record of each row applies.

import test from "ava";
import { mergeFiles, withoutRows } from "../../../src/embedding/checkpoint/incremental-files.ts";
import type { RowRecords } from "../../../src/embedding/rows/row-records.ts";
import { createRowSet } from "../../../src/embedding/rows/row-set.ts";
import { fc } from "../../helpers/properties.ts";

/**
 * Records of some rows in chunks that share one memory; the numbers encode row and incremental
 * file.
 */
function* chunksOf(rows: readonly number[], layer: number, size: number): Generator<RowRecords> {
  const [weights, state] = [new Float32Array(2 * size), new Float32Array(size)];
  for (let at = 0; at < rows.length; at += size) {
    const some = rows.slice(at, at + size);
    for (const [i, row] of some.entries()) {
      weights.set([row, layer], 2 * i);
      state[i] = row + layer / 16;
    }
    yield {
      rows: Int32Array.from(some),
      weights: weights.subarray(0, 2 * some.length),
      state: state.subarray(0, some.length),
    };
  }
}

const rowLists = fc.array(
  fc.uniqueArray(fc.nat(60)).map((rows) => rows.sort((a, b) => a - b)),
  { minLength: 1, maxLength: 4 },
);

test("merged rows come in order, once, from the newest incremental file", (t) => {
  fc.assert(
    fc.property(rowLists, fc.integer({ min: 1, max: 9 }), (files, size) => {
      const expected = new Map<number, number>();
      for (const [layer, rows] of [...files.entries()].reverse()) {
        for (const row of rows) expected.set(row, layer);
      }
      const found: number[][] = [];
      for (const chunk of mergeFiles(files.map((rows, i) => chunksOf(rows, i, size)))) {
        for (const [i, row] of chunk.rows.entries()) {
          found.push([row, ...chunk.weights.subarray(2 * i, 2 * i + 2), chunk.state[i] ?? 0]);
        }
      }
      const sorted = [...expected].sort(([a], [b]) => a - b);
      t.deepEqual(
        found,
        sorted.map(([row, layer]) => [row, row, layer, row + layer / 16]),
      );
    }),
  );
});

test("rows that a newer file has are skipped in older ones, with all their data", (t) => {
  const seen = createRowSet();
  for (const row of [1, 5]) seen.add(row);
  const [chunk] = chunksOf([1, 3, 5, 8], 2, 4);
  if (chunk === undefined) return t.fail();
  const left = withoutRows(chunk, seen);
  t.deepEqual([...left.rows], [3, 8]);
  t.deepEqual([...left.weights], [3, 2, 8, 2]);
  t.deepEqual([...left.state], [3.125, 8.125]);
  t.is(withoutRows(left, seen), left);
});
