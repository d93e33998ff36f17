// The distinct texts of a column in a row group: the texts of its dictionary, then those of pages
// without a dictionary.

import { CorruptFile } from "../../tables/damage.ts";
import { TextBudget } from "../../tables/memory-budget.ts";

/** Texts beyond the dictionary that are kept across batches. */
const textsMax = 65_536;

/** Gives each text a code. A code means its text until the next `begin`. */
export class TextPool {
  #known: readonly string[] = [];
  #all: string[] = [];
  #codes: Map<string, number> | undefined;
  readonly #budget = new TextBudget();

  /** The texts, by code. */
  get dictionary(): readonly string[] {
    return this.#codes === undefined ? this.#known : this.#all;
  }

  /** Sets the texts of the column's dictionary; their codes are their indices. */
  setKnown(texts: readonly string[]): void {
    this.#known = texts;
    this.#codes = undefined;
  }

  /** Starts a batch. Texts of earlier batches may be dropped. */
  begin(): void {
    const isFull = this.#all.length - this.#known.length > textsMax || this.#budget.isHalfTaken;
    if (isFull) this.#codes = undefined;
  }

  codeOf(text: string): number {
    if (this.#codes === undefined) {
      this.#all = [...this.#known];
      this.#codes = new Map(this.#known.map((one, code) => [one, code]));
      this.#budget.begin();
    }
    const known = this.#codes.get(text);
    if (known !== undefined) return known;
    this.#budget.take(text.length);
    this.#codes.set(text, this.#all.length);
    return this.#all.push(text) - 1;
  }
}

/** Reads PLAIN texts: each is preceded by its length. */
export class PlainTexts {
  readonly #bytes: Buffer;
  readonly #end: number;
  #at: number;

  constructor(bytes: Uint8Array, start: number, end: number) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#at = start;
    this.#end = end;
  }

  /** The next text, one character per byte. @throws CorruptFile */
  next(): string {
    if (this.#at + 4 > this.#end) throw new CorruptFile("a page has fewer texts than it says");
    const start = this.#at + 4;
    return this.take(start, this.#bytes.readUInt32LE(this.#at));
  }

  /** The next `length` bytes as a text. */
  fixed(length: number): string {
    return this.take(this.#at, length);
  }

  take(start: number, length: number): string {
    const end = start + length;
    if (end > this.#end)
      throw new CorruptFile(`a page has a text of ${length} bytes, beyond its end`);
    this.#at = end;
    return this.#bytes.toString("latin1", start, end);
  }
}
