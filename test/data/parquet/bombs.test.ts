// Decompression bombs: files whose counts exceed what their bytes can hold are refused in a
// sentence before memory is allocated.

import test from "ava";
import { MemoryBudget, TextBudget } from "../../../src/data/tables/memory-budget.ts";
import { PieceMemory } from "../../../src/data/tables/piece-memory.ts";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import { rangesOf, readColumns } from "./parquet-files.ts";
import { deltasOf, encodings, parquetOf, placesOfFirst, types } from "./written-parquet.ts";

const rows = 100;
const { plain } = encodings;

function dictionaryOf(type: number, count: number, bytes: number, size = bytes): Buffer {
  const dictionary = { kind: "dictionary", count, encoding: plain, bytes: new Uint8Array(bytes) };
  const pages = [{ ...dictionary, size }, placesOfFirst(rows)] as const;
  return parquetOf(rows, [{ name: "s", type, pages: pages as never }]);
}

const cases: readonly [title: string, bytes: () => Buffer, message: RegExp][] = [
  [
    "a dictionary of booleans with a value for each bit",
    () => dictionaryOf(types.boolean, 8 * 2 ** 19, 2 ** 19),
    /column `s`: its dictionary of 524288 bytes says that it has 4194304 values/,
  ],
  [
    "a dictionary of texts with fewer bytes than lengths",
    () => dictionaryOf(types.text, 2 ** 18 + 1, 2 ** 20),
    /its dictionary of 1048576 bytes says that it has 262145 values/,
  ],
  [
    "a dictionary of two megabytes of zeros",
    () => dictionaryOf(types.int32, 2 ** 19, 2 ** 21),
    /its dictionary says that its \d+ bytes unpack to 2097152, more than the limit of 1048576/,
  ],
  [
    "a page that says that it has a quarter of a gigabyte",
    () =>
      parquetOf(rows, [
        {
          ...{ name: "s", type: types.int32 },
          pages: [
            {
              kind: "data",
              count: rows,
              encoding: plain,
              bytes: new Uint8Array(400),
              size: 2 ** 28,
            },
          ],
        },
      ]),
    /a page says that its \d+ bytes unpack to 268435456, more than the limit of 67108864/,
  ],
  [
    "texts whose lengths are more than the page's values",
    () =>
      parquetOf(rows, [
        {
          ...{ name: "s", type: types.text },
          pages: [
            {
              ...{ kind: "data", count: rows, encoding: encodings.deltaLength },
              bytes: deltasOf([1, 1], 2 ** 24),
            },
          ],
        },
      ]),
    /a page says that it has 16777216 texts/,
  ],
];

for (const [title, bytes, message] of cases) {
  test(`refused before memory is taken: ${title}`, async (t) => {
    const error = await t.throwsAsync(readColumns(rangesOf(bytes()), ["s"], true), {
      instanceOf: InputUnusableError,
    });
    t.regex(error.message, message);
  });
}

test("texts with a long common prefix are refused before they fill the memory", async (t) => {
  const write = (count: number, first: number) => {
    const shared = deltasOf([0, ...Array.from({ length: count - 1 }, (_, i) => first + i)]);
    const lengths = deltasOf([first, ...Array.from({ length: count - 1 }, () => 1)]);
    const bytes = Buffer.concat([shared, lengths, Buffer.alloc(first + count - 1, "a")]);
    const page = { kind: "data" as const, count, encoding: encodings.deltaText, bytes };
    return rangesOf(parquetOf(count, [{ name: "s", type: types.text, pages: [page] }]));
  };
  const { s: texts = [] } = await readColumns(write(10, 100), ["s"]);
  t.deepEqual(
    texts.map((text) => String(text).length),
    [100, 101, 102, 103, 104, 105, 106, 107, 108, 109],
  );
  // Six hundred texts of 120 kB each, from a page of 130 kB that compresses to some hundred bytes.
  await t.throwsAsync(readColumns(write(600, 120_000), ["s"]), {
    instanceOf: InputUnusableError,
    message: /a page of texts with common beginnings says that its \d+ bytes unpack to 67/,
  });
});

test("the texts of a column are bounded in memory, also where they share bytes", (t) => {
  const budget = new TextBudget();
  budget.take(2 ** 28);
  t.throws(() => budget.take(2 ** 28), { message: /its texts need more than 536870912 bytes/ });
});

test("a decimal has at most 32 bytes (76 digits), and the longest is read exactly", async (t) => {
  const decimal = (bytes: Uint8Array) => {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(bytes.length);
    const page = { kind: "data", count: 1, encoding: plain, bytes: Buffer.concat([length, bytes]) };
    const column = { name: "d", type: types.text, pages: [page as never] };
    return rangesOf(parquetOf(1, [{ ...column, schema: { 6: 5, 7: 2, 8: 76 } }]));
  };
  const longest = Buffer.alloc(32);
  longest[0] = 1;
  // Python: float(Decimal(2 ** 248).scaleb(-2)).
  t.deepEqual(await readColumns(decimal(longest), ["d"]), { d: [4.523128485832664e72] });
  longest[0] = 0x80;
  // Python: float(Decimal(-(2 ** 255)).scaleb(-2)).
  t.deepEqual(await readColumns(decimal(longest), ["d"]), { d: [-5.78960446186581e74] });
  const long = await t.throwsAsync(readColumns(decimal(Buffer.alloc(2 ** 20, 1)), ["d"]));
  t.regex(long.message, /column `d`: a decimal has 1048576 bytes, more than the limit of 32/);
  const wide = {
    ...{ name: "d", type: types.fixed, schema: { 2: 33, 6: 5, 7: 2, 8: 76 } },
    pages: [{ kind: "data" as const, count: 1, encoding: plain, bytes: Buffer.alloc(33) }],
  };
  const fixed = await t.throwsAsync(readColumns(rangesOf(parquetOf(1, [wide])), ["d"]));
  t.regex(fixed.message, /it is a decimal of 33 bytes, more than the limit of 32/);
});

test("the columns of a piece take no more memory than the file size justifies", (t) => {
  const memory = new PieceMemory(new MemoryBudget(1000));
  memory.uint8(1000);
  t.throws(() => memory.float64(2 ** 28), { message: /its columns need more than 10738\d+ bytes/ });
  memory.begin();
  t.notThrows(() => memory.uint8(1000));
});
