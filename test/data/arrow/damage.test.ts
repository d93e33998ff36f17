// Damaged and hostile Arrow files: each is read as it is, or gives one error with its position.
// None hangs the reader, and none takes more memory than its size justifies.

import { Type } from "apache-arrow/fb/type";
import test from "ava";
import { columnRows } from "../../../src/data/arrow/column-rows.ts";
import { bodyAt, openIndex } from "../../../src/data/arrow/messages.ts";
import { columnNames, shapeOf } from "../../../src/data/arrow/shapes.ts";
import { TextPool } from "../../../src/data/parquet/decode/texts.ts";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import { rounds } from "../../helpers/thinned.ts";
import { rangesOf } from "../parquet/parquet-files.ts";
import { bytesOf, fixtureNames, readColumns } from "./arrow-files.ts";

const file = bytesOf("flat-plain.arrow");
const stream = bytesOf("flat-zstd.arrows");
const coded = bytesOf("flat-coded.arrows");

/** A copy of a file, changed by `change`. */
function changed(from: Buffer, change: (bytes: Buffer) => void): Buffer {
  const copy = Buffer.from(from);
  change(copy);
  return copy;
}

/** Reads all rows of every readable column of a file in memory; returns the row count. */
async function readAll(bytes: Uint8Array, path: string): Promise<number> {
  const index = await openIndex(rangesOf(bytes, path));
  const names = columnNames(index.schema).filter((name) => {
    try {
      return shapeOf(index.schema, name) !== undefined;
    } catch {
      return false; // A struct, or an unsupported type made by damage.
    }
  });
  const columns = await readColumns(rangesOf(bytes, path), names);
  return Object.values(columns)[0]?.length ?? 0;
}

