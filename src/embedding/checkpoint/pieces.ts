// Bytes that come in pieces, taken in the portions that their format has: a part of a checkpoint is
// read front to back, and is never whole in memory.

export interface Pieces {
  /**
   * The next `count` bytes, from a multiple of 4 of their buffer: a view where one piece has them,
   * good until the next call. Undefined where there are fewer.
   */
  take(count: number): Uint8Array | undefined;
  /** Whether nothing follows. */
  isAtEnd(): boolean;
  /** Ends the source, where it was not read to its end. */
  close(): void;
}

/** Reads pieces, each of which may be overwritten by the next one. */
export function piecesOf(pieces: Iterable<Uint8Array>): Pieces {
  const source = pieces[Symbol.iterator]();
  let piece: Uint8Array = new Uint8Array();
  /** Moves on to the next piece that is not empty; false: there is none. */
  const next = () => {
    while (piece.length === 0) {
      const found = source.next();
      if (found.done === true) return false;
      piece = found.value;
    }
    return true;
  };
  return {
    take(count) {
      if (count <= piece.length && piece.byteOffset % 4 === 0) {
        const own = piece.subarray(0, count);
        piece = piece.subarray(count);
        return own;
      }
      const parts: Uint8Array[] = [];
      for (let left = count; left > 0; ) {
        if (!next()) return undefined;
        const part = new Uint8Array(piece.subarray(0, left)); // A copy, of a Buffer too.
        parts.push(part);
        piece = piece.subarray(part.length);
        left -= part.length;
      }
      return parts.length === 1 ? parts[0] : joined(parts, count);
    },
    isAtEnd: () => !next(),
    close: () => void source.return?.(),
  };
}

function joined(parts: readonly Uint8Array[], bytes: number): Uint8Array {
  const whole = new Uint8Array(bytes);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
