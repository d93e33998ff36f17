// A buffer of records in memory, which is sorted and written as a run when it is full.

import { recordHeadBytes } from "./run-files.ts";

/** Bytes per record besides its contents: its offset, its place in the order, its key's prefix. */
const placeBytes = 16;
/** Bytes of a key that are compared as one number. */
const prefixBytes = 6;

/** Collects records until memory is full. */
export class Arena {
  #bytes: Buffer = Buffer.alloc(0);
  readonly #bytesMax: number;
  #used = 0;
  #starts: number[] = [];

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get records(): number {
    return this.#starts.length;
  }

  /** Whether a further record of this size does not fit. The first record always fits. */
  isFullFor(bytes: number): boolean {
    const places = placeBytes * (this.#starts.length + 1);
    const needed = this.#used + recordHeadBytes + bytes + places;
    return this.#starts.length > 0 && needed > this.#bytesMax;
  }

  add(key: Uint8Array, row: Uint8Array): void {
    const length = recordHeadBytes + key.length + row.length;
    this.#need(length);
    this.#starts.push(this.#used);
    this.#bytes.writeUInt32LE(key.length, this.#used);
    this.#bytes.writeUInt32LE(row.length, this.#used + 4);
    this.#bytes.set(key, this.#used + recordHeadBytes);
    this.#bytes.set(row, this.#used + recordHeadBytes + key.length);
    this.#used += length;
  }

  /** Yields the records in the order of their keys (a stable sort), and empties the arena. */
  *take(): Generator<Buffer> {
    const starts = this.#starts;
    const prefixes = Float64Array.from(starts, (start) => this.#prefixOf(start));
    const order = Uint32Array.from(starts.keys());
    order.sort((a, b) => {
      const first = (prefixes[a] ?? 0) - (prefixes[b] ?? 0);
      return first || this.#compare(starts[a] ?? 0, starts[b] ?? 0) || a - b;
    });
    for (const place of order) {
      const start = starts[place] ?? 0;
      yield this.#bytes.subarray(start, starts[place + 1] ?? this.#used);
    }
    this.#starts = [];
    this.#used = 0;
  }

  /** Frees the memory. The arena must be empty. */
  release(): void {
    this.#bytes = Buffer.alloc(0);
  }

  /** A key's first bytes as a number, which compares like the bytes. */
  #prefixOf(start: number): number {
    const length = this.#bytes.readUInt32LE(start);
    const from = start + recordHeadBytes;
    if (length >= prefixBytes) return this.#bytes.readUIntBE(from, prefixBytes);
    return length === 0 ? 0 : this.#bytes.readUIntBE(from, length) * 256 ** (prefixBytes - length);
  }

  #compare(a: number, b: number): number {
    const [aKey, bKey] = [a + recordHeadBytes, b + recordHeadBytes];
    const aEnd = aKey + this.#bytes.readUInt32LE(a);
    const bEnd = bKey + this.#bytes.readUInt32LE(b);
    return this.#bytes.compare(this.#bytes, bKey, bEnd, aKey, aEnd);
  }

  #need(bytes: number): void {
    if (this.#used + bytes <= this.#bytes.length) return;
    const wanted = Math.min(Math.max(2 ** 20, 2 * this.#bytes.length), this.#bytesMax);
    const larger = Buffer.allocUnsafe(Math.max(wanted, this.#used + bytes));
    this.#bytes.copy(larger, 0, 0, this.#used);
    this.#bytes = larger;
  }
}