const cases: readonly [title: string, bytes: Buffer, message: RegExp][] = [
  ["no bytes", Buffer.alloc(0), /memory\.arrow: it has 0 bytes, fewer than any Arrow file/],
  [
    "text",
    Buffer.from("label,item\n1,2\n0,3\n"),
    /it begins neither with ARROW1 nor as a stream: it is another format/,
  ],
  ["Feather of version 1", Buffer.from("FEA1 and so on, FEA1"), /Feather's version 1, and Osiris/],
  ["a file cut short", file.subarray(0, file.length - 100), /does not end in ARROW1: it was cut/],
  [
    "a stream cut short",
    stream.subarray(0, stream.length - 100),
    /memory\.arrow, record batch 5: it ends after \d+ bytes, within a message: it was cut short/,
  ],
  [
    "a stream cut within a length",
    stream.subarray(0, 6),
    /it has 6 bytes, fewer than any Arrow file/,
  ],
  [
    "a footer longer than the file",
    changed(file, (bytes) => void bytes.writeInt32LE(0x7fff_fff0, file.length - 10)),
    /it says that its footer has 2147483632 bytes, of \d+/,
  ],
  [
    "a footer of nothing",
    changed(file, (bytes) => {
      bytes.fill(0, file.length - 10 - file.readInt32LE(file.length - 10), file.length - 10);
    }),
    /Cannot read the Arrow file memory\.arrow: it has no schema/,
  ],
  [
    "a footer of ones",
    changed(file, (bytes) => {
      bytes.fill(1, file.length - 10 - file.readInt32LE(file.length - 10), file.length - 10);
    }),
    /Cannot read the Arrow file memory\.arrow: its metadata is damaged/,
  ],
  [
    "metadata of a length without end",
    changed(stream, (bytes) => void bytes.writeInt32LE(0x7000_0000, 4)),
    /it begins neither with ARROW1 nor as a stream/,
  ],
  [
    "metadata of zeros",
    changed(stream, (bytes) => void bytes.fill(0, 8, 200)),
    /Cannot read the Arrow file memory\.arrow: it/,
  ],
];

for (const [title, bytes, message] of cases) {
  test(`refused as Arrow: ${title}`, async (t) => {
    const error = await t.throwsAsync(readAll(bytes, "memory.arrow"), { message });
    t.true(error instanceof InputUnusableError);
    t.regex(error?.message ?? "", /; write the file again, or leave it out$/);
  });
}

test("a file truncated anywhere gives one error", async (t) => {
  for (let end = 0; end < file.length; end += 997) {
    const part = file.subarray(0, end);
    await t.throwsAsync(readAll(part, "a.arrow"), { instanceOf: InputUnusableError }, `${end}`);
  }
});

test("an error for a code beyond its dictionary names batch, column, value and dictionary", async (t) => {
  const index = await openIndex(rangesOf(coded, "a.arrows"));
  const { block } = index.batches[1] ?? { block: { start: 0, metadataBytes: 0, bodyBytes: 0 } };
  const body = block.start + block.metadataBytes;
  const bytes = changed(coded, (all) => void all.fill(0x7f, body, body + block.bodyBytes));
  const read = readColumns(rangesOf(bytes, "a.arrows"), ["text"]);
  const message =
    /^Cannot read the Arrow file a\.arrows, record batch 1, column `text`: value 0 is entry 127 of a dictionary of \d+; write the file again, or leave it out$/;
  await t.throwsAsync(read, { instanceOf: InputUnusableError, message });
});

test("damage anywhere gives one error, or another value", async (t) => {
  let refused = 0;
  let seed = 7;
  const damages = rounds("damages of each Arrow file", 6, 40);
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
  for (const name of fixtureNames) {
    const original = bytesOf(name);
    for (let round = 0; round < damages; round++) {
      const bytes = changed(original, (all) => {
        // Most bytes are values. Damage to metadata, at both ends of a file, is more harmful, so
        // half of the rounds hit it.
        const place = round % 2 === 0 ? random(all.length) : random(Math.min(3000, all.length));
        const at = round % 4 === 1 ? all.length - 1 - place : place;
        all[at] = random(256);
        if (round % 3 === 0) all.fill(0xff, at, at + 8);
      });
      try {
        await readAll(bytes, name);
      } catch (error) {
        refused++;
        if (!(error instanceof InputUnusableError)) throw error;
        if (!error.message.startsWith(`Cannot read the Arrow file ${name}`)) throw error;
      }
    }
  }
  t.true(refused > 4 * damages, `${refused}`);
});

test("a compressed buffer that claims more than its bytes can hold is refused at once", async (t) => {
  const { batches } = await openIndex(rangesOf(stream, "a.arrows"));
  const { block } = batches[0] ?? { block: { start: 0, metadataBytes: 0 } };
  const { layout } = await bodyAt(rangesOf(stream, "a.arrows"), batches[0]?.block as never);
  const body = block.start + block.metadataBytes;
  const buffers = Array.from({ length: 4 }, (_, i) => layout.buffer(i));
  const packed = buffers.find(({ offset, length }) => {
    return length > 8 && stream.readBigInt64LE(body + offset) > 0n;
  });
  if (packed === undefined) return t.fail("no packed buffer");
  const at = body + packed.offset;
  const claims = (bytes: bigint) =>
    readAll(
      changed(stream, (all) => void all.writeBigInt64LE(bytes, at)),
      "a.arrows",
    );
  const ratio =
    /a buffer says that its \d+ bytes unpack to 268435456, more than the limit of 67108864/;
  await t.throwsAsync(claims(2n ** 28n), { instanceOf: InputUnusableError, message: ratio });
  const wrong = /its Zstandard has \d+ bytes, and not \d+/;
  const less = stream.readBigInt64LE(at) + 1n;
  await t.throwsAsync(claims(less), { instanceOf: InputUnusableError, message: wrong });
  const broken = changed(stream, (all) => void all.fill(0xff, at + 8, at + packed.length));
  await t.throwsAsync(readAll(broken, "a.arrows"), {
    message: /its Zstandard is damaged \(error \d+ of/,
  });
});

test("a schema with values of 0 bytes, or a decimal that is too wide, is refused", (t) => {
  const refused = (field: object, message: RegExp) => {
    const plain = { name: "x", bits: 0, isUnsigned: false, divisor: 1, size: 0, children: [] };
    const fields = [{ ...plain, ...field }] as never;
    t.throws(() => shapeOf({ fields }, "x"), { message });
  };
  // https://arrow.apache.org/docs/format/Columnar.html: decimals have 32, 64, 128 or 256 bits.
  for (const bits of [0, 8, 512, 800_000]) refused({ type: Type.Decimal, bits }, /bits/);
  refused({ type: Type.FixedSizeBinary, size: 0 }, /its values have 0 bytes/);
});

test("overlapping lists, each within bounds, get no more entries than exist", (t) => {
  const rows = 1000;
  const entries = 64;
  // Alternating rows: one list of all entries, then a row without a list that goes back to the
  // first entry.
  const offsets = Int32Array.from({ length: rows + 1 }, (_, i) => (i % 2) * entries);
  const marks = new Uint8Array(Math.ceil(rows / 8)).fill(0b0101_0101);
  const bytes = new Map([
    [0, marks],
    [1, new Uint8Array(offsets.buffer)],
    [3, new Uint8Array(8 * entries)],
  ]);
  const nodes = [
    { length: rows, nulls: rows / 2 },
    { length: entries, nulls: 0 },
  ];
  const layout = { rows, node: (i: number) => nodes[i] } as never;
  const value = { type: Type.Int, bits: 64, isUnsigned: false, divisor: 1, size: 0, children: [] };
  const entry = { field: { ...value, name: "item" }, node: 1, buffer: 2, buffers: 2, children: [] };
  const list = { ...value, name: "x", type: Type.List, bits: 0 };
  const place = { field: list, node: 0, buffer: 0, buffers: 2, children: [entry] };
  const shape = {
    name: "x",
    path: [0],
    list: "plain",
    leaf: { field: entry.field, kind: "integer" },
  };
  const source = { layout, bytes, dictionaries: new Map() };
  const wanted = { shape, isId: true } as never;
  const { read } = columnRows(wanted, [place] as never, source, rows, new TextPool());
  t.throws(() => read(0, rows), { message: /its lists have 32000 of 64 entries/ });
  t.is((read(0, 2) as { ids: BigInt64Array }).ids.length, entries);
});
