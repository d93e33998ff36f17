// A digest of rows, computed column by column. It depends on the values and the order of rows, but
// not on the division into files and row groups, nor on the order of columns.

import { createHash, type Hash } from "node:crypto";
import type { TableRows } from "./table-columns.ts";

/** Accumulates the digest of rows. */
export class ContentsDigest {
  readonly #columns = new Map<string, Hash>();
  #rows = 0;

  add({ rows, columns }: Pick<TableRows, "rows" | "columns">): void {
    this.#rows += rows;
    for (const [name, values] of columns) {
      const hash = this.#columns.get(name) ?? createHash("sha256").update(name);
      this.#columns.set(name, hash);
      const bytes = new ValueBytes(hash);
      for (const value of values) bytes.add(value);
      bytes.flush();
    }
  }

  get rows(): number {
    return this.#rows;
  }

  /** The digest of all rows so far, in hexadecimal. */
  digest(): string {
    const all = createHash("sha256").update(String(this.#rows));
    const names = [...this.#columns.keys()].sort();
    for (const name of names) all.update(this.#columns.get(name)?.copy().digest() ?? "");
    return all.digest("hex");
  }
}

const tags = { none: 0, number: 1, integer: 2, bytes: 3, boolean: 4, list: 5, members: 6 } as const;

/** Feeds values to a hash in an unambiguous encoding: a tag, a length if needed, the contents. */
class ValueBytes {
  readonly #hash: Hash;
  readonly #memory = Buffer.alloc(0x1_0000);
  #at = 0;

  constructor(hash: Hash) {
    this.#hash = hash;
  }

  add(value: unknown): void {
    if (value === null || value === undefined) this.#tag(tags.none);
    else if (typeof value === "number") {
      this.#tag(tags.number);
      this.#at = this.#memory.writeDoubleLE(value, this.#at);
    } else if (typeof value === "bigint") {
      this.#tag(tags.integer);
      this.#at = this.#memory.writeBigInt64LE(BigInt.asIntN(64, value), this.#at);
    } else if (typeof value === "boolean") {
      this.#tag(tags.boolean);
      this.#at = this.#memory.writeUInt8(Number(value), this.#at);
    } else if (value instanceof Uint8Array) {
      this.#tag(tags.bytes, value.length);
      this.flush();
      this.#hash.update(value);
    } else this.#addMany(value as object);
  }

  #addMany(value: object): void {
    const isList = Array.isArray(value) || ArrayBuffer.isView(value);
    const members: readonly unknown[] = isList
      ? Array.from(value as ArrayLike<unknown>)
      : Object.values(value);
    this.#tag(isList ? tags.list : tags.members, members.length);
    for (const member of members) this.add(member);
  }

  #tag(tag: number, length?: number): void {
    if (this.#at + 16 > this.#memory.length) this.flush();
    this.#at = this.#memory.writeUInt8(tag, this.#at);
    if (length !== undefined) this.#at = this.#memory.writeUInt32LE(length, this.#at);
  }

  flush(): void {
    this.#hash.update(this.#memory.subarray(0, this.#at));
    this.#at = 0;
  }
}
