// Cases of the kernels' suite: the former values of rows, appended to an undo log.

import { lineBytes, type UndoneTile } from "../../src/kernels/contract/kernels.ts";
import { RandomStream } from "../../src/ports/random.ts";
import type { Cases } from "./cases.ts";

function logOf(lines: number) {
  return { bytes: new Uint8Array(lineBytes * lines), used: new Int32Array(1) };
}

/** A tile with an array of each width, of random bytes. */
function tileOf(stream: RandomStream, tile: number, rows: number, widths: number[]): UndoneTile {
  const bytes = (length: number) => Uint8Array.from({ length }, () => stream.below(256));
  const seen = new Int32Array(Math.ceil(rows / 32));
  return { tile, rows, seen, arrays: widths.map((w) => bytes(w * rows)), rowBytes: widths };
}

export const undo: Cases = {
  "an undo record has the rows that are new, array by array, and the count comes with it": (
    t,
    k,
  ) => {
    const log = logOf(4);
    const a: UndoneTile = {
      ...{ tile: 7, rows: 40, seen: new Int32Array(2) },
      arrays: [Uint8Array.from({ length: 160 }, (_, i) => i), new Uint8Array(40).fill(9)],
      rowBytes: [4, 1],
    };
    const ids = Int32Array.of(3, 39, 3, 2, 39);
    t.true(k.keepRows(log, [a], ids, Int32Array.of(1, 5)));
    t.deepEqual([...log.used], [1]);
    const words = new Int32Array(log.bytes.buffer);
    t.deepEqual([...words.subarray(0, 7)], [7, 3, 1, 0, 39, 3, 2]);
    const values = [156, 157, 158, 159, 12, 13, 14, 15, 8, 9, 10, 11, 9, 9, 9, 0];
    t.deepEqual([...log.bytes.subarray(28, 44)], values);
    t.deepEqual([...a.seen], [12, 1 << 7]);
    // All rows are seen: there is no record.
    t.true(k.keepRows(log, [a], ids, Int32Array.of(0, 5)));
    t.deepEqual([...log.used], [1]);
    t.true(k.keepRows(log, [], ids, new Int32Array(0)));
  },

  "undo records of many tiles equal those of plain loops, until the log has no room": (t, k) => {
    const stream = new RandomStream(5, 1, 0);
    for (let round = 0; round < 30; round++) {
      const tiles = Array.from({ length: 1 + stream.below(4) }, (_, i) => {
        const widths = [4 * (1 + stream.below(40)), 1 + stream.below(9), 64, 1];
        return tileOf(stream, i, 1 + stream.below(90), widths);
      });
      const ends = tiles.map(() => stream.below(70));
      const ranges = new Int32Array(2 * tiles.length);
      const ids: number[] = [];
      for (const [i, count] of ends.entries()) {
        ranges[2 * i] = ids.length;
        const rows = tiles[i]?.rows ?? 1;
        for (let n = 0; n < count; n++) ids.push(stream.below(rows));
        ranges[2 * i + 1] = ids.length;
      }
      const log = logOf(1 + stream.below(600));
      const whole = tiles.flatMap((tile, i) => expectedRecord(tile, ids, ranges, i));
      const isKept = k.keepRows(log, tiles, Int32Array.from(ids), ranges);
      t.is(isKept, whole.length <= log.bytes.length);
      t.is(log.used[0], isKept ? whole.length / lineBytes : 0);
      if (isKept) t.deepEqual([...log.bytes.subarray(0, whole.length)], whole);
    }
  },

  "an undo log refuses ranges beyond the ids, and arrays that are too short": (t, k) => {
    const tile = tileOf(new RandomStream(5, 2, 0), 0, 40, [4]);
    const ids = new Int32Array(3);
    const call = (one: UndoneTile, ranges: Int32Array) => () =>
      k.keepRows(logOf(8), [one], ids, ranges);
    t.throws(call(tile, Int32Array.of(0, 4)), { message: /ids/ });
    t.throws(call(tile, Int32Array.of(0)), { message: /a range of ids for each tile/ });
    t.throws(call({ ...tile, rows: 41 }, Int32Array.of(0, 3)), { message: /rows of a tile/ });
    const seen = new Int32Array(1);
    t.throws(call({ ...tile, seen }, Int32Array.of(0, 3)), { message: /a bit for each row/ });
    const empty = { bytes: new Uint8Array(lineBytes + 4), used: new Int32Array(1) };
    const range = Int32Array.of(0, 3);
    t.throws(() => k.keepRows(empty, [tile], ids, range), { message: /whole cache lines/ });
  },
};

/** The bytes of a tile's record, to the end of its last line; none without rows. */
function expectedRecord(
  { tile, arrays, rowBytes }: UndoneTile,
  ids: readonly number[],
  ranges: Int32Array,
  i: number,
): number[] {
  const rows = [...new Set(ids.slice(ranges[2 * i], ranges[2 * i + 1]))];
  if (rows.length === 0) return [];
  const values = arrays.flatMap((from, a) => {
    const width = rowBytes[a] ?? 0;
    return padded(
      rows.flatMap((row) => [...from.subarray(row * width, (row + 1) * width)]),
      4,
    );
  });
  const bytes = padded([...new Array<number>(16 + 4 * rows.length).fill(0), ...values], lineBytes);
  const words = Int32Array.of(tile, rows.length, bytes.length / lineBytes, 0, ...rows);
  return [...new Uint8Array(words.buffer), ...bytes.slice(words.byteLength)];
}

function padded(bytes: number[], multiple: number): number[] {
  const rest = (multiple - (bytes.length % multiple)) % multiple;
  return [...bytes, ...new Array<number>(rest).fill(0)];
}
