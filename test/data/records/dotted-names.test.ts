// Names with dots: of columns, of members of structs and objects, and of both at once. The Parquet
// files are pyarrow's.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { openCache } from "../../../src/data/cache/cache-reader.ts";
import { type DataOptions, dataOptions } from "../../../src/data/options.ts";
import { createRecordEncoder } from "../../../src/data/records.ts";
import { csv, jsonl, parquet } from "../../../src/data/sources.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { prepare, readPlain, startDirectory, writeText } from "../data-files.ts";

const fixtures = join(import.meta.dirname, "..", "..", "..", "..", "test", "fixtures", "parquet");
const tableOf = (name: string) => [{ name, rows: 1000 }];

/** The ids of a column, row by row. */
async function idsOf(t: ExecutionContext, options: DataOptions, column: string) {
  const { path } = await prepare(options, tableOf(column));
  const dataset = openCache(path, realDisk);
  t.teardown(() => dataset.close());
  return readPlain(dataset).map(({ bags }) => bags[0]?.[0]);
}

const options = (t: ExecutionContext, column: string) => ({
  ...{ label: "click", categorical: [column], batchSize: 4 },
  cache: join(startDirectory(t), "cache"),
});

/** The ids of eight CSV rows with these texts in the column. */
async function idsOfTexts(t: ExecutionContext, column: string, textOf: (row: number) => string) {
  const rows = Array.from({ length: 8 }, (_, row) => `${row % 2},${textOf(row)}`);
  const text = `click,${column}\n${rows.join("\n")}\n`;
  const path = writeText(startDirectory(t), { name: "a.csv", text });
  return await idsOf(t, csv(path, options(t, column)), column);
}

test("a CSV column may have a dot in its name", async (t) => {
  const ids = await idsOfTexts(t, "a.b", (row) => `own${row % 2}`);
  t.is(new Set(ids).size, 2);
});

for (const name of ["dotted", "dotted-behind"]) {
  test(`a Parquet column with a dot takes precedence over a struct member: ${name}`, async (t) => {
    const path = join(fixtures, `${name}.parquet`);
    const own = await idsOf(t, parquet(path, options(t, "a.b")), "a.b");
    t.deepEqual(own, await idsOfTexts(t, "a.b", (row) => `own${row % 2}`));
    const member = await idsOf(t, parquet(path, options(t, "a.c.d")), "a.c.d");
    t.deepEqual(member, await idsOfTexts(t, "a.c.d", (row) => `member${row % 4}`));
  });
}

const member = (row: number) => ({ b: `member${row % 4}`, "c.d": row });

test("a JSON key with a dot takes precedence over an object member", async (t) => {
  const linesOf = (of: (row: number) => object) =>
    `${Array.from({ length: 8 }, (_, row) => JSON.stringify(of(row))).join("\n")}\n`;
  const write = (of: (row: number) => object) =>
    writeText(startDirectory(t), { name: "a.jsonl", text: linesOf(of) });
  const both = write((row) => ({ click: row % 2, a: member(row), "a.b": `own${row % 2}` }));
  const nested = write((row) => ({ click: row % 2, a: member(row) }));
  const own = await idsOf(t, jsonl(both, options(t, "a.b")), "a.b");
  t.deepEqual(own, await idsOfTexts(t, "a.b", (row) => `own${row % 2}`));
  const inner = await idsOf(t, jsonl(nested, options(t, "a.b")), "a.b");
  t.deepEqual(inner, await idsOfTexts(t, "a.b", (row) => `member${row % 4}`));
  t.is(new Set(await idsOf(t, jsonl(nested, options(t, "a.c.d")), "a.c.d")).size, 8);
});

test("a record is read like its line of JSON", (t) => {
  const data = checkOptions(dataOptions, jsonl("a.jsonl", options(t, "a.b")));
  const { encode } = createRecordEncoder(data, tableOf("a.b"));
  const idsIn = (record: object) => [...encode([record as never]).ids];
  t.deepEqual(idsIn({ a: member(1) }), idsIn({ "a.b": "member1" }));
  t.deepEqual(idsIn({ a: member(1), "a.b": "own1" }), idsIn({ "a.b": "own1" }));
  t.throws(() => idsIn({ a: { c: 1 } }), { message: /expected some of the columns `a\.b`/ });
});
