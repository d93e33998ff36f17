// Which columns of an Arrow file a job may name, in files of Arrow's own JavaScript library; and a
// reader reads only the buffers of wanted columns.

import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  Bool,
  type DataType,
  Dictionary,
  Duration,
  Field,
  FixedSizeList,
  Float32,
  Float64,
  Int32,
  Int64,
  List,
  Null,
  Struct,
  Table,
  TimestampMillisecond,
  TimeUnit,
  tableFromIPC,
  tableToIPC,
  Uint64,
  Utf8,
  vectorFromArray,
} from "apache-arrow";
import test, { type ExecutionContext } from "ava";
import { openIndex } from "../../../src/data/arrow/messages.ts";
import { readArrow } from "../../../src/data/arrow/read-arrow.ts";
import { shapeOf } from "../../../src/data/arrow/shapes.ts";
import { lookAtFiles } from "../../../src/data/file-samples.ts";
import { type DataOptions, dataOptions, type TableShape } from "../../../src/data/options.ts";
import { arrow } from "../../../src/data/sources.ts";
import { openRanges } from "../../../src/data/tables/byte-ranges.ts";
import { newReport } from "../../../src/data/tables/table-file.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { startDirectory } from "../data-files.ts";
import { rangesOf } from "../parquet/parquet-files.ts";
import { fixtures, readColumns } from "./arrow-files.ts";

const listOf = (type: DataType) => new List(new Field("item", type));
const pair = new Struct([new Field("id", new Int64()), new Field("weight", new Float32())]);

/** The types and values of the columns of a table. */
const columns: Readonly<Record<string, [DataType, readonly unknown[]]>> = {
  label: [new Int32(), [1, 0, 1, null]],
  wide: [new Uint64(), [2n ** 64n - 1n, 0n, null, 7n]],
  ratio: [new Float64(), [0.5, null, -0.0, 1e300]],
  flag: [new Bool(), [true, false, null, true]],
  colour: [new Dictionary(new Utf8(), new Int32()), ["red", "blüe", null, "red"]],
  text: [new Utf8(), ["", "a", null, "ä"]],
  tags: [listOf(new Int32()), [[1, 2], [], null, [3, null, 4]]],
  near: [new FixedSizeList(2, new Field("item", new Int32())), [[1, 2], [3, 4], null, [5, 6]]],
  scored: [listOf(pair), [[{ id: 1n, weight: 0.5 }], [], null, [{ id: 2n, weight: null }]]],
  when: [new TimestampMillisecond(), [0, 1500, null, -1]],
  nothing: [new Null(), [null, null, null, null]],
  lasted: [new Duration(TimeUnit.SECOND), [1n, 2n, 3n, 4n]],
  deep: [listOf(listOf(new Int32())), [[[1]], [], null, [[2]]]],
  prices: [listOf(new Float64()), [[1], [], null, [2]]],
  user: [new Struct([new Field("id", new Int32())]), [{ id: 3 }, null, { id: null }, { id: 4 }]],
};

function tableOf(names: readonly string[]): Table {
  const vectors = names.map((name) => {
    const [type, values] = columns[name] ?? [new Null(), []];
    return [name, vectorFromArray(values, type)];
  });
  return new Table(Object.fromEntries(vectors));
}

const readable = Object.keys(columns).slice(0, 11);
const expected = {
  label: [1, 0, 1, null],
  wide: ["18446744073709551615", "0", null, "7"],
  ratio: [0.5, null, -0.0, 1e300],
  flag: ["true", "false", null, "true"],
  colour: ["red", "blÃ¼e", null, "red"],
  text: ["", "a", null, "Ã¤"],
  tags: [["1", "2"], [], null, ["3", "4"]],
  near: [["1", "2"], ["3", "4"], null, ["5", "6"]],
  scored: [[["1", 0.5]], [], null, [["2", Number.NaN]]],
  when: [0, 1.5, null, -0.001],
  nothing: [null, null, null, null],
};
const numeric = ["label", "ratio", "when"];

for (const form of ["file", "stream"] as const) {
  test(`a ${form} that Arrow's JavaScript library wrote is read`, async (t) => {
    const bytes = tableToIPC(tableOf(readable), form);
    const ids = readable.filter((name) => !numeric.includes(name));
    const found = {
      ...(await readColumns(rangesOf(bytes), numeric)),
      ...(await readColumns(rangesOf(bytes), ids, true)),
    };
    t.deepEqual(found, expected);
    const inStruct = tableToIPC(tableOf(["user"]), form);
    const { "user.id": ofUser } = await readColumns(rangesOf(inStruct), ["user.id"]);
    t.deepEqual(ofUser, [3, null, null, 4]);
  });
}

