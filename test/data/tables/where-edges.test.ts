// Predicates on values that a float64 cannot distinguish: the rows are those that DuckDB and numpy
// find (test/fixtures/where/make.py), in Parquet, with and without statistics, and in Arrow.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { comparedUnits, exactOf } from "../../../src/data/columnar/exact-values.ts";
import { rowTest } from "../../../src/data/columnar/row-filter.ts";
import { dataOptions, type ResolvedTableOptions } from "../../../src/data/options.ts";
import { mayHaveWanted } from "../../../src/data/parquet/prune.ts";
import { openTable } from "../../../src/data/tables/open-table.ts";
import { isInWanted, wantedRows } from "../../../src/data/tables/table-file.ts";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";

type Found = readonly [column: string, operation: string, bound: string, rows: readonly number[]];

const fixtures = "test/fixtures/where";
const found: readonly Found[] = JSON.parse(readFileSync(join(fixtures, "edges.json"), "utf8"));
const tables = [{ name: "row", rows: 20 }];

function optionsOf(file: string, more: object): ResolvedTableOptions {
  const kind = file.endsWith(".arrow") ? "arrow" : "parquet";
  const features = { label: "label", categorical: [{ column: "row", ids: "integer" }] };
  const options = { kind, paths: [join(fixtures, file)], ...features, batchSize: 8, ...more };
  return checkOptions(dataOptions, options) as ResolvedTableOptions;
}

/** The rows of a file that a job keeps, by the ids of the column `row`. */
async function rowsOf(file: string, more: object): Promise<number[]> {
  const opened = await openTable(join(fixtures, file), optionsOf(file, more), tables);
  const rows: number[] = [];
  try {
    for await (const { batch, isWanted } of wantedRows(opened)) {
      const column = batch.columns.get("row");
      if (column?.form !== "ids") throw new TypeError("ids");
      for (let row = 0; row < batch.rows; row++) {
        if (isWanted(row)) rows.push(Number(column.ids[row]));
      }
    }
  } finally {
    await opened.close();
  }
  return rows;
}

for (const file of ["edges.parquet", "plain.parquet", "edges.arrow"]) {
  test(`64-bit values, decimals, times and floats are compared in their own type: ${file}`, async (t) => {
    for (const [column, operation, bound, rows] of found) {
      const where = [{ column, [operation]: bound }];
      t.deepEqual(await rowsOf(file, { where }), rows, `${column} ${operation} ${bound}`);
      if (operation !== "equals") continue;
      const some = [{ column, in: ["none", bound] }];
      t.deepEqual(await rowsOf(file, { where: some }), rows, `${column} in ${bound}`);
    }
  });
}

test("a column that is also a feature is compared exactly, and read as before", async (t) => {
  for (const file of ["edges.parquet", "edges.arrow"]) {
    for (const [column, operation, bound, rows] of found) {
      if (column === "text" || column === "row") continue;
      const where = [{ column, [operation]: bound }];
      const kept = await rowsOf(file, { where, dense: [column] });
      t.deepEqual(kept, rows, `${file}: ${column} ${operation} ${bound}`);
    }
  }
});

test("INT96 times are compared to the nanosecond", async (t) => {
  for (const [column, operation, bound, rows] of found.filter(([name]) => name === "ns")) {
    const where = [{ column: "int96", [operation]: bound }];
    t.deepEqual(await rowsOf("int96.parquet", { where }), rows, `${column} ${operation} ${bound}`);
  }
});

test("a row group whose latest time no date can hold, as `infinity` of databases, is read", (t) => {
  const compared = comparedUnits(true, 1e6);
  const statistics = { min_value: new Date(0), max_value: new Date(Number.NaN) };
  const group = { rows: 1, chunks: new Map([["when", { statistics }]]) };
  const shapes = new Map([["when", { leaf: { path: "when", kind: "moment", compared } }]]);
  const latest = rowTest({ column: "when", from: "2026-11-01" }, compared);
  t.true(mayHaveWanted(group as never, [latest], shapes as never));
});

test("partition keys are compared with all their digits", (t) => {
  const isIn = (key: string, predicate: object) =>
    isInWanted(`/t/user=${key}/part-0.parquet`, { where: [{ column: "user", ...predicate }] });
  t.true(isIn("9007199254740993", { equals: "9007199254740993" }));
  t.true(isIn("9007199254740993", { equals: "9007199254740993.0" }));
  t.false(isIn("9007199254740992", { equals: "9007199254740993" }));
  t.false(isIn("9007199254740992", { from: "9007199254740993" }));
  t.true(isIn("9007199254740992", { until: "9007199254740993" }));
  t.true(isIn("03", { equals: 3 }));
  t.true(isIn("2026-11-01", { from: "2026-11-01T00:00:00Z", until: "2026-11-01T00:00:00.1" }));
});

test("a job's number that may have been rounded is refused, and is exact as text", (t) => {
  const refused = () =>
    optionsOf("edges.parquet", { where: [{ column: "int64", equals: 2 ** 53 }] });
  t.throws(refused, { instanceOf: InvalidOptionError, message: /beyond 2\^53 as text/ });
  t.notThrows(() => optionsOf("edges.parquet", { where: [{ column: "double", until: 0.1 }] }));
});

test("texts are numbers and dates with all digits, however large their exponents", (t) => {
  t.deepEqual(exactOf(" -1.50e2 "), { form: "number", digits: -150n, scale: 0 });
  t.deepEqual(exactOf("+.10"), { form: "number", digits: 1n, scale: 1 });
  t.deepEqual(exactOf("1e-999999999"), { form: "number", digits: 0n, scale: 0 });
  t.is(exactOf("1e999"), undefined);
  t.is(exactOf("0x10"), undefined);
  t.is(exactOf(`0.${"1".repeat(2000)}`), undefined);
  t.deepEqual(exactOf("1969-12-31T23:59:59.5"), { form: "date", digits: -5n, scale: 1 });
  const { isWanted } = rowTest({ column: "x", from: "2026-11-01", until: "2026-11-02" });
  t.deepEqual(
    ["2026-10-31", "2026-11-01", "2026-11-01T23:59:59.999999999", "2026-11-02"].map(isWanted),
    [...[false, true, true, false]],
  );
});
