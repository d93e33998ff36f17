// Parquet files written by hand, with any number in their headers possibly false. The bytes follow
// the format's specification:
// https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift and
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md

import { gzipSync } from "node:zlib";

type Value = number | bigint | string | readonly Value[] | Struct;
/** A Thrift struct: fields by number. A bigint is an i64, a number an i32. */
interface Struct {
  readonly [field: number]: Value;
}

function varint(value: bigint): number[] {
  const bytes: number[] = [];
  for (let left = value; ; left >>= 7n) {
    if (left < 128n) return [...bytes, Number(left)];
    bytes.push(Number(left & 127n) | 128);
  }
}

const zigzag = (value: bigint) => varint(value < 0n ? -2n * value - 1n : 2n * value);

function encoded(value: Value): [type: number, bytes: number[]] {
  if (typeof value === "number") return [5, zigzag(BigInt(value))];
  if (typeof value === "bigint") return [6, zigzag(value)];
  if (typeof value === "string") {
    const text = Buffer.from(value, "latin1");
    return [8, [...varint(BigInt(text.length)), ...text]];
  }
  if (Array.isArray(value)) {
    const list = value as readonly Value[];
    const type = list[0] === undefined ? 5 : encoded(list[0])[0];
    const head = list.length < 15 ? [(list.length << 4) | type] : [0xf0 | type];
    const size = list.length < 15 ? [] : varint(BigInt(list.length));
    return [9, [...head, ...size, ...list.flatMap((one) => encoded(one)[1])]];
  }
  let last = 0;
  const bytes: number[] = [];
  for (const [name, field] of Object.entries(value as Struct)) {
    const [type, own] = encoded(field);
    bytes.push(((Number(name) - last) << 4) | type, ...own);
    last = Number(name);
  }
  return [12, [...bytes, 0]];
}

const struct = (of: Struct): Buffer => Buffer.from(encoded(of)[1]);

/** Physical types and encodings by their numbers. */
export const types = { boolean: 0, int32: 1, text: 6, fixed: 7 } as const;
export const encodings = { plain: 0, deltaLength: 6, deltaText: 7, dictionary: 8 } as const;

interface Page {
  readonly kind: "data" | "dictionary";
  readonly count: number;
  readonly encoding: number;
  readonly bytes: Uint8Array;
  /** The uncompressed size that the header states. @default the actual size */
  readonly size?: number;
}

interface WrittenColumn {
  /** "": the schema leaves the name out. */
  readonly name: string;
  readonly type: number;
  readonly pages: readonly Page[];
  /** @default true */
  readonly isPacked?: boolean;
  /**
   * Further fields of its schema element: 2 `type_length`, 6 `converted_type`, 7 `scale`, 8
   * `precision`.
   */
  readonly schema?: Struct;
}

/** A file of one gzip-compressed row group without nulls. */
export function parquetOf(rows: number, columns: readonly WrittenColumn[]): Buffer {
  const parts: Uint8Array[] = [Buffer.from("PAR1")];
  let at = 4;
  const chunks = columns.map(({ name, type, pages, isPacked = true }) => {
    const start = at;
    let [data, dictionary, unpacked] = [-1, -1, 0];
    for (const { kind, count, encoding, bytes, size = bytes.length } of pages) {
      const packed = isPacked ? gzipSync(bytes) : bytes;
      const about: Struct =
        kind === "data"
          ? { 5: { 1: count, 2: encoding, 3: 3, 4: 3 } }
          : { 7: { 1: count, 2: encoding } };
      const header = struct({
        1: kind === "data" ? 0 : 2,
        2: size,
        3: packed.length,
        ...about,
      });
      if (kind === "dictionary") dictionary = at;
      else if (data < 0) data = at;
      unpacked += header.length + bytes.length;
      parts.push(header, packed);
      at += header.length + packed.length;
    }
    const sizes = { 5: BigInt(rows), 6: BigInt(unpacked), 7: BigInt(at - start), 9: BigInt(data) };
    const own = dictionary < 0 ? {} : { 11: BigInt(dictionary) };
    const codec = isPacked ? 2 : 0;
    const meta = { 1: type, 2: [0, 3, 8], 3: [name], 4: codec, ...sizes, ...own };
    return { 2: BigInt(start), 3: meta };
  });
  const leaves = columns.map(({ name, type, schema = {} }) => {
    const { 2: length, ...more } = schema;
    return {
      1: type,
      ...(length === undefined ? {} : { 2: length }),
      3: 0,
      ...(name === "" ? {} : { 4: name }),
      ...more,
    };
  });
  const footer = struct({
    1: 1,
    2: [{ 4: "root", 5: columns.length }, ...leaves],
    3: BigInt(rows),
    4: [{ 1: chunks, 2: BigInt(at), 3: BigInt(rows) }],
  });
  const end = Buffer.alloc(8);
  end.writeUInt32LE(footer.length);
  end.write("PAR1", 4, "latin1");
  return Buffer.concat([...parts, footer, end]);
}

/** A dictionary-encoded page: a run of index 0. */
export function placesOfFirst(count: number): Page {
  const bytes = Uint8Array.from([1, ...varint(BigInt(count) << 1n), 0]);
  return { kind: "data", count, encoding: encodings.dictionary, bytes };
}

/** Delta encoding of `values`: one block of 1024 values, each difference 32 bits wide. */
export function deltasOf(values: readonly number[], said = values.length): Buffer {
  const [first = 0] = values;
  // Miniblocks without a difference are left out.
  const differences = Buffer.alloc(4 * 256 * Math.ceil((values.length - 1) / 256));
  for (const [i, value] of values.slice(1).entries()) {
    differences.writeUInt32LE(value - (values[i] ?? 0) + 0x4000_0000, 4 * i);
  }
  const head = [...varint(1024n), ...varint(4n), ...varint(BigInt(said)), ...zigzag(BigInt(first))];
  const block = [...zigzag(-0x4000_0000n), 32, 32, 32, 32];
  return Buffer.concat([Buffer.from([...head, ...block]), differences]);
}
