// Values of records become the same features as their text, although numbers are not converted to
// text. A name with dots may be a column, a member of a struct or object, or both; pyarrow wrote
// the Parquet files.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { EncodedBatch } from "../../../src/data/batch-rows.ts";
import { type DataOptions, dataOptions } from "../../../src/data/options.ts";
import { createRecordEncoder, type SampleRecord } from "../../../src/data/records.ts";
import { csv, jsonl, parquet, synthetic } from "../../../src/data/sources.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { purposes, RandomStream } from "../../../src/ports/random.ts";
import { sameValues } from "../../helpers/same-values.ts";
import { openCached, prepare, readPlain, startDirectory, writeText } from "../data-files.ts";

const seed = 31;

const wide = { idBits: 64 as const };
const tables = [
  { name: "row", rows: 50 },
  { name: "from7", rows: 50 },
  { name: "clamped", rows: 50, ids: "clamp" as const },
  { name: "mixed", rows: 50, ids: "hash" as const },
  { name: "text", rows: 50 },
  { name: "wide", rows: 50, ...wide },
  { name: "moved", rows: 50, ...wide },
  { name: "bag", rows: 50 },
  { name: "odd", rows: 50 },
  { name: "wides", rows: 50, ...wide },
];
const data = checkOptions(
  dataOptions,
  csv("absent.csv", {
    label: "y",
    batchSize: 1,
    dense: [
      { column: "plain" },
      { column: "log", log: true },
      { column: "told", missing: "indicator", unreadable: "missing" },
      { column: "must", missing: "reject" },
    ],
    categorical: [
      { column: "row", ids: "integer" },
      { column: "from7", ids: "integer", offset: 7 },
      { column: "clamped", ids: "integer" },
      { column: "mixed", ids: "integer", offset: -3 },
      { column: "text", ids: "hash" },
      { column: "wide", ids: "integer" },
      { column: "moved", ids: "integer", offset: 2 ** 40 },
      { column: "bag", ids: "integer", separator: "|" },
      { column: "odd", ids: "integer", separator: "1" },
      { column: "wides", ids: "integer", separator: ";" },
    ],
  }),
);
const names = [...tables.map(({ name }) => name), "plain", "log", "told", "must"];

const edges = [0, -0, 1, -1, 7, 49, 50, 56, 57, 11, 213, 0.5, 1e14, 999999999999999, 1e15, 1e21];
const larger = [2 ** 31, 2 ** 32, -(2 ** 31) - 1, 2 ** 53 - 1, 3.5e38, 1e-300, 1e300];
const numbers = [...edges, ...larger, ...larger.map((one) => -one)];

function drawn(random: RandomStream): number {
  const edge = numbers[random.below(2 * numbers.length)];
  return edge ?? random.below(50);
}

/** The result of encoding a record: its features, or the error message. */
function outcome(encode: () => EncodedBatch): unknown {
  try {
    return encode();
  } catch (error) {
    return (error as Error).message;
  }
}

test("a number gives the feature of its text", (t) => {
  const encoder = createRecordEncoder(data, tables);
  const random = new RandomStream(seed, purposes.faults);
  let taken = 0;
  for (let i = 0; i < 4000; i++) {
    const base: Record<string, number> = Object.fromEntries(names.map((name) => [name, 8]));
    base.moved = 2 ** 40;
    const name = names[i % names.length] ?? "";
    const value = drawn(random);
    // Skips ids that are refused as numbers only: rounded ones, and fractions for 64-bit ids.
    const isWide = name.includes("wide") || name === "moved";
    const isId = tables.some((table) => table.name === name);
    const isRounded = isId && (isWide || Number.isInteger(value));
    if (isRounded && !Number.isSafeInteger(value)) continue;
    const found = outcome(() => encoder.encode([{ ...base, [name]: value }]));
    const expected = outcome(() => encoder.encode([{ ...base, [name]: String(value) }]));
    t.deepEqual(found, expected, `seed ${seed}, ${name}: ${value}`);
    if (typeof found !== "string") taken++;
  }
  t.true(taken > 1000 && taken < 3900, `${taken} of 4000 records were taken`);
});

test("a numeric id that may have been rounded is refused, hashed or not", (t) => {
  const { encode } = createRecordEncoder(data, tables);
  const base = { plain: 1, must: 2 };
  const exact = 1474671338756698595n;
  const rounded = Number(exact);
  t.deepEqual(
    encode([{ ...base, text: exact, wide: exact }]),
    encode([{ ...base, text: "1474671338756698595", wide: "1474671338756698595" }]),
  );
  for (const record of [{ text: rounded }, { wide: rounded }, { bag: [1, rounded] }]) {
    t.throws(() => encode([{ ...base, ...record }]), {
      message: /^Cannot use records\[0\]: .* as text, bigint or a safe integer$/,
    });
  }
  t.notThrows(() => encode([{ ...base, plain: rounded, text: 0.5 }]));
});

