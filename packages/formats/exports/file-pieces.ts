// Writes a file from pieces whose lengths are known in advance. Pieces are written in order, with a
// mark at intervals, from which writing can resume. A mark may lie between two rows of a table.

import { z } from "zod";
import type { Progress, Unfinished } from "../../../internal.ts";
import type { ExportedTable } from "./exported-model.ts";

/** Approximate bytes between two marks: about a second of writing. */
export const markBytes = 2 ** 28;

/** Bytes, or all rows of a table in float32. */
export type FilePiece = Uint8Array | ExportedTable;

/** The resume mark of such a file: all bytes before `at` are written. */
export const pieceMark = z.object({ at: z.int().nonnegative() });
/** A resume mark. */
export type PieceMark = z.output<typeof pieceMark>;

/** The bytes of numbers, in the same memory. */
export function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Bytes of a piece in the file. */
export function lengthOf(piece: FilePiece): number {
  if (piece instanceof Uint8Array) return piece.length;
  const { rows, dim } = piece.stored.spec;
  return 4 * rows * dim;
}

/** A piece, and its offset in the file. */
export interface PlacedPiece {
  readonly piece: FilePiece;
  readonly first: number;
}

/** Writes the pieces, from the last mark on. @throws CheckpointCorruptError */
export async function writePieces(
  { file, last, save }: Unfinished<PieceMark>,
  pieces: readonly PlacedPiece[],
  progress: Progress,
  everyBytes = markBytes,
): Promise<void> {
  const begun = last?.at ?? 0;
  let marked = begun;
  for (const { piece, first } of pieces) {
    const end = first + lengthOf(piece);
    if (end <= begun && end > first) {
      progress.skip(lengthOf(piece) + (piece instanceof Uint8Array ? 0 : piece.stored.bytes));
      continue;
    }
    if (piece instanceof Uint8Array) {
      for (const own of progress.count([piece])) file.write(own, first);
      continue;
    }
    const rowBytes = 4 * piece.stored.spec.dim;
    const done = Math.max(0, begun - first);
    let at = first + done;
    progress.skip(done);
    for await (const { weights } of piece.rows(progress, done / rowBytes)) {
      const bytes = bytesOf(weights);
      for (const own of progress.count([bytes])) file.write(own, at);
      at += bytes.length;
      if (at - marked < everyBytes) continue;
      await save({ at });
      marked = at;
    }
  }
}