test("record batches of different sizes are read as one file", async (t) => {
  const table = tableFromIPC(readFileSync(join(fixtures, "clicks.arrow")));
  const parts = [table.slice(0, 1), table.slice(1, 1), table.slice(1, 399), table.slice(399)];
  const [first, ...others] = parts;
  const whole = first?.concat(...others);
  if (whole === undefined) throw new Error("a table");
  const names = ["age", "price", "item", "colour"];
  const wanted = await readColumns(join(fixtures, "clicks.arrow"), names);
  for (const form of ["file", "stream"] as const) {
    t.deepEqual(await readColumns(rangesOf(tableToIPC(whole, form)), names), wanted);
  }
});

function look(t: ExecutionContext, names: readonly string[], options: object) {
  const path = join(startDirectory(t), "a.arrow");
  writeFileSync(path, tableToIPC(tableOf(["label", ...names]), "file"));
  const section: DataOptions = arrow(path, {
    ...{ label: "label", batchSize: 8, rejectedMax: 1 },
    ...options,
  });
  const data = checkOptions(dataOptions, section);
  if (data.kind !== "arrow") throw new Error("of Arrow");
  const tables: TableShape[] = data.categorical.map(({ column: name }) => ({ name, rows: 100 }));
  return lookAtFiles(data, tables, 100);
}

const list = "plain" as const;
const refused: readonly [title: string, name: string, options: object, RegExp][] = [
  [
    "a column that is not there",
    "ratio",
    { dense: ["ratios"] },
    /`data\.dense\[0\]` names the column `ratios`, which .*a\.arrow does not have; .*`ratio`\?/,
  ],
  ["a list without `list`", "tags", { categorical: ["tags"] }, /is a list in .*`list: "plain"`/],
  [
    "a weighted list as a plain one",
    "scored",
    { categorical: [{ column: "scored", list }] },
    /which is a list with weights in .*; say `list: "weighted"`/,
  ],
  [
    "one id a row as a list",
    "wide",
    { categorical: [{ column: "wide", list }] },
    /which has one value a row in .*; leave `list` out/,
  ],
  ["a list as a dense feature", "tags", { dense: ["tags"] }, /name a column with one value a row/],
  ["fractions that are hashed", "ratio", { categorical: ["ratio"] }, /holds fractions or times in/],
  [
    "times as ids",
    "when",
    { categorical: [{ column: "when", ids: "integer" }] },
    /which holds times in .*; name another column/,
  ],
  [
    "a duration",
    "lasted",
    { dense: ["lasted"] },
    /Cannot read the Arrow file .*a\.arrow, column `lasted`: it has the type Duration, which is not/,
  ],
  [
    "a list in a list",
    "deep",
    { categorical: [{ column: "deep", list }] },
    /column `deep`: it has the type List, which is not read/,
  ],
  [
    "a list of fractions",
    "prices",
    { categorical: [{ column: "prices", list }] },
    /it is a list of fractions or times, and lists are of ids: integers or text/,
  ],
  [
    "a struct",
    "user",
    { categorical: ["user"] },
    /column `user`: it is a struct; name one of its members, `user\.id`/,
  ],
];

for (const [title, name, options, message] of refused) {
  test(`refused as Arrow: ${title}`, async (t) => {
    const { problems } = await look(t, [name], options);
    t.is(problems.length, 1);
    t.regex(problems[0] ?? "", message);
  });
}

test("a column of the type Null is missing in every row, whatever its use", async (t) => {
  for (const options of [
    { dense: [{ column: "nothing", missing: "mean" as const }] },
    { categorical: ["nothing"] },
    { categorical: [{ column: "nothing", list }] },
    { categorical: [{ column: "nothing", list: "weighted" as const }] },
  ]) {
    const { problems, samples } = await look(t, ["nothing"], options);
    t.deepEqual([problems, samples], [[], 3], JSON.stringify(options));
  }
});

test("a dry run reports bad rows with their record batches", async (t) => {
  const options = { dense: ["ratio"], categorical: ["colour"], missing: "reject" };
  const { samples, rejected } = await look(t, ["ratio", "colour"], options);
  t.deepEqual([samples, rejected.count], [2, 2]);
  t.like(rejected.reasons[0], { line: 2, recordBatch: 0 });
});

test("a reader reads the buffers of wanted columns alone", async (t) => {
  const path = join(fixtures, "clicks.arrow");
  const file = await openRanges(path);
  t.teardown(() => file.close());
  const index = await openIndex(file);
  const shape = shapeOf(index.schema, "age");
  if (shape === undefined) throw new Error("no age");
  const report = newReport();
  let rows = 0;
  const wanted = [{ shape, isId: false }];
  for await (const batch of readArrow(file, index, wanted, { report })) rows += batch.rows;
  t.is(rows, 400);
  t.true(report.read < statSync(path).size / 40, `${report.read}`);
  t.regex(report.sha256, /^[0-9a-f]{64}$/);
});

test("a column whose name is there more than once is refused", async (t) => {
  const { schema } = await openIndex(rangesOf(readFileSync(join(fixtures, "clicks.arrow"))));
  const { fields } = schema;
  t.is(shapeOf(schema, "price")?.list, "none");
  const message = "it is there more than once; give each column a name of its own";
  t.throws(() => shapeOf({ fields: [...fields, ...fields] }, "price"), { message });
});
