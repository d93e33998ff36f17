// The page decoders: the addon decodes the same as the TypeScript decoders, and finds the same
// faults.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { Unpacker } from "../../../src/data/parquet/decode/codecs.ts";
import { HybridReader } from "../../../src/data/parquet/decode/hybrid.ts";
import {
  type PageDecoders,
  pageDecoders,
  plainDecoders,
} from "../../../src/data/parquet/decode/page-decoders.ts";
import { readFooter } from "../../../src/data/parquet/footer.ts";
import { readParquet } from "../../../src/data/parquet/read-parquet.ts";
import { columnNames, shapeOf } from "../../../src/data/parquet/shapes.ts";
import { openRanges, slackBytes } from "../../../src/data/tables/byte-ranges.ts";
import { CorruptFile } from "../../../src/data/tables/damage.ts";
import { MemoryBudget } from "../../../src/data/tables/memory-budget.ts";
import { PieceMemory } from "../../../src/data/tables/piece-memory.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { sameValues } from "../../helpers/same-values.ts";
import { fixtures } from "./parquet-files.ts";

const both = [pageDecoders(), plainDecoders];

/** The result of a call, or the message of its error. */
function outcomeOf(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error instanceof Error ? error.message : error;
  }
}

/** A hybrid (RLE and bit-packed) encoding of random values of `width` bits, and the values. */
function drawnHybrid(random: RandomStream, width: number) {
  const bytes: number[] = [];
  const values: number[] = [];
  const put = (number: number) => {
    let left = number;
    for (; left >= 128; left = Math.floor(left / 128)) bytes.push((left % 128) | 128);
    bytes.push(left);
  };
  const draw = () => (width === 0 ? 0 : random.word() >>> (32 - width));
  for (let run = random.below(6); run >= 0; run--) {
    if (random.below(2) === 0) {
      const [length, value] = [random.below(300), draw()];
      put(2 * length);
      for (let i = 0; i < width; i += 8) bytes.push(Math.floor(value / 2 ** i) & 255);
      values.push(...Array(length).fill(value));
    } else {
      const groups = random.below(12);
      put(2 * groups + 1);
      for (let group = 0; group < groups; group++) {
        let bits = 0n;
        for (let i = 0; i < 8; i++) {
          const value = draw();
          values.push(value);
          bits |= BigInt(value) << BigInt(i * width);
        }
        for (let i = 0; i < width; i++) bytes.push(Number((bits >> BigInt(8 * i)) & 255n));
      }
    }
  }
  return { bytes, values };
}

test("RLE and bit-packed runs of every width are read in pieces of any length", (t) => {
  const random = new RandomStream(21, 1);
  for (let round = 0; round < 200; round++) {
    const width = round % 33;
    const { bytes, values } = drawnHybrid(random, width);
    const memory = new Uint8Array(bytes.length + slackBytes).fill(255);
    memory.set(bytes);
    const pieces: number[] = [];
    for (let left = values.length; left > 0; left -= pieces.at(-1) ?? 0) {
      pieces.push(Math.min(left, random.below(200)));
    }
    for (const { readHybrid } of both) {
      const reader = new HybridReader(memory, 0, bytes.length, width, readHybrid);
      const out = new Int32Array(values.length + 2);
      let at = 0;
      for (const count of pieces) {
        const own = values.slice(at, at + count);
        const run = random.below(3) === 0 ? reader.readRun(count) : undefined;
        if (run !== undefined) {
          t.true(own.every((value) => value === run >>> 0));
          out.fill(run, at, at + count);
        } else t.is(reader.read(out, at, count), Math.max(0, ...own));
        at += count;
      }
      sameValues(t, out, Int32Array.from([...values, 0, 0]));
    }
  }
});

test("truncated or random hybrid encodings give the same fault in both decoders", (t) => {
  const random = new RandomStream(22, 1);
  let faults = 0;
  for (let round = 0; round < 400; round++) {
    const width = 1 + random.below(32);
    const drawn = random.below(2) === 0 ? drawnHybrid(random, width).bytes : [];
    const length = drawn.length === 0 ? random.below(40) : random.below(drawn.length + 1);
    const memory = Uint8Array.from({ length: length + slackBytes }, (_, i) => {
      return drawn[i] ?? (random.below(3) === 0 ? 255 : random.below(256));
    });
    const found = both.map(({ readHybrid }) => {
      const reader = new HybridReader(memory, 0, length, width, readHybrid);
      const out = new Int32Array(500);
      return Array.from({ length: 5 }, (_, i) => {
        const most = outcomeOf(() => reader.read(out, 100 * i, 100));
        return typeof most === "string" ? most : [most, [...out.subarray(100 * i, 100 * i + 100)]];
      });
    });
    // Compares the results up to the first fault, where a reader stops.
    const until = (all: unknown[] = []) => {
      const end = all.findIndex((one) => typeof one === "string");
      if (end >= 0) faults++;
      return end < 0 ? all : all.slice(0, end + 1);
    };
    t.deepEqual(until(found[0]), until(found[1]));
  }
  t.true(faults > 100, `${faults} faults`);
  for (const { readHybrid } of both) {
    const tooLong = new HybridReader(new Uint8Array(16).fill(255), 0, 8, 3, readHybrid);
    const error = t.throws(() => tooLong.read(new Int32Array(1), 0, 1), {
      instanceOf: CorruptFile,
    });
    t.regex(error.message, /a length of more than five bytes/);
  }
});

