// Comparing rows with the row before, and copying rows, give the same with the addon and without.

import test from "ava";
import {
  markSame,
  plainCopyRows,
  plainMarkSame,
  type RowWords,
  rowCopier,
} from "../../../src/data/sessions/repeated-rows.ts";
import { RandomStream } from "../../../src/ports/random.ts";

/** Rows of lists, half of which equal the row before. */
function drawnRows(random: RandomStream, rows: number, perEntry: number) {
  const offsets = new Int32Array(rows + 1);
  const words: number[] = [];
  let list: number[] = [];
  for (let row = 0; row < rows; row++) {
    if (random.below(2) === 0) {
      list = Array.from({ length: perEntry * random.below(5) }, () => random.below(3));
    }
    words.push(...list);
    offsets[row + 1] = words.length / perEntry;
  }
  return { words: Int32Array.from(words), perEntry, offsets };
}

test("repeated rows are found alike by both implementations, in pieces or at once", (t) => {
  const random = new RandomStream(31, 1);
  for (let round = 0; round < 100; round++) {
    const rows = random.below(60);
    const lists = drawnRows(random, rows, 1 + random.below(2));
    const single: RowWords = {
      words: Int32Array.from({ length: 2 * rows }, () => random.below(2)),
      perEntry: 2,
    };
    const middle = random.below(rows + 1);
    const marks = [plainMarkSame, markSame()].map((mark) => {
      const same = new Uint8Array(rows).fill(1);
      for (const entries of round % 2 === 0 ? [lists] : [lists, single]) {
        mark(same, 0, middle, entries);
        mark(same, middle, rows, entries);
      }
      return same;
    });
    const listOf = (row: number) =>
      lists.words.slice(
        lists.perEntry * (lists.offsets[row] ?? 0),
        lists.perEntry * (lists.offsets[row + 1] ?? 0),
      );
    const numbersOf = (row: number) => [single.words[2 * row], single.words[2 * row + 1]];
    const wanted = Uint8Array.from({ length: rows }, (_, row) => {
      if (row === 0) return 0;
      const sameList = String(listOf(row)) === String(listOf(row - 1));
      const sameNumber = String(numbersOf(row)) === String(numbersOf(row - 1));
      return sameList && (round % 2 === 0 || sameNumber) ? 1 : 0;
    });
    t.deepEqual(marks, [wanted, wanted]);

    const chosen = Int32Array.from({ length: rows === 0 ? 0 : 30 }, () => random.below(rows));
    const outOffsets = new Int32Array(chosen.length + 1);
    for (const [i, row] of chosen.entries()) {
      outOffsets[i + 1] = (outOffsets[i] ?? 0) + listOf(row).length / lists.perEntry;
    }
    const copies = [plainCopyRows, rowCopier()].map((copy) => {
      const out = new Int32Array(lists.perEntry * (outOffsets.at(-1) ?? 0));
      copy(out, outOffsets, chosen, lists);
      return [...out];
    });
    const all = [...chosen].flatMap((row) => [...listOf(row)]);
    t.deepEqual(copies, [all, all]);
  }
});
