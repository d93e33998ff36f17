// Decodes DELTA_BINARY_PACKED: integers as bit-packed differences. A reader keeps its position
// between calls. Arithmetic is modulo 2^64, on 32-bit halves.
// https://parquet.apache.org/docs/file-format/data-pages/encodings (DELTA_BINARY_PACKED = 5)
//
//   header   values of a block, mini-blocks of a block, values in all, first value
//   block    least difference, a width for each mini-block, the mini-blocks' differences above it

import { slackBytes } from "../../tables/byte-ranges.ts";
import { CorruptFile } from "../../tables/damage.ts";
import { bitsAt } from "./hybrid.ts";

/** Most values per block; writers use some hundreds. */
const blockMax = 1 << 20;

/** Reads integers of 64 bits, or of 32 bits, which are sign-extended. */
export class DeltaReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #end: number;
  readonly #isWide: boolean;
  readonly #miniBlocks: number;
  readonly #miniValues: number;
  #at: number;
  /** Values left to read in the page. */
  #left: number;
  #isFirst = true;
  #low = 0;
  #high = 0;
  #leastLow = 0;
  #leastHigh = 0;
  /** Offset of the block's bit widths, and the next mini-block. */
  #widths = 0;
  #mini: number;
  /** Values left in the current mini-block, its bit width, and the read position. */
  #miniLeft = 0;
  #width = 0;
  #byte = 0;
  #bit = 0;

  /** `bytes` must extend `slackBytes` beyond `end`. @throws CorruptFile */
  constructor(bytes: Uint8Array, start: number, end: number, isWide: boolean) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#at = start;
    this.#end = end;
    this.#isWide = isWide;
    const block = this.#number();
    this.#miniBlocks = this.#number();
    this.#left = this.#number();
    this.#miniValues = block / this.#miniBlocks;
    this.#mini = this.#miniBlocks;
    const isSound = block <= blockMax && this.#miniValues >= 8 && this.#miniValues % 8 === 0;
    if (!isSound) {
      throw new CorruptFile(`it has blocks of ${block} differences in ${this.#miniBlocks} parts`);
    }
    [this.#low, this.#high] = this.#zigzag();
  }

  /** Values left to read. */
  get left(): number {
    return this.#left;
  }

  /** Offset of the end of the values; valid once all values are read. */
  get end(): number {
    return this.#at;
  }

  /**
   * Writes the next `count` values as pairs of halves, low half first, from pair `from` on.
   * @throws CorruptFile
   */
  read(pairs: Int32Array, from: number, count: number): void {
    if (count > this.#left) throw new CorruptFile("a page has fewer values than it says");
    for (let i = from; i < from + count; i++) {
      if (this.#isFirst) this.#isFirst = false;
      else this.#step();
      pairs[2 * i] = this.#low;
      pairs[2 * i + 1] = this.#isWide ? this.#high : this.#low >> 31;
    }
    this.#left -= count;
  }

  #step(): void {
    if (this.#miniLeft === 0) this.#nextMini();
    this.#miniLeft--;
    let [low, high] = [0, 0];
    const width = this.#width;
    if (width > 0) {
      low = bitsAt(this.#view, this.#byte, this.#bit);
      if (width < 32) low &= (1 << width) - 1;
      else if (width > 32) {
        high = bitsAt(this.#view, this.#byte + 4, this.#bit);
        if (width < 64) high &= (1 << (width - 32)) - 1;
      }
      this.#bit += width;
      this.#byte += this.#bit >> 3;
      this.#bit &= 7;
    }
    const difference = (low >>> 0) + (this.#leastLow >>> 0);
    const sum = (difference % 0x1_0000_0000) + (this.#low >>> 0);
    const carry = (difference >= 0x1_0000_0000 ? 1 : 0) + (sum >= 0x1_0000_0000 ? 1 : 0);
    this.#low = sum | 0;
    this.#high = (this.#high + high + this.#leastHigh + carry) | 0;
  }

  #nextMini(): void {
    if (this.#mini === this.#miniBlocks) {
      [this.#leastLow, this.#leastHigh] = this.#zigzag();
      this.#widths = this.#at;
      this.#at += this.#miniBlocks;
      this.#mini = 0;
      if (this.#at > this.#end) throw ended();
    }
    this.#width = this.#bytes[this.#widths + this.#mini++] ?? 0;
    const bytes = (this.#width * this.#miniValues) / 8;
    // The last mini-block of a page may be truncated after its last value.
    if (this.#width > 64 || this.#at + bytes > this.#end + slackBytes) throw ended();
    this.#miniLeft = this.#miniValues;
    [this.#byte, this.#bit] = [this.#at, 0];
    this.#at += bytes;
  }

  #zigzag(): [low: number, high: number] {
    let [low, high, shift] = [0, 0, 0];
    for (let i = 0; i < 10; i++, shift += 7) {
      const one = this.#next();
      const bits = one & 127;
      if (shift < 32) low |= bits << shift;
      if (shift > 25) high |= shift < 32 ? bits >>> (32 - shift) : bits << (shift - 32);
      if (one < 128) {
        const sign = -(low & 1);
        return [((low >>> 1) | (high << 31)) ^ sign, (high >>> 1) ^ sign];
      }
    }
    throw new CorruptFile("a difference has more than ten bytes");
  }

  #number(): number {
    let value = 0;
    for (let i = 0; i < 5; i++) {
      const one = this.#next();
      value += (one & 127) * 2 ** (7 * i);
      if (one < 128) return value;
    }
    throw new CorruptFile("a count of differences has more than five bytes");
  }

  #next(): number {
    if (this.#at >= this.#end) throw ended();
    return this.#bytes[this.#at++] ?? 0;
  }
}

function ended(): CorruptFile {
  return new CorruptFile("a page has fewer differences than it says");
}
