// Reads a stream of byte pieces in the portions that a format needs, so that a part of a checkpoint
// is read front to back and is never whole in memory.

export interface Pieces {
  /**
   * The next `count` bytes, aligned to 4 bytes in their buffer: a view where one piece holds them,
   * valid until the next call. Undefined where fewer bytes are left.
   */
  take(count: number): Uint8Array | undefined;
  /** Whether no bytes are left. */
  isAtEnd(): boolean;
  /** Closes the source, if it was not read to its end. */
  close(): void;
}

/** Reads pieces; each piece may overwrite the memory of the one before. */
export function piecesOf(pieces: Iterable<Uint8Array>): Pieces {
  const source = pieces[Symbol.iterator]();
  let piece: Uint8Array = new Uint8Array();
  /** Moves on to the next piece that is not empty. Returns false if there is none. */
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
        const part = new Uint8Array(piece.subarray(0, left)); // Copies, even a Buffer.
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
