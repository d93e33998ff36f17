// Damaged and hostile Parquet files: each is read as it is, or gives one error with its position.
// None hangs the reader, and none takes more memory than its size justifies.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { readFooter } from "../../../src/data/parquet/footer.ts";
import { columnNames, shapeOf } from "../../../src/data/parquet/shapes.ts";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import { fixtures, rangesOf, readColumns } from "./parquet-files.ts";
import { parquetOf, types } from "./written-parquet.ts";

const original = readFileSync(join(fixtures, "flat/plain.parquet"));

/** A copy of a file, changed by `change`. */
function changed(change: (bytes: Buffer) => Buffer | undefined, from = original): Buffer {
  const copy = Buffer.from(from);
  return change(copy) ?? copy;
}

const length = original.length;
const footerLength = original.readUInt32LE(length - 8);

const cases: readonly [title: string, bytes: Buffer, message: RegExp][] = [
  ["no bytes", Buffer.alloc(0), /memory\.parquet: it has 0 bytes, fewer than any Parquet file/],
  ["text", Buffer.from("label,item\n1,2\n0,3\n"), /it does not end in PAR1: it is another format/],
  ["a file cut short", original.subarray(0, length - 100), /does not end in PAR1/],
  [
    "an encrypted footer",
    changed((bytes) => void bytes.write("PARE", length - 4, "latin1")),
    /it is encrypted/,
  ],
  [
    "a footer longer than the file",
    changed((bytes) => void bytes.writeUInt32LE(0xffff_fff0, length - 8)),
    /its footer has 4294967280 of \d+ bytes/,
  ],
  [
    "a footer of zeros",
    changed((bytes) => void bytes.fill(0, length - 8 - footerLength, length - 8)),
    /its bytes are damaged/,
  ],
  [
    "a footer of endless numbers",
    changed((bytes) => void bytes.fill(0x86, length - 8 - footerLength, length - 8)),
    /a header has a number of more than ten bytes/,
  ],
  [
    "a footer of structures in each other",
    changed((bytes) => void bytes.fill(0x1c, length - 8 - footerLength, length - 8)),
    /a header nests deeper than 24 structures/,
  ],
  [
    "a footer that begins in its middle",
    changed((bytes) => void bytes.writeUInt32LE(footerLength - 40, length - 8)),
    /Cannot read the Parquet file memory\.parquet/,
  ],
];

for (const [title, bytes, message] of cases) {
  test(`refused as Parquet: ${title}`, async (t) => {
    const error = await t.throwsAsync(readFooter(rangesOf(bytes)), {
      instanceOf: InputUnusableError,
    });
    t.regex(error.message, message);
    t.regex(error.message, /write the file again, or leave it out$/);
  });
}

test("an error about a changed page names file, row group and column", async (t) => {
  const bytes = changed((copy) => void copy.fill(0xee, 300, 303));
  await t.throwsAsync(readColumns(rangesOf(bytes), ["bool", "int8"]), {
    instanceOf: InputUnusableError,
    message: /^Cannot read the Parquet file memory\.parquet, row group 0, column `(bool|int8)`: /,
  });
});

/** Pseudorandom numbers that are the same in every run: an LCG (Numerical Recipes). */
function draws(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Whether all columns can be read. An error of another class than ours fails the test. */
async function isReadable(bytes: Buffer): Promise<boolean> {
  const file = rangesOf(bytes);
  try {
    const { schema } = await readFooter(file);
    const names = columnNames(schema).filter((name) => isColumn(schema, name));
    await readColumns(file, names, true);
    return true;
  } catch (error) {
    if (error instanceof InputUnusableError) return false;
    throw error;
  }
}

function isColumn(schema: Parameters<typeof shapeOf>[0], name: string): boolean {
  try {
    return shapeOf(schema, name) !== undefined;
  } catch {
    return false;
  }
}

const fuzzed = [
  "flat/snappy",
  "flat/gzip-v2",
  "flat/encodings-lz4",
  "lists/zstd-v2",
  "lists/delta",
];

for (const [seed, name] of fuzzed.entries()) {
  test(`no flipped byte of ${name} crashes or hangs the reader`, async (t) => {
    const whole = readFileSync(join(fixtures, `${name}.parquet`));
    const draw = draws(seed + 1);
    let refused = 0;
    const heap = process.memoryUsage().arrayBuffers;
    for (let i = 0; i < 60; i++) {
      const bytes = Buffer.from(whole);
      // Half of the flips hit the footer, which holds counts and offsets.
      const footer = whole.readUInt32LE(whole.length - 8) + 8;
      const at = i % 2 === 0 ? whole.length - 1 - draw(footer) : draw(whole.length);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << draw(8));
      if (!(await isReadable(bytes))) refused++;
    }
    t.true(refused > 0);
    t.true(process.memoryUsage().arrayBuffers - heap < 2 ** 30);
  });
}

test("a column without a name is not listed, and the others are", async (t) => {
  const page = { kind: "data", count: 1, encoding: 0, bytes: new Uint8Array(4) } as const;
  const columns = ["", "y"].map((name) => ({ name, type: types.int32, pages: [page] }));
  const { schema } = await readFooter(rangesOf(parquetOf(1, columns)));
  t.deepEqual(columnNames(schema), ["y"]);
  t.is(shapeOf(schema, "x"), undefined);
  t.is(shapeOf(schema, "y")?.name, "y");
});
