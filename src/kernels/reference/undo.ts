// Appends the former values of rows to an undo log, in plain loops.

import { type UndoKernels, undoHeadWords, undoLineBytes } from "../contract/undo.ts";

const lineWords = undoLineBytes / 4;

/** See `UndoKernels.keepRows`. */
export const keepRows: UndoKernels["keepRows"] = ({ bytes, used }, tiles, ids, ranges) => {
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  let lines = Atomics.load(used, 0);
  for (const [i, { tile, seen, arrays, rowBytes }] of tiles.entries()) {
    const rows: number[] = [];
    for (const row of ids.subarray(ranges[2 * i], ranges[2 * i + 1])) {
      const bit = 1 << (row & 31);
      if ((seen[row >>> 5]! & bit) !== 0) continue;
      seen[row >>> 5]! |= bit;
      rows.push(row);
    }
    if (rows.length === 0) continue;
    const begin = lines * lineWords;
    let at = begin + undoHeadWords + rows.length;
    const ends = rowBytes.map((width) => {
      at += Math.ceil((width * rows.length) / 4);
      return at;
    });
    const own = Math.ceil((at - begin) / lineWords);
    if (begin + own * lineWords > words.length) return false;
    words.set([tile, rows.length, own, 0, ...rows], begin);
    let to = 4 * (begin + undoHeadWords + rows.length);
    arrays.forEach((from, a) => {
      const width = rowBytes[a]!;
      rows.forEach((row, n) => {
        bytes.set(from.subarray(row * width, (row + 1) * width), to + n * width);
      });
      to = 4 * ends[a]!;
    });
    lines += own;
  }
  Atomics.store(used, 0, lines);
  return true;
};