test("values are gathered by their dictionary indices", (t) => {
  const random = new RandomStream(23, 1);
  const places = Int32Array.from({ length: 99 }, () => random.below(7));
  const numbers = Float64Array.of(-0, Number.NaN, 1e300, -1, 0.5, Infinity, 3);
  const pairs = Int32Array.from({ length: 14 }, () => random.word() | 0);
  for (const { takeNumbers, takePairs } of both) {
    const [some, twice] = [new Float64Array(103), new Int32Array(206)];
    takeNumbers(some, 2, numbers, places, 99);
    takePairs(twice, 2, pairs, places, 99);
    t.deepEqual(
      [...some.subarray(2, 101)],
      Array.from(places, (place) => numbers[place]),
    );
    const wanted = Array.from(places, (place) => [pairs[2 * place], pairs[2 * place + 1]]).flat();
    t.deepEqual([...twice.subarray(4, 202)], wanted);
    t.deepEqual([some[1], some[101], twice[3], twice[202]], [0, 0, 0, 0]);
  }
});

/**
 * Random Snappy data with all forms of literals and copies, and the bytes that it decompresses to.
 */
function drawnSnappy(random: RandomStream) {
  const packed: number[] = [];
  const bytes: number[] = [];
  const little = (number: number, size: number) => {
    for (let i = 0; i < size; i++) packed.push(Math.floor(number / 2 ** (8 * i)) & 255);
  };
  for (let elements = random.below(20); elements >= 0; elements--) {
    const form = bytes.length === 0 ? 0 : random.below(4);
    if (form === 0) {
      const length = 1 + random.below(random.below(3) === 0 ? 400 : 60);
      const size = length <= 60 ? 0 : length <= 256 && random.below(2) === 0 ? 1 : 2;
      packed.push((size === 0 ? length - 1 : 59 + size) << 2);
      little(length - 1, size);
      for (let i = 0; i < length; i++) {
        const byte = random.below(256);
        packed.push(byte);
        bytes.push(byte);
      }
      continue;
    }
    const length = form === 1 ? 4 + random.below(8) : 1 + random.below(64);
    const offset = 1 + random.below(Math.min(bytes.length, random.below(2) === 0 ? 12 : 2047));
    if (form === 1) packed.push(1 | ((length - 4) << 2) | ((offset >> 8) << 5), offset & 255);
    else {
      packed.push(form | ((length - 1) << 2));
      little(offset, form === 2 ? 2 : 4);
    }
    for (let i = 0; i < length; i++) bytes.push(bytes[bytes.length - offset] ?? 0);
  }
  return { packed: [...varint(bytes.length), ...packed], bytes };
}

function varint(number: number): number[] {
  return number < 128 ? [number] : [(number % 128) | 128, ...varint(Math.floor(number / 128))];
}

test("Snappy decompresses to the same bytes, and invalid data give the same fault", (t) => {
  const random = new RandomStream(24, 1);
  let faults = 0;
  for (let round = 0; round < 400; round++) {
    const { packed, bytes } = drawnSnappy(random);
    for (const { unpackSnappy } of both) {
      const body = new Uint8Array(bytes.length);
      unpackSnappy(body, Uint8Array.from(packed));
      t.true(Buffer.from(bytes).equals(body));
    }
    const damaged = Uint8Array.from(packed).subarray(0, packed.length - random.below(3));
    for (let i = random.below(4); i > 0; i--) {
      damaged[random.below(damaged.length)] = random.below(256);
    }
    const found = both.map(({ unpackSnappy }) => {
      const body = new Uint8Array(bytes.length);
      const fault = outcomeOf(() => unpackSnappy(body, damaged));
      return fault ?? Buffer.from(body).toString("hex");
    });
    t.is(found[0], found[1]);
    if (/[ g-z]/.test(String(found[0]))) faults++;
  }
  t.true(faults > 50, `${faults} faults`);
});

