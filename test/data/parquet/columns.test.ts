// Which columns of a Parquet file a job may name, and how the file is read: only wanted columns,
// adjacent ones in one read.

import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import type { SchemaTree } from "hyparquet";
import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import { lookAtFiles } from "../../../src/data/file-samples.ts";
import { type DataOptions, dataOptions, type TableShape } from "../../../src/data/options.ts";
import { fixedNumbers } from "../../../src/data/parquet/decode/numbers.ts";
import { readFooter } from "../../../src/data/parquet/footer.ts";
import { readParquet } from "../../../src/data/parquet/read-parquet.ts";
import { int96Of, shapeOf } from "../../../src/data/parquet/shapes.ts";
import { parquet } from "../../../src/data/sources.ts";
import { openRanges } from "../../../src/data/tables/byte-ranges.ts";
import { newReport } from "../../../src/data/tables/table-file.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { startDirectory } from "../data-files.ts";
import { fixtures, readColumns } from "./parquet-files.ts";

const path = join(fixtures, "clicks.parquet");
const options = { batchSize: 8, label: "label", rejectedMax: 1 };

function look(options: DataOptions, tables: readonly TableShape[] = []) {
  const data = checkOptions(dataOptions, options);
  if (data.kind !== "parquet") throw new Error("of Parquet");
  return lookAtFiles(data, tables, 100);
}

const tableOf = (name: string) => [{ name, rows: 100 }];

const refused: readonly [string, Parameters<typeof parquet>[1], TableShape[], RegExp][] = [
  [
    "a column that is not there",
    { ...options, dense: ["pricee"] },
    [],
    /`data\.dense\[0\]` names the column `pricee`, which .*clicks\.parquet does not have; .*did you mean `price`\?/,
  ],
  [
    "a list without `list`",
    { ...options, categorical: ["tags"] },
    tableOf("tags"),
    /`data\.categorical\[0\]` names the column `tags`, which is a list in .*; say `list: "plain"`/,
  ],
  [
    "a weighted list as a plain one",
    { ...options, categorical: [{ column: "scored", list: "plain" }] },
    tableOf("scored"),
    /which is a list with weights in .*; say `list: "weighted"`/,
  ],
  [
    "one id a row as a list",
    { ...options, categorical: [{ column: "item", list: "plain" }] },
    tableOf("item"),
    /which has one value a row in .*; leave `list` out/,
  ],
  [
    "a list as a dense feature",
    { ...options, dense: ["tags"] },
    [],
    /which is a list in .*; name a column with one value a row/,
  ],
  [
    "fractions that are hashed",
    { ...options, categorical: ["price"] },
    tableOf("price"),
    /which holds fractions or times in .*; a hash is of texts and integers: .*`ids: "integer"`/,
  ],
  [
    "times as ids",
    { ...options, categorical: [{ column: "when", ids: "integer" }] },
    tableOf("when"),
    /which holds times in .*; name another column/,
  ],
];

for (const [title, given, tables, message] of refused) {
  test(`refused as Parquet: ${title}`, async (t) => {
    const { problems } = await look(parquet(path, given), tables);
    t.is(problems.length, 1);
    t.regex(problems[0] ?? "", message);
  });
}

test("a dry run counts both labels in the first rows, and names bad rows' row groups", async (t) => {
  const data = parquet(path, { ...options, dense: ["age"], categorical: ["item"] });
  const { samples, labels, rejected, bytes } = await look(data, tableOf("item"));
  t.is(samples + rejected.count, 100);
  t.true(labels.positives > 20 && labels.positives < samples);
  t.is(bytes, statSync(path).size);
  t.like(rejected.reasons[0], { line: 8, rowGroup: 0, got: "`2`" });
});

test("a column of pyarrow's type null is missing in every row", async (t) => {
  const writer = new ByteWriter();
  const nulls = [null, null, null];
  const columns = new ParquetWriter({
    writer,
    schema: [
      { name: "root", num_children: 2 },
      { name: "label", type: "INT32", repetition_type: "REQUIRED" },
      {
        ...{ name: "nothing", type: "INT32", repetition_type: "OPTIONAL" },
        logical_type: { type: "NULL" },
      } as never,
    ],
  });
  await columns.write({
    columnData: [
      { name: "label", data: [1, 0, 1] },
      { name: "nothing", data: nulls },
    ],
  });
  await columns.finish();
  const file = join(startDirectory(t), "nulls.parquet");
  writeFileSync(file, new Uint8Array(writer.getBuffer()));
  t.deepEqual(await readColumns(file, ["nothing"], true), { nothing: nulls });
  for (const more of [
    { dense: ["nothing"] },
    { categorical: ["nothing"] },
    { categorical: [{ column: "nothing", list: "plain" as const }] },
  ]) {
    const data = parquet(file, { label: "label", batchSize: 8, ...more } as never);
    const { problems, samples } = await look(data, "categorical" in more ? tableOf("nothing") : []);
    t.deepEqual([problems, samples], [[], 3], JSON.stringify(more));
  }
});

test("INT96 times with negative nanoseconds are times before 1970", (t) => {
  // As Arrow C++, Velox and Spark wrote them; DuckDB reads the first as 1969-12-31T23:59:59.5Z.
  const bytes = (days: number, nanoseconds: bigint) => {
    const value = Buffer.alloc(12);
    value.writeBigInt64LE(nanoseconds);
    value.writeInt32LE(days, 8);
    return value;
  };
  const element = { name: "t", type: "INT96", repetition_type: "REQUIRED" } as const;
  const schema = {
    path: [],
    element: { name: "root" },
    children: [{ path: ["t"], element, children: [] }],
  };
  const leaf = shapeOf(schema as unknown as SchemaTree, "t")?.leaf;
  if (leaf === undefined) throw new TypeError("a leaf");
  const page = Buffer.concat([
    bytes(2_440_588, -500_000_000n),
    bytes(2_440_587, 86_399_500_000_000n),
    bytes(2_440_589, 1n),
  ]);
  const seconds = new Float64Array(3);
  fixedNumbers({ bytes: page, start: 0, end: page.length }, leaf)(seconds, 0, 3);
  t.deepEqual([...seconds], [-0.5, -0.5, 86_400.000000001]);
  t.is(int96Of(page.toString("latin1", 0, 12)), -500_000_000n);
});

test("only wanted columns are read, and close ones in one read", async (t) => {
  const file = await openRanges(path);
  const footer = await readFooter(file);
  const read = async (names: readonly string[], isHashed = true) => {
    const wanted = names.flatMap((name) => {
      const shape = shapeOf(footer.schema, name);
      return shape === undefined ? [] : [{ shape, isId: true }];
    });
    const report = newReport(isHashed);
    let rows = 0;
    for await (const batch of readParquet(file, footer, wanted, { report })) rows += batch.rows;
    t.is(rows, footer.rows);
    return report;
  };
  const groups = footer.groups.length;
  const one = await read(["label"]);
  t.is(one.reads, groups);
  t.is(one.read, one.wanted);
  const two = await read(["label", "mixed"]);
  t.is(two.reads, groups);
  t.true(two.read > two.wanted && two.wanted > one.wanted, "the gap between columns is read, too");
  t.not(two.sha256, one.sha256);
  t.is((await read(["label"])).sha256, one.sha256);
  t.deepEqual(await read(["label"], false), { ...one, isHashed: false, sha256: "" });
  await file.close();
});