test("a record without a value may have the column that splits the data", (t) => {
  const record = { must: 2, when: "2026-11-30" };
  const { encode } = createRecordEncoder(data, tables, undefined, { kind: "time", column: "when" });
  t.deepEqual(encode([record]), encode([{ must: 2 }]));
  const message = /`when` is no column of the job/;
  t.throws(() => createRecordEncoder(data, tables).encode([record]), { message });
});

test("a list of numbers gives the bag of their texts", (t) => {
  const encoder = createRecordEncoder(data, tables);
  const random = new RandomStream(seed, purposes.faults);
  for (let i = 0; i < 2000; i++) {
    const list = Array.from({ length: random.below(4) }, () =>
      random.below(9) === 0 ? drawn(random) : random.below(50),
    ).filter((value) => Number.isSafeInteger(value));
    const name = ["bag", "wides"][i % 2] ?? "";
    const base = { plain: 1, must: 2 };
    const found = outcome(() => encoder.encode([{ ...base, [name]: list }]));
    const expected = outcome(() => encoder.encode([{ ...base, [name]: list.map(String) }]));
    t.deepEqual(found, expected, `seed ${seed}, ${name}: ${list}`);
  }
});

test("a boolean is its word as an id, and 1 or 0 as a number", (t) => {
  const encoder = createRecordEncoder(data, tables);
  const base = { plain: 1, log: 0, must: 2, text: "a" };
  const of = (record: SampleRecord) => encoder.encode([{ ...base, ...record }]);
  for (const value of [true, false]) {
    // The same as in training from JSON Lines, Parquet and Arrow.
    t.deepEqual(of({ text: value }), of({ text: String(value) }));
    t.deepEqual(of({ must: value }), of({ must: Number(value) }));
    // As text, true and false are no numbers; this column takes unreadable text as missing.
    t.deepEqual(of({ told: value }), of({ told: null }));
  }
  const columns = { label: "y", batchSize: 1, dense: [{ column: "told", unreadable: "missing" }] };
  const table = checkOptions(dataOptions, parquet("absent.parquet", columns as never));
  const ofTable = createRecordEncoder(table, []);
  t.deepEqual(ofTable.encode([{ told: true }]), ofTable.encode([{ told: 1 }]));
  t.throws(() => of({ row: true }), { message: /`row`/ });
});

test("missing values equal empty text, and non-ASCII text is UTF-8 bytes", (t) => {
  const encoder = createRecordEncoder(data, tables);
  for (const value of [null, undefined]) {
    for (const name of names) {
      const base: SampleRecord = { plain: 1, must: 2, text: "a" };
      const found = outcome(() => encoder.encode([{ ...base, [name]: value }]));
      const expected = outcome(() => encoder.encode([{ ...base, [name]: "" }]));
      sameValues(t, found, expected, `${name}: ${value}`);
    }
  }
  const bytes = Buffer.from("Zürich").toString("latin1");
  const idOf = (text: string) => encoder.encode([{ must: 1, text }]).ids[0];
  t.not(idOf("Zürich"), idOf(bytes));
  t.not(idOf("Zürich"), idOf("Zurich"));
});

test("a batch has the ids of its samples feature by feature, for any number of samples", (t) => {
  const synthetics = [
    { name: "A", rows: 1000 },
    { name: "B", rows: 1000, ...wide },
    { name: "C", rows: 1000 },
  ];
  const section = synthetic({ samples: 1, batchSize: 1, dense: 1, weights: "uniform" });
  const encoder = createRecordEncoder(checkOptions(dataOptions, section), synthetics);
  const random = new RandomStream(seed, purposes.faults);
  for (const samples of [1, 2, 7, 100]) {
    const bags = Array.from({ length: samples }, () =>
      synthetics.map(() =>
        Array.from({ length: random.below(40) }, () => [random.below(1000), random.below(64) / 8]),
      ),
    );
    const records = bags.map((bag, i) => {
      const lists = synthetics.map(({ name }, f) => {
        return [name, (bag[f] ?? []).map(([id, weight]) => `${id}:${weight}`)] as const;
      });
      return { I1: i, ...Object.fromEntries(lists) };
    });
    const batch = encoder.encode(records);
    const expected = synthetics.flatMap((_, f) => bags.map((bag) => bag[f] ?? []));
    t.deepEqual(
      [...batch.lengths],
      expected.map(({ length }) => length),
    );
    sameValues(
      t,
      [...batch.ids],
      expected.flat().map(([id]) => id ?? -1),
    );
    sameValues(
      t,
      [...(batch.weights ?? [])],
      expected.flat().map(([, weight]) => weight ?? -1),
    );
    t.deepEqual([...(batch.highs ?? [])], [...batch.ids].fill(0));
    t.deepEqual(
      [...batch.dense],
      records.map(({ I1 }) => I1),
    );
  }
});

const fixtures = join(import.meta.dirname, "..", "..", "..", "..", "test", "fixtures", "parquet");
const tableOf = (name: string) => [{ name, rows: 1000 }];

/** The ids of a column, row by row. */
async function idsOf(t: ExecutionContext, options: DataOptions, column: string) {
  const { path } = await prepare(options, tableOf(column));
  const dataset = openCached(t, path);
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
