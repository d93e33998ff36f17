// Quantised rows in checkpoints: their error, against the table of a prototype of Check-N-Run
// (Eisenman et al., NSDI 2022; mean squared norm of the error of rows of 64 Gaussian columns), and
// their size.

import test from "ava";
import { writtenBytes } from "../../../bench/service/recovery.bench.ts";
import {
  dequantiseRows,
  quantisedBytes,
  quantiseRows,
} from "../../../src/embedding/checkpoint/quantised-rows.ts";
import {
  createPartQuantiser,
  decodeRows,
  encodeRows,
} from "../../../src/embedding/checkpoint/rows-part.ts";
import type { RowRecords } from "../../../src/embedding/rows/row-records.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { rounds } from "../../helpers/thinned.ts";

const [rows, dim] = [400, 64];
const stream = new RandomStream(1, 2, 3);
const weights = Float32Array.from({ length: rows * dim }, () => 0.05 * stream.normal());

/** The error of rows after plain quantisation over the range that `rangeOf` gives. */
function plainLoss(
  bits: number,
  rangeOf: (row: Float32Array) => readonly [number, number],
): number {
  let sum = 0;
  for (let row = 0; row < rows; row++) {
    const own = weights.subarray(row * dim, (row + 1) * dim);
    const [low, high] = rangeOf(own);
    const scale = (high - low) / (2 ** bits - 1);
    for (const value of own) sum += (value - low - Math.round((value - low) / scale) * scale) ** 2;
  }
  return sum / rows;
}

const asymmetric = (row: Float32Array) => [Math.min(...row), Math.max(...row)] as const;

function lossOf(bits: 8 | 4 | 3 | 2): number {
  const back = dequantiseRows(bits, quantiseRows(bits, weights, dim), rows, dim);
  return weights.reduce((sum, value, i) => sum + (value - (back[i] ?? 0)) ** 2, 0) / rows;
}

test("narrowing the range loses as little as the paper's search, and less than none", (t) => {
  const [two, three, four, eight] = [lossOf(2), lossOf(3), lossOf(4), lossOf(8)];
  t.log(`2 bits ${two.toFixed(4)}, 3 bits ${three.toFixed(5)}, 4 bits ${four.toFixed(5)}`);
  t.true(Math.abs(plainLoss(2, asymmetric) / 0.031 - 1) < 0.1, "rows like the prototype's");
  t.true(Math.abs(two / 0.0162 - 1) < 0.15, `${two}`);
  t.true(Math.abs(four / 0.00106 - 1) < 0.15, `${four}`);
  t.true(three < plainLoss(3, asymmetric) && three > four);
  t.true(Math.abs(eight / plainLoss(8, asymmetric) - 1) < 0.01, `${eight}`);
});

test("a row of 64 columns shrinks 12.8, 9.1, 7.1 and 3.6 times in 2, 3, 4 and 8 bits", (t) => {
  const times = ([8, 4, 3, 2] as const).map(
    (bits) => (4 * dim * rows) / quantisedBytes(bits, rows, dim),
  );
  t.deepEqual(
    times.map((one) => one.toFixed(1)),
    ["3.6", "7.1", "9.1", "12.8"],
  );
});

test("increments in 4 bits write at least 6 times less than all rows in float32", async (t) => {
  const sum = (values: readonly number[]) => values.reduce((total, one) => total + one, 0);
  const count = rounds("rows of differences in 4 bits", 200, 600);
  for (const share of [0.1, 0.35]) {
    const full = sum(await writtenBytes("none", 32, share, count));
    for (const policy of ["one-shot", "consecutive", "intermittent"] as const) {
      const times = full / sum(await writtenBytes(policy, 4, share, count));
      t.true(times >= 6, `${policy}, ${share}: ${times}`);
    }
  }
});

test("rows of one value, of huge values and of any number of columns are restored", (t) => {
  for (const bits of [8, 4, 3, 2] as const) {
    for (const columns of [1, 3, 5, 8, 33]) {
      const same = new Float32Array(2 * columns).fill(0.25);
      t.deepEqual(dequantiseRows(bits, quantiseRows(bits, same, columns), 2, columns), same);
      const ends = Float32Array.from({ length: columns }, (_, c) => (c % 2 === 0 ? -1 : 2));
      t.deepEqual(
        dequantiseRows(bits, quantiseRows(bits, ends, columns), 1, columns).length,
        columns,
      );
    }
    const huge = dequantiseRows(bits, quantiseRows(bits, Float32Array.of(1e30, -1e30), 2), 1, 2);
    t.true(huge.every(Number.isFinite));
  }
});

test("a quantised part keeps its rows and their state, and is read like any other", async (t) => {
  const records: RowRecords = {
    rows: Int32Array.of(3, 7, 8),
    weights: weights.slice(0, 3 * dim),
    state: Float32Array.of(1, 2, 3),
  };
  for (const bits of [8, 4, 3, 2] as const) {
    const stored = createPartQuantiser(bits);
    const pieces: Uint8Array[] = [];
    for await (const piece of encodeRows(dim, 1, [
      records,
      { ...records, rows: Int32Array.of(9, 10, 11) },
    ])) {
      pieces.push(stored(piece));
    }
    const back = [...decodeRows(pieces, { dim, width: 1, path: "p" })].map((chunk) => ({
      rows: [...chunk.rows],
      weights: [...chunk.weights],
      state: [...chunk.state],
    }));
    const expected = [...dequantiseRows(bits, quantiseRows(bits, records.weights, dim), 3, dim)];
    t.deepEqual(back, [
      { rows: [3, 7, 8], weights: expected, state: [1, 2, 3] },
      { rows: [9, 10, 11], weights: expected, state: [1, 2, 3] },
    ]);
  }
  const other = createPartQuantiser(4);
  for await (const piece of encodeRows(dim, 1, [records], "float16"))
    t.deepEqual(other(piece), piece);
});
