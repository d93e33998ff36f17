// What the bytes of a file may ask for in memory: what a count, a length or a packed page says is
// held to what the file has paid for it, before memory is taken. A file of some kilobytes can say
// that it has gigabytes.
//
// A little is free, as a column of one value packs to nothing; beyond it a byte of the file pays
// for so many bytes of memory.

import { Damage } from "./damage.ts";

/** Unpacked bytes that need not be paid for: some million values of a column that has one. */
const unpackedFreeBytes = 2 ** 26;
/** Of a dictionary, whose values differ. */
const dictionaryFreeBytes = 2 ** 20;
/** Bytes that a packed byte may unpack to. Columns of tables have a tenth of it. */
const unpackedRatioMax = 256;
/** Memory of the columns of one piece of a file that need not be paid for. */
const pieceFreeBytes = 2 ** 30;
/** Memory that a byte of the file pays for. */
const pieceRatioMax = 64;
/** Texts of one column that are held at a time. */
const heldTextBytesMax = 2 ** 29;
/** What a text takes beside its characters. */
const textBytes = 24;

/** Refuses what says that it unpacks to more than it may. `what`: "a page". @throws Damage */
export function checkUnpacked(what: string, bytes: number, packedBytes: number): void {
  checkRatio(what, bytes, packedBytes, unpackedFreeBytes);
}

/** The same of a dictionary. @throws Damage */
export function checkDictionary(bytes: number, packedBytes: number): void {
  checkRatio("its dictionary", bytes, packedBytes, dictionaryFreeBytes);
}

function checkRatio(what: string, bytes: number, packedBytes: number, freeBytes: number): void {
  const max = Math.max(freeBytes, unpackedRatioMax * packedBytes);
  if (bytes <= max) return;
  throw new Damage(
    `${what} says that its ${packedBytes} bytes unpack to ${bytes}, and Osiris unpacks ${max} ` +
      "of so few at most",
  );
}

/** Counts the memory of a piece: a row group, or a record batch. */
export class MemoryBudget {
  readonly #max: number;
  #taken = 0;

  /** `paidBytes`: of the file, or of the piece. */
  constructor(paidBytes: number) {
    this.#max = pieceFreeBytes + pieceRatioMax * paidBytes;
  }

  /** Begins a piece: what was taken for the one before is free. */
  begin(): void {
    this.#taken = 0;
  }

  /** Counts memory before it is taken. @throws Damage */
  take(bytes: number): void {
    this.#taken += bytes;
    if (this.#taken <= this.#max) return;
    throw new Damage(
      `its columns need more than ${this.#max} bytes of memory at once, more than a file of its ` +
        "size may have: write smaller row groups or record batches",
    );
  }
}

/** Counts the texts of a column that are held at a time: several may share the same bytes. */
export class TextBudget {
  #taken = 0;

  get isHalfTaken(): boolean {
    return this.#taken > heldTextBytesMax / 2;
  }

  begin(): void {
    this.#taken = 0;
  }

  /** Counts a text that is kept. @throws Damage */
  take(length: number): void {
    this.#taken += textBytes + length;
    if (this.#taken <= heldTextBytesMax) return;
    throw new Damage(
      `its texts need more than ${heldTextBytesMax} bytes at once: write shorter texts, or fewer ` +
        "in a row group or a record batch",
    );
  }
}
