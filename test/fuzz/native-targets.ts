// Fuzz targets that read external bytes in the native addon; each result is compared with that of
// the reference reader in TypeScript.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Unpacker } from "../../src/data/parquet/decode/codecs.ts";
import { HybridReader } from "../../src/data/parquet/decode/hybrid.ts";
import { pageDecoders, plainDecoders } from "../../src/data/parquet/decode/page-decoders.ts";
import { slackBytes } from "../../src/data/tables/byte-ranges.ts";
import { CorruptFile } from "../../src/data/tables/damage.ts";
import { unpackLz4Frame } from "../../src/data/tables/lz4.ts";
import { MemoryBudget } from "../../src/data/tables/memory-budget.ts";
import { PieceMemory } from "../../src/data/tables/piece-memory.ts";
import {
  type FieldPlan,
  FieldValues,
  fieldReader,
  type ReadFields,
  readFields,
} from "../../src/data/text/field-values.ts";
import { ByteLines } from "../../src/data/text/text-lines.ts";
import type { Target } from "./target.ts";

/**
 * The value of both readers, or the error of the TypeScript one. Fails if the readers disagree,
 * which is a finding.
 */
function bothSay<T>(read: (isPlain: boolean) => T): T {
  const outcomeOf = (isPlain: boolean): { readonly value?: T; readonly error?: unknown } => {
    try {
      return { value: read(isPlain) };
    } catch (error) {
      return { error };
    }
  };
  const [plain, native] = [outcomeOf(true), outcomeOf(false)];
  const isSame = "error" in plain === "error" in native;
  assert(isSame, `one reader refuses: ${plain.error ?? native.error}`);
  if ("error" in plain) throw plain.error;
  assert.deepEqual(native.value, plain.value, "both readers read the same");
  return plain.value as T;
}

/** Inputs start with one or two bytes that have the unpacked size, or the width of values. */
const snappy: Target = {
  name: "native snappy",
  seeds: () => [
    // "aaaa…", 20 bytes: a literal of one byte, and copies of it.
    Uint8Array.of(20, 0, 20, 0x00, 97, 0x4a, 1, 0),
    Uint8Array.of(12, 0, 12, 0x2c, ...Buffer.from("hello, world")),
    Uint8Array.of(64, 0, 64, 0x0c, ...Buffer.from("abcd"), 0xee, 4, 0, 0x01, 4),
    Uint8Array.of(200, 0, 200, 1, 0xf0, 99, ...new Uint8Array(100), 0xfe, 100, 0, 0x8e, 7, 0),
  ],
  read(bytes) {
    const size = (bytes[0] ?? 0) + 256 * ((bytes[1] ?? 0) & 15);
    const packed = bytes.slice(2);
    return bothSay((isPlain) => {
      const out = new Uint8Array(size);
      (isPlain ? plainDecoders : pageDecoders()).unpackSnappy(out, packed);
      return out;
    });
  },
  refusals: [CorruptFile],
};

const hybrid: Target = {
  name: "native hybrid",
  seeds: () => [
    Uint8Array.of(3, 40, 0x50, 5),
    Uint8Array.of(1, 16, 0x05, 0xa5, 0x5a),
    Uint8Array.of(12, 30, 0x03, ...Array.from({ length: 12 }, (_, i) => 17 * i), 0x2c, 9, 1),
    Uint8Array.of(32, 20, 0x28, 255, 255, 255, 127),
  ],
  read(bytes) {
    const [width = 0, count = 0] = bytes;
    const padded = new Uint8Array(bytes.length + slackBytes);
    padded.set(bytes);
    return bothSay((isPlain) => {
      const { readHybrid } = isPlain ? plainDecoders : pageDecoders();
      const reader = new HybridReader(padded, 2, bytes.length, width % 34, readHybrid);
      const out = new Int32Array(count + 8);
      const most = [
        reader.read(out, 0, count >> 1),
        reader.read(out, count >> 1, count - (count >> 1)),
      ];
      return { out, most };
    });
  },
  refusals: [CorruptFile],
};