test("a Snappy literal of 4,294,967,291 bytes is refused, and not read backwards", (t) => {
  // The length is an unsigned 32-bit number; read as signed, it leads back to its own tag.
  for (const { unpackSnappy } of both) {
    const packed = Uint8Array.of(20, 0xfc, 0xfa, 0xff, 0xff, 0xff, 1, 2);
    t.throws(() => unpackSnappy(new Uint8Array(20), packed), { instanceOf: CorruptFile });
  }
});

/** `hello` and nine times `a`, as LZ4 blocks. */
const [helloBlock, copiesBlock] = [
  [0x50, 104, 101, 108, 108, 111],
  [0x14, 97, 1, 0, 0],
] as const;

test("LZ4 pages are a block or Hadoop frames; other lengths are refused", (t) => {
  const unpack = (codec: string, packed: readonly number[], size: number) => {
    const memory = new PieceMemory(new MemoryBudget(packed.length));
    const unpacker = new Unpacker(codec, plainDecoders, memory);
    return Buffer.from(
      unpacker.unpack(Uint8Array.from(packed), size, 0).subarray(0, size),
    ).toString();
  };
  const size = (bytes: number) => [0, 0, 0, bytes];
  const hello = [...size(5), ...size(helloBlock.length), ...helloBlock];
  const copies = [...size(9), ...size(copiesBlock.length), ...copiesBlock];
  t.is(unpack("LZ4", [...hello, ...copies], 14), `hello${"a".repeat(9)}`);
  for (const codec of ["LZ4", "LZ4_RAW"]) {
    t.is(unpack(codec, helloBlock, 5), "hello");
    t.is(unpack(codec, copiesBlock, 9), "a".repeat(9));
    // A length of -8, read as signed, would lead back to itself for ever.
    const back = [...size(0), 0xff, 0xff, 0xff, 0xf8, 0];
    t.throws(() => unpack(codec, back, 5), { instanceOf: CorruptFile });
    // Fewer bytes than the page header says must not be padded with zeros.
    t.throws(() => unpack(codec, helloBlock, 6), {
      instanceOf: CorruptFile,
      message: /5 bytes, and not 6/,
    });
    t.throws(() => unpack(codec, copiesBlock, 7), {
      instanceOf: CorruptFile,
      message: /more than 7/,
    });
  }
});

/** The batches of a file, read with the given decoders. */
async function batchesOf(path: string, decoders: PageDecoders) {
  const file = await openRanges(path);
  try {
    const footer = await readFooter(file);
    const wanted = columnNames(footer.schema).flatMap((name, i) => {
      const shape = shapeOf(footer.schema, name);
      return shape === undefined ? [] : [{ shape, isId: i % 2 === 0 }];
    });
    const found: unknown[] = [];
    for await (const { rows, columns } of readParquet(file, footer, wanted, { decoders })) {
      found.push(structuredClone([rows, [...columns]]));
    }
    return found;
  } finally {
    await file.close();
  }
}

test("files have the same columns, or the same fault, with both decoders", async (t) => {
  const names = readdirSync(fixtures, { recursive: true, encoding: "utf8" });
  const files = names.filter((name) => name.endsWith(".parquet"));
  t.true(files.length > 10, `${files.length} files`);
  for (const name of files) {
    const path = join(fixtures, name);
    const [fast, plain] = await Promise.all(
      [pageDecoders(), plainDecoders].map((decoders) => {
        return batchesOf(path, decoders).catch((error: Error) => error.message);
      }),
    );
    t.deepEqual(fast, plain, name);
  }
});

test("rows are found by their repetition levels", (t) => {
  const random = new RandomStream(22, 1);
  for (let round = 0; round < 100; round++) {
    const levels = random.below(4096);
    const repetition = Int32Array.from({ length: levels }, () => (random.below(4) === 0 ? 0 : 1));
    const at = random.below(levels + 1);
    const [rows, row, values] = [random.below(500), random.below(2), random.below(9999)];
    if (row > rows) continue;
    const [one, other] = both.map((decoders) => {
      const offsets = new Int32Array(rows + 1);
      const found = decoders.markRows(offsets, row, rows, values, { repetition, at, end: levels });
      return { offsets, found };
    });
    t.deepEqual(one, other);
    const begins = [...repetition.keys()].filter((i) => i >= at && repetition[i] === 0);
    const few = begins.slice(0, rows - row);
    t.deepEqual(
      [...(one?.offsets.subarray(row, row + few.length) ?? [])],
      few.map((i) => values + i - at),
    );
    t.deepEqual(one?.found, { row: row + few.length, at: begins[rows - row] ?? levels });
  }
});
