// Damaged and hostile files: each is one clear error with its place, or is read as it is. None
// hangs, and none takes memory that its size does not earn.

import test from "ava";
import { openIndex } from "../../../src/data/arrow/messages.ts";
import { columnNames, shapeOf } from "../../../src/data/arrow/shapes.ts";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import { rangesOf } from "../parquet/parquet-files.ts";
import { bytesOf, fixtureNames, readColumns } from "./arrow-files.ts";

const file = bytesOf("flat-plain.arrow");
const stream = bytesOf("flat-zstd.arrows");
const coded = bytesOf("flat-coded.arrows");

/** A copy of a file, changed. */
function changed(from: Buffer, change: (bytes: Buffer) => void): Buffer {
  const copy = Buffer.from(from);
  change(copy);
  return copy;
}

/** Reads every column that can be read of a file in memory, and all rows. */
async function readAll(bytes: Uint8Array, path: string): Promise<number> {
  const index = await openIndex(rangesOf(bytes, path));
  const names = columnNames(index.schema).filter((name) => {
    try {
      return shapeOf(index.schema, name) !== undefined;
    } catch {
      return false; // A struct, or what damage made of another type.
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

test("a file that is cut anywhere is one error", async (t) => {
  for (let end = 0; end < file.length; end += 997) {
    const part = file.subarray(0, end);
    await t.throwsAsync(readAll(part, "a.arrow"), { instanceOf: InputUnusableError }, `${end}`);
  }
});

test("a code beyond its dictionary names record batch, column, value and dictionary", async (t) => {
  const index = await openIndex(rangesOf(coded, "a.arrows"));
  const { block } = index.batches[1] ?? { block: { start: 0, metadataBytes: 0, bodyBytes: 0 } };
  const body = block.start + block.metadataBytes;
  const bytes = changed(coded, (all) => void all.fill(0x7f, body, body + block.bodyBytes));
  const read = readColumns(rangesOf(bytes, "a.arrows"), ["text"]);
  const message =
    /^Cannot read the Arrow file a\.arrows, record batch 1, column `text`: value 0 is entry 127 of a dictionary of \d+; write the file again, or leave it out$/;
  await t.throwsAsync(read, { instanceOf: InputUnusableError, message });
});

test("damage anywhere is one error, or another value", async (t) => {
  let refused = 0;
  let seed = 7;
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
  for (const name of fixtureNames) {
    const original = bytesOf(name);
    for (let round = 0; round < 40; round++) {
      const bytes = changed(original, (all) => {
        // Most bytes are values: metadata is where damage hurts, at both ends of a file.
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
  t.true(refused > 50, `${refused}`);
});
