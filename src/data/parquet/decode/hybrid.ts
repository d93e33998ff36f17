// The hybrid of run lengths and packed bits, in which Parquet writes levels and places in a
// dictionary. A reader goes on where it stopped, so a run of any length costs no memory.
// https://parquet.apache.org/docs/file-format/data-pages/encodings (RLE = 3)
//
//   run      = header value            header = 2 x length, value in whole bytes
//   packed   = header bits             header = 2 x groups + 1, groups of 8 values of `width` bits

import { Damage } from "../../tables/damage.ts";

/** Values of up to 32 bits. */
export class HybridReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #end: number;
  readonly #width: number;
  #at: number;
  /** Values left of the current run. */
  #left = 0;
  #isPacked = false;
  /** Of a run: its value. Of packed bits: bits of the byte at `#at` that are done. */
  #value = 0;

  /** `bytes` has `slackBytes` more behind `end`. */
  constructor(bytes: Uint8Array, start: number, end: number, width: number) {
    if (width > 32) throw new Damage(`it has values of ${width} bits, of at most 32`);
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#at = start;
    this.#end = end;
    this.#width = width;
  }

  /** Writes the next `count` values from `out[from]` on. @throws Damage where there are fewer */
  read(out: Int32Array, from: number, count: number): void {
    if (this.#width === 0) {
      out.fill(0, from, from + count);
      return;
    }
    let at = from;
    for (const end = from + count; at < end; ) {
      if (this.#left === 0) this.#begin();
      const some = Math.min(this.#left, end - at);
      if (this.#isPacked) this.#unpack(out, at, some);
      else out.fill(this.#value, at, at + some);
      this.#left -= some;
      at += some;
    }
  }

  /**
   * Reads the next `count` values where they are one run: returns its value. Undefined: nothing was
   * read. @throws Damage
   */
  readRun(count: number): number | undefined {
    if (this.#width === 0) return 0;
    if (this.#left === 0 && count > 0) this.#begin();
    if (this.#isPacked || this.#left < count) return undefined;
    this.#left -= count;
    return this.#value;
  }

  #begin(): void {
    const header = this.#header();
    this.#isPacked = header % 2 === 1;
    if (this.#isPacked) {
      // The last group may be cut short behind its last value.
      const there = Math.floor(((this.#end - this.#at) * 8) / this.#width);
      this.#left = Math.min(8 * Math.floor(header / 2), there);
      this.#value = 0;
    } else {
      this.#left = header / 2;
      const bytes = Math.ceil(this.#width / 8);
      if (bytes > this.#end - this.#at) throw ended();
      this.#value = 0;
      for (let i = 0; i < bytes; i++) this.#value |= (this.#bytes[this.#at++] ?? 0) << (8 * i);
    }
    if (this.#left === 0 && this.#at >= this.#end) throw ended();
  }

  #header(): number {
    let value = 0;
    for (let i = 0; i < 5; i++) {
      if (this.#at >= this.#end) throw ended();
      const one = this.#bytes[this.#at++] ?? 0;
      value += (one & 127) * 2 ** (7 * i);
      if (one < 128) return value;
    }
    throw new Damage("a run of levels or places has a length of more than five bytes");
  }

  #unpack(out: Int32Array, from: number, count: number): void {
    const [width, view] = [this.#width, this.#view];
    const mask = width === 32 ? -1 : (1 << width) - 1;
    let [at, bit] = [this.#at, this.#value];
    if (width <= 25) {
      for (let i = from; i < from + count; i++) {
        out[i] = (view.getUint32(at, true) >>> bit) & mask;
        bit += width;
        at += bit >> 3;
        bit &= 7;
      }
    } else {
      for (let i = from; i < from + count; i++) {
        out[i] = bitsAt(view, at, bit) & mask;
        bit += width;
        at += bit >> 3;
        bit &= 7;
      }
    }
    this.#at = at;
    this.#value = bit;
    // A run of packed bits ends at a whole byte.
    if (this.#left === count && bit > 0) this.#at++;
  }
}

/** 32 bits from bit `bit`, 0 to 7, of the byte `at` on. */
export function bitsAt(view: DataView, at: number, bit: number): number {
  const low = view.getUint32(at, true) >>> bit;
  return bit === 0 ? low | 0 : low | (view.getUint8(at + 4) << (32 - bit));
}

function ended(): Damage {
  return new Damage("a page has fewer levels or places than it says");
}
