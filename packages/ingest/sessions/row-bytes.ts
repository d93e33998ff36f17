// Encodes rows of stored values as bytes for sorting: each value is a tag and its contents. Lists
// of integers, which make up most rows, are stored as plain arrays, with 4 bytes per integer if all
// of them fit.

import assert from "node:assert/strict";

const tags = {
  none: 0,
  no: 1,
  yes: 2,
  number: 3,
  integer: 4,
  bytes: 5,
  list: 6,
  integers: 7,
  shortIntegers: 8,
  numbers: 9,
  members: 10,
} as const;

/** Appends values to a growing buffer. */
export class RowWriter {
  #bytes = Buffer.alloc(4096);
  #at = 0;
  #integers = new BigInt64Array(64);

  /** The bytes written since `clear`. Valid until the next call. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#at);
  }

  get length(): number {
    return this.#at;
  }

  clear(): void {
    this.#at = 0;
  }

  /** Appends a value in the representation of `TableRows`. */
  add(value: unknown): void {
    this.#need(16);
    if (value === null || value === undefined) this.#tag(tags.none);
    else if (typeof value === "number") {
      this.#tag(tags.number);
      this.#at = this.#bytes.writeDoubleLE(value, this.#at);
    } else if (typeof value === "bigint") {
      this.#tag(tags.integer);
      this.#at = this.#bytes.writeBigInt64LE(BigInt.asIntN(64, value), this.#at);
    } else if (typeof value === "boolean") this.#tag(value ? tags.yes : tags.no);
    else if (value instanceof Uint8Array) this.#addBytes(tags.bytes, value);
    else if (Array.isArray(value)) this.#addList(value);
    else if (ArrayBuffer.isView(value)) {
      // A typed array. A DataView never occurs in a row, which the type cannot express.
      this.#addList(Array.from(value as unknown as ArrayLike<unknown>));
    } else this.#addMembers(value as object);
  }

  #addList(list: readonly unknown[]): void {
    const first = typeof list[0];
    if (first === "bigint" && list.every((item) => typeof item === "bigint")) {
      this.#addIntegers(list);
    } else if (first === "number" && list.every((item) => typeof item === "number")) {
      this.#tag(tags.numbers, list.length);
      this.#need(8 * list.length);
      for (const item of list) this.#at = this.#bytes.writeDoubleLE(item, this.#at);
    } else {
      this.#tag(tags.list, list.length);
      for (const item of list) this.add(item);
    }
  }

  #addIntegers(list: readonly bigint[]): void {
    const count = list.length;
    if (this.#integers.length < count) this.#integers = new BigInt64Array(2 * count);
    let isShort = true;
    const halves = new Int32Array(this.#integers.buffer);
    for (let i = 0; i < count; i++) {
      this.#integers[i] = list[i] ?? 0n; // Modulo 2^64, as Parquet stores it.
      isShort &&= halves[2 * i + 1] === (halves[2 * i] ?? 0) >> 31;
    }
    this.#tag(isShort ? tags.shortIntegers : tags.integers, count);
    this.#need(8 * count);
    if (isShort) {
      for (let i = 0; i < count; i++) {
        this.#at = this.#bytes.writeInt32LE(halves[2 * i] ?? 0, this.#at);
      }
    } else {
      this.#bytes.set(new Uint8Array(this.#integers.buffer, 0, 8 * count), this.#at);
      this.#at += 8 * count;
    }
  }

  #addMembers(value: object): void {
    const members = Object.entries(value);
    this.#tag(tags.members, members.length);
    for (const [name, member] of members) {
      this.#addBytes(tags.bytes, Buffer.from(name, "utf8"));
      this.add(member);
    }
  }

  #addBytes(tag: number, bytes: Uint8Array): void {
    this.#tag(tag, bytes.length);
    this.#need(bytes.length);
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  #tag(tag: number, length?: number): void {
    this.#need(16);
    this.#bytes[this.#at++] = tag;
    if (length !== undefined) this.#at = this.#bytes.writeUInt32LE(length, this.#at);
  }

  #need(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return;
    const larger = Buffer.alloc(Math.max(2 * this.#bytes.length, this.#at + bytes));
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}

/** Reads the values of a `RowWriter`, one by one. */
export class RowReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Bytes read so far. */
  get at(): number {
    return this.#at;
  }

  /** The next value, in newly allocated memory. */
  next(): unknown {
    const tag = this.#bytes[this.#at++];
    switch (tag) {
      case tags.none:
        return undefined;
      case tags.no:
        return false;
      case tags.yes:
        return true;
      case tags.number:
        this.#at += 8;
        return this.#bytes.readDoubleLE(this.#at - 8);
      case tags.integer:
        this.#at += 8;
        return this.#bytes.readBigInt64LE(this.#at - 8);
      case tags.bytes:
        return this.#nextBytes();
      case tags.list:
        return this.#many(() => this.next());
      case tags.integers:
        return this.#many(() => {
          this.#at += 8;
          return this.#bytes.readBigInt64LE(this.#at - 8);
        });
      case tags.shortIntegers:
        return this.#many(() => {
          this.#at += 4;
          return BigInt(this.#bytes.readInt32LE(this.#at - 4));
        });
      case tags.numbers:
        return this.#many(() => {
          this.#at += 8;
          return this.#bytes.readDoubleLE(this.#at - 8);
        });
      case tags.members:
        return Object.fromEntries(
          this.#many(() => {
            this.#at++;
            return [this.#nextBytes().toString("utf8"), this.next()] as const;
          }),
        );
      default:
        return assert.fail(`The bytes of a row have the tag ${tag}`);
    }
  }

  #nextBytes(): Buffer {
    const length = this.#length();
    this.#at += length;
    return Buffer.from(this.#bytes.subarray(this.#at - length, this.#at));
  }

  #many<Item>(next: () => Item): Item[] {
    const items = new Array<Item>(this.#length());
    for (let i = 0; i < items.length; i++) items[i] = next();
    return items;
  }

  #length(): number {
    this.#at += 4;
    return this.#bytes.readUInt32LE(this.#at - 4);
  }
}
