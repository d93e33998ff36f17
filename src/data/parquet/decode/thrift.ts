// Parses Thrift's compact protocol, as far as Parquet's headers use it. Parsing terminates for any
// input: numbers have at most ten bytes, no length reaches beyond the end, and the nesting of
// structures is limited.
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md

import { CorruptFile } from "../../tables/damage.ts";

/** The fields of a structure, by field id. */
export type ThriftStruct = ReadonlyMap<number, ThriftValue>;
/** Integers are numbers: exact up to 2^53. */
export type ThriftValue = number | boolean | Uint8Array | ThriftStruct | readonly ThriftValue[];

/** Deepest nesting of structures and lists. */
const depthMax = 24;

const [stop, yes, no, byte, i16, i32, i64, double, binary, list, set, struct] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12,
];

/** Parses a structure; returns its fields and its end. @throws CorruptFile */
export function readStruct(
  bytes: Uint8Array,
  start: number,
  end: number,
): { readonly fields: ThriftStruct; readonly end: number } {
  const reader = new Reader(bytes, start, end);
  const fields = reader.fields(0);
  return { fields, end: reader.at };
}

/** The bytes end within the structure, so that more bytes may complete it. */
export class ThriftEnded extends CorruptFile {}

class Reader {
  readonly #bytes: Uint8Array;
  readonly #end: number;
  at: number;

  constructor(bytes: Uint8Array, start: number, end: number) {
    this.#bytes = bytes;
    this.at = start;
    this.#end = end;
  }

  fields(depth: number): ThriftStruct {
    if (depth > depthMax)
      throw new CorruptFile(`a header nests deeper than ${depthMax} structures`);
    const fields = new Map<number, ThriftValue>();
    let id = 0;
    for (;;) {
      const head = this.#byte();
      const type = head & 15;
      if (type === stop) return fields;
      id = head >> 4 === 0 ? this.#zigzag() : id + (head >> 4);
      fields.set(id, type === yes || type === no ? type === yes : this.#value(type, depth));
    }
  }

  #value(type: number, depth: number): ThriftValue {
    switch (type) {
      case yes:
      case no:
        return this.#byte() === yes; // Within a list.
      case byte:
        return (this.#byte() << 24) >> 24;
      case i16:
      case i32:
      case i64:
        return this.#zigzag();
      case double:
        return this.#take(8).reduce((sum, one, i) => sum + one * 2 ** (8 * i), 0);
      case binary:
        return this.#take(this.#varint());
      case list:
      case set:
        return this.#list(depth + 1);
      case struct:
        return this.fields(depth + 1);
      default:
        throw new CorruptFile(`a header has a field of the unknown type ${type}`);
    }
  }

  #list(depth: number): ThriftValue[] {
    if (depth > depthMax)
      throw new CorruptFile(`a header nests deeper than ${depthMax} structures`);
    const head = this.#byte();
    const size = head >> 4 === 15 ? this.#varint() : head >> 4;
    // Every element takes at least one byte.
    if (size > this.#end - this.at) throw new ThriftEnded(`a header lists ${size} elements`);
    return Array.from({ length: size }, () => this.#value(head & 15, depth));
  }

  #zigzag(): number {
    const value = this.#varint();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  #varint(): number {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < 10; i++) {
      const one = this.#byte();
      value += (one & 127) * scale;
      if (one < 128) return value;
      scale *= 128;
    }
    throw new CorruptFile("a header has a number of more than ten bytes");
  }

  #take(length: number): Uint8Array {
    if (length > this.#end - this.at) throw new ThriftEnded(`a header has ${length} bytes of text`);
    this.at += length;
    return this.#bytes.subarray(this.at - length, this.at);
  }

  #byte(): number {
    if (this.at >= this.#end) throw new ThriftEnded("a header ends too early");
    return this.#bytes[this.at++] ?? 0;
  }
}
