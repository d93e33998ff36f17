// Writes a file from pieces whose lengths are known in advance. Pieces are written in order, with a
// mark at intervals, from which writing can resume. A mark may lie between two rows of a table.

import { z } from "zod";
import type { Progress, Unfinished } from "../../../internal.ts";
import type { ExportedTable } from "./exported-model.ts";

/** Approximate bytes between two marks: about a second of writing. */
export const markBytes = 2 ** 28;

/** Contents of a file whose length is known before they are read. */
export interface FilePiece {
  readonly bytes: number;
  /** Bytes of the checkpoint that are read for it. */
  readonly sourceBytes: number;
  /** The table, if the piece is its rows. */
  readonly table?: ExportedTable;
  /**
   * The bytes from byte `begin` on, in pieces; each is valid until the next one. `begin` lies
   * between two rows. @throws CheckpointCorruptError
   */
  read(progress: Progress, begin: number): AsyncIterable<Uint8Array>;
}

/** The bytes of numbers, in the same memory. */
export function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** A piece with the bytes of these numbers. */
export function numbersPiece(numbers: ArrayBufferView): FilePiece {
  const bytes = bytesOf(numbers);
  async function* read(_: Progress, begin: number) {
    yield bytes.subarray(begin);
  }
  return { bytes: bytes.length, sourceBytes: 0, read };
}

/** A piece with all rows of a table, in float32. */
export function rowsPiece(table: ExportedTable): FilePiece {
  const { spec, bytes: sourceBytes } = table.stored;
  async function* read(progress: Progress, begin: number) {
    for await (const { weights } of table.rows(progress, begin / (4 * spec.dim))) {
      yield bytesOf(weights);
    }
  }
  return { bytes: 4 * spec.rows * spec.dim, sourceBytes, table, read };
}

/** A piece, and its offset in the file. */
export interface PlacedPiece {
  readonly piece: FilePiece;
  readonly first: number;
}

/** The resume mark of such a file: all bytes before `at` are written. */
export const pieceMark = z.object({ at: z.int().nonnegative() });
/** A resume mark. */
export type PieceMark = z.output<typeof pieceMark>;

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
    const end = first + piece.bytes;
    if (end <= begun && end > first) {
      progress.skip(piece.bytes + piece.sourceBytes);
      continue;
    }
    let at = Math.max(first, begun);
    progress.skip(at - first);
    for await (const bytes of piece.read(progress, at - first)) {
      for (const counted of progress.count([bytes])) file.write(counted, at);
      at += bytes.length;
      if (at - marked < everyBytes) continue;
      await save({ at });
      marked = at;
    }
  }
}
