// Features that predict the label of every line, and columns without values, are found while the
// cache is written.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { CsvOptions } from "../../src/data/options.ts";
import { csv } from "../../src/data/sources.ts";
import { prepare, startDirectory, writeText } from "./data-files.ts";

/** The label of line i: a third of the lines are positive. */
const labelOf = (i: number) => (i % 3 === 1 ? 1 : 0);

/** The warnings about a column `x` whose text on line i is `textOf(i)`. */
async function warningsOf(
  t: ExecutionContext,
  textOf: (i: number) => string | number,
  kind: "dense" | "hash" | "integer" | "bag",
  lines = 300,
  code = "FEATURE_PREDICTS_LABEL",
): Promise<string[]> {
  const directory = startDirectory(t);
  const rows = Array.from({ length: lines }, (_, i) => `${labelOf(i)},${textOf(i)},${i % 7}`);
  const text = `y,x,noise\n${rows.join("\n")}\n`;
  const forms: Record<typeof kind, Partial<CsvOptions>> = {
    dense: { dense: ["noise", "x"] },
    hash: { dense: ["noise"], categorical: ["x"] },
    integer: { dense: ["noise"], categorical: [{ column: "x", ids: "integer" }] },
    bag: { dense: ["noise"], categorical: [{ column: "x", separator: "|" }] },
  };
  const section = csv(writeText(directory, { name: "a.csv", text }), {
    ...{ label: "y", batchSize: 1, cache: join(directory, "cache") },
    ...forms[kind],
  });
  const report = await prepare(section, kind === "dense" ? [] : [{ name: "x", rows: 1_000_000 }]);
  const warnings = report.warnings ?? [];
  t.true(warnings.every((warning) => warning.code === code));
  t.deepEqual(
    (await prepare(section, kind === "dense" ? [] : [{ name: "x", rows: 1_000_000 }])).warnings,
    warnings,
  );
  return warnings.map(({ message }) => message);
}

const beginning = "The column `x` predicts the label of every line: ";

test("a dense feature whose classes do not overlap is named, with the values between", async (t) => {
  const [above] = await warningsOf(t, (i) => 10 * labelOf(i) + (i % 5), "dense");
  t.true(
    above?.startsWith(`${beginning}at most 4 where the label is 0, at least 10 where it is 1`),
  );
  const [below] = await warningsOf(t, (i) => 1 - labelOf(i), "dense");
  t.true(below?.startsWith(`${beginning}at most 0 where the label is 1, at least 1 where it is 0`));
  t.regex(below ?? "", /if it was made from the label, take it out of `data\.dense`$/);
});

test("a dense feature that one line contradicts is not named", async (t) => {
  const but = (line: number) => (i: number) => (i === line ? 1 - labelOf(i) : labelOf(i));
  t.deepEqual(await warningsOf(t, but(299), "dense"), []);
  t.deepEqual(await warningsOf(t, but(0), "dense"), []);
});

test("a categorical feature each of whose values comes with one label is named", async (t) => {
  const named = `${beginning}each of its values comes with one label only`;
  const value = (i: number) => 1 + 2 * (i % 10) + labelOf(i);
  for (const kind of ["hash", "integer"] as const) {
    const [message] = await warningsOf(t, value, kind);
    t.true(message?.startsWith(named), message);
  }
  const [message] = await warningsOf(t, (i) => `${i % 4}|${labelOf(i)}`, "bag");
  t.true(message?.startsWith(named), message);
  const contradicted = (i: number) => (i === 299 ? value(1) : value(i));
  t.deepEqual(await warningsOf(t, contradicted, "hash"), []);
});

test("ids that rarely repeat, as those of rare users, prove nothing", async (t) => {
  t.deepEqual(await warningsOf(t, (i) => i, "integer"), []);
});

test("a feature that is missing in one class only is named", async (t) => {
  const balance = (i: number) => (labelOf(i) === 1 ? (i % 9) - 4 : "");
  const [dense] = await warningsOf(t, balance, "dense");
  t.regex(dense ?? "", /`x` predicts .* missing where the label is 0, and present where it is 1; /);
  const purchase = (i: number) => (labelOf(i) === 1 ? 1000 + i : "");
  for (const kind of ["hash", "integer", "bag"] as const) {
    const [message] = await warningsOf(t, purchase, kind);
    const named = `${beginning}it is missing where the label is 0, and present where it is 1`;
    t.true(message?.startsWith(named), message);
  }
});

test("a column without a value in any line is named, whatever its kind", async (t) => {
  const named = ["The column `x` has no value in any good line: the model learns nothing of it"];
  for (const kind of ["dense", "hash", "integer", "bag"] as const) {
    t.deepEqual(await warningsOf(t, () => "", kind, 9, "COLUMN_EMPTY"), named);
    t.deepEqual(await warningsOf(t, (i) => (i === 8 ? 1 : ""), kind, 9), []);
  }
});

test("too few lines of a class prove nothing", async (t) => {
  t.deepEqual(await warningsOf(t, labelOf, "dense", 60), []);
  t.is((await warningsOf(t, labelOf, "dense", 90)).length, 1);
});
