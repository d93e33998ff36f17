// Memory budgets for untrusted files. A count, a length or a page header of a file of some
// kilobytes can claim gigabytes. Before memory is allocated, the claim is checked against a limit
// in proportion to the size of the file.
//
// A fixed amount is free, because a column of one repeated value compresses to almost nothing.
// Beyond it, each byte of the file allows a fixed number of bytes of memory.

import { CorruptFile } from "./damage.ts";

/** Free decompressed bytes: some million values of a column with a single value. */
const unpackedFreeBytes = 2 ** 26;
/** Free decompressed bytes of a dictionary, whose values are distinct. */
const dictionaryFreeBytes = 2 ** 20;
/** Highest compression ratio beyond the free bytes. Real columns reach a tenth of it. */
const unpackedRatioMax = 256;
/** Free memory for the columns of one piece, in bytes. */
const pieceFreeBytes = 2 ** 30;
/** Bytes of memory allowed per byte of the file. */
const pieceRatioMax = 64;
/** Most memory for the texts of one column at a time, in bytes. */
const heldTextBytesMax = 2 ** 29;
/** Memory overhead of a text, in bytes. */
const textBytes = 24;

/**
 * Refuses a claimed decompressed size beyond the limit. `what`: for example "a page".
 * @throws CorruptFile
 */
export function checkUnpacked(what: string, bytes: number, packedBytes: number): void {
  checkRatio(what, bytes, packedBytes, unpackedFreeBytes);
}

/** As `checkUnpacked`, for a dictionary. @throws CorruptFile */
export function checkDictionary(bytes: number, packedBytes: number): void {
  checkRatio("its dictionary", bytes, packedBytes, dictionaryFreeBytes);
}

function checkRatio(what: string, bytes: number, packedBytes: number, freeBytes: number): void {
  const max = Math.max(freeBytes, unpackedRatioMax * packedBytes);
  if (bytes <= max) return;
  throw new CorruptFile(
    `${what} says that its ${packedBytes} bytes unpack to ${bytes}, more than the limit of ${max}`,
  );
}

/** Counts the memory of a piece: a row group, or a record batch. */
export class MemoryBudget {
  readonly #max: number;
  #taken = 0;

  /** `paidBytes`: size of the file or of the piece. */
  constructor(paidBytes: number) {
    this.#max = pieceFreeBytes + pieceRatioMax * paidBytes;
  }

  /** Starts a piece: the memory of the previous piece is free again. */
  begin(): void {
    this.#taken = 0;
  }

  /** Counts memory before it is allocated. @throws CorruptFile */
  take(bytes: number): void {
    this.#taken += bytes;
    if (this.#taken <= this.#max) return;
    throw new CorruptFile(
      `its columns need more than ${this.#max} bytes of memory at once, more than a file of its ` +
        "size may have: write smaller row groups or record batches",
    );
  }
}

/**
 * Limits the memory for a column's texts. The size of the file does not limit it, because several
 * texts may share the same bytes of the file.
 */
export class TextBudget {
  #taken = 0;

  get isHalfTaken(): boolean {
    return this.#taken > heldTextBytesMax / 2;
  }

  begin(): void {
    this.#taken = 0;
  }

  /** Counts a text before it is kept. @throws CorruptFile */
  take(length: number): void {
    this.#taken += textBytes + length;
    if (this.#taken <= heldTextBytesMax) return;
    throw new CorruptFile(
      `its texts need more than ${heldTextBytesMax} bytes at once: write shorter texts, or fewer ` +
        "in a row group or a record batch",
    );
  }
}