const lz4: Target = {
  name: "lz4",
  seeds: () => {
    const head = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
    const literal = [0x50, ...Buffer.from("hello")];
    const copies = [0x1f, 97, 1, 0, 20, 0x10, 98];
    return [
      Uint8Array.of(5, 0, ...head, literal.length, 0, 0, 0, ...literal, 0, 0, 0, 0),
      Uint8Array.of(41, 0, ...head, copies.length, 0, 0, 0, ...copies, 0, 0, 0, 0),
      Uint8Array.of(5, 0, ...head, 5, 0, 0, 0x80, ...Buffer.from("hello"), 0, 0, 0, 0),
    ];
  },
  read(bytes) {
    const out = new Uint8Array((bytes[0] ?? 0) + 256 * (bytes[1] ?? 0));
    unpackLz4Frame(out, bytes.subarray(2));
    return out;
  },
  refusals: [CorruptFile],
};

/** Both forms of LZ4 in pages; inputs start with two bytes that have the unpacked size. */
const lz4Pages: Target = {
  name: "lz4 of pages",
  seeds: () => {
    const literal = [0x50, ...Buffer.from("hello")];
    const copies = [0x1f, 97, 1, 0, 20, 0x10, 98];
    return [
      Uint8Array.of(5, 0, ...literal),
      Uint8Array.of(41, 0, ...copies),
      Uint8Array.of(5, 0, 0, 0, 0, 5, 0, 0, 0, literal.length, ...literal),
    ];
  },
  read(bytes) {
    const size = (bytes[0] ?? 0) + 256 * (bytes[1] ?? 0);
    const errors: unknown[] = [];
    for (const codec of ["LZ4", "LZ4_RAW"]) {
      try {
        const memory = new PieceMemory(new MemoryBudget(bytes.length));
        new Unpacker(codec, pageDecoders(), memory).unpack(bytes.slice(2), size, 0);
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length === 2) throw errors[0];
  },
  // The caller of the page reader adds the file, the row group and the column to these errors.
  refusals: [Error],
};

/** Lines of six fields: two dense ones, and ids that are hashed, integers, and text. */
const plan: FieldPlan = {
  fields: 6,
  delimiter: 44,
  quote: 34,
  dense: Float64Array.of(1, 0, 2, 1),
  ids: Float64Array.of(3, 1, 7, 1000, 0, 1, 4, 2, 0, 500, 10, 0, 5, 0, 0, 9, 0, 0),
};

const fields: Target = {
  name: "native fields",
  seeds: () => [
    Buffer.from("1,0.5,7,apple,42,x\r\n0,-1.25,,pear,11,y\n1,,3,,509,\n"),
    Buffer.from('0,"1",2,"a,b",30,z\n1,123456789012345,-9,é,000000012,w\n'),
    readFileSync("test/fixtures/parquet/clicks.csv").subarray(0, 600),
  ],
  read(bytes) {
    const all = Buffer.from(bytes);
    const lines = new ByteLines(2, all, all.length);
    for (let at = 0; at < all.length; ) {
      const found = all.indexOf(10, at);
      const end = found < 0 ? all.length : found;
      lines.add(at, end, end - at > 300);
      at = end + 1;
    }
    return bothSay((isPlain) => fieldsOf(lines, isPlain ? readFields : fieldReader()));
  },
};

/** The fields that a reader returns for lines. */
function fieldsOf(lines: ByteLines, read: ReadFields) {
  const values = new FieldValues(plan);
  read(values, lines);
  const { count } = lines;
  const width = plan.fields + 1;
  return Array.from({ length: count }, (_, line) => {
    const begins = values.begins.subarray(line * width, (line + 1) * width);
    if (begins[0] === -1) return "not plain";
    const dense = [0, 1].map((i) => values.numbers[i * count + line]);
    const ids = [0, 1, 2].map((i) => values.ids[i * count + line]);
    return { begins: [...begins], dense, ids };
  });
}

export const nativeTargets: readonly Target[] = [snappy, hybrid, lz4, lz4Pages, fields];
