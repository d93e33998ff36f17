// Numeric labels: how text is read as one, the statistics in the cache, the warnings about features
// that predict them, and how they are generated.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { type CsvOptions, dataOptions } from "../../../src/data/options.ts";
import { csv, synthetic } from "../../../src/data/sources.ts";
import { generateSamples } from "../../../src/data/synthetic/synthetic.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { openCached, prepare, readPlain, startDirectory, writeText } from "../data-files.ts";

async function readCsv(t: ExecutionContext, text: string, more: Partial<CsvOptions>) {
  const directory = startDirectory(t);
  const path = writeText(directory, { name: "a.csv", text });
  const options = { label: "y", batchSize: 1, rejectedMax: 1, cache: join(directory, "cache") };
  const tables = more.categorical === undefined ? [] : [{ name: "x", rows: 1000 }];
  const report = await prepare(csv(path, { ...options, ...more }), tables);
  const dataset = openCached(t, report.path);
  return { report, samples: readPlain(dataset) };
}

test("a numeric label is read as float32, and other text makes a bad line", async (t) => {
  const good = ["3", "-0.25", " 1e3 ", "+7.5", "0.1", "3.4028234e38"];
  const bad = ["", "NaN", "inf", "-Infinity", "1e39", "0x10", "1,5".replace(",", "_"), "true"];
  const lines = [...good, ...bad].map((label, i) => `${label},${i}`);
  const { report, samples } = await readCsv(t, `y,d\n${lines.join("\n")}\n`, {
    dense: ["d"],
    numericLabels: ["y"],
  });
  t.deepEqual(
    samples.map(({ label }) => label),
    [3, -0.25, 1000, 7.5, Math.fround(0.1), Math.fround(3.4028234e38)],
  );
  t.deepEqual(report.labelRanges, [[-0.25, Math.fround(3.4028234e38)]]);
  t.is(report.positives, 0);
  t.is(report.quarantine.count, bad.length);
  const [reason] = report.quarantine.reasons;
  t.is(reason?.kind, "expected the label `y` to be a finite number");
  t.is(reason?.line, 2 + good.length);
});

test("each of several labels is read by its kind", async (t) => {
  const text = "y,click,d\n2.5,yes,1\n-1,no,2\nyes,yes,3\n";
  const { report, samples } = await readCsv(t, text, {
    ...{ label: ["click", "y"], positive: "yes", numericLabels: ["y"], dense: ["d"] },
  });
  t.deepEqual(
    samples.map(({ labels }) => labels),
    [
      [1, 2.5],
      [0, -1],
    ],
  );
  t.is(report.positives, 1, "positives of the first label");
  t.deepEqual(report.labelRanges, [
    [0, 1],
    [-1, 2.5],
  ]);
  t.is(report.quarantine.count, 1);
});

test("the same text read as classes and as numbers makes two caches", async (t) => {
  const text = "y,d\n0,1\n1,2\n";
  const own = { dense: ["d"] };
  const [classes, numbers] = [
    await readCsv(t, text, own),
    await readCsv(t, text, { ...own, numericLabels: ["y"] }),
  ];
  t.false("labelRanges" in classes.report);
  t.deepEqual(numbers.report.labelRanges, [[0, 1]]);
  const nameOf = (path: string) => path.split("/").at(-1);
  t.not(nameOf(numbers.report.path), nameOf(classes.report.path));
});

/** The warnings about a column `x` with the label `y`, with their codes. */
async function warningsOf(
  t: ExecutionContext,
  of: (i: number) => { readonly y: number; readonly x: string | number },
  kind: "dense" | "categorical",
  lines = 400,
): Promise<string[]> {
  const rows = Array.from({ length: lines }, (_, i) => `${of(i).y},${of(i).x},${(i * 7) % 11}`);
  const text = `y,x,noise\n${rows.join("\n")}\n`;
  const own: Partial<CsvOptions> =
    kind === "dense" ? { dense: ["noise", "x"] } : { dense: ["noise"], categorical: ["x"] };
  const { report } = await readCsv(t, text, { ...own, numericLabels: ["y"] });
  return (report.warnings ?? []).map(({ code, message }) => `${code}: ${message}`);
}

const label = (i: number) => ((i * 37) % 101) / 8;

test("a dense feature of which the label is a linear function is named", async (t) => {
  const exact = await warningsOf(t, (i) => ({ y: label(i), x: 3 - 2 * label(i) }), "dense");
  t.is(exact.length, 1);
  t.regex(exact[0] ?? "", /FEATURE_PREDICTS_LABEL: The column `x` predicts .* straight line of/);
  // Missing values in some lines do not hide it, and a large mean costs no precision.
  const gaps = (i: number) => ({ y: label(i), x: i % 3 === 0 ? "" : 1000 + label(i) });
  t.is((await warningsOf(t, gaps, "dense")).length, 1);
  const near = (i: number) => ({ y: label(i), x: label(i) + (i % 2) / 50 });
  t.deepEqual(await warningsOf(t, near, "dense"), [], "x has noise of a thousandth of its range");
  const few = (i: number) => ({ y: label(i), x: label(i) });
  t.deepEqual(await warningsOf(t, few, "dense", 59), [], "59 lines are too few");
  t.deepEqual(await warningsOf(t, (i) => ({ y: label(i), x: 5 }), "dense"), [], "x is constant");
});

test("a categorical feature each of whose values has one numeric label is named", async (t) => {
  const pure = await warningsOf(t, (i) => ({ y: (i % 20) / 2, x: `v${i % 20}` }), "categorical");
  t.regex(pure.join("; "), /^FEATURE_PREDICTS_LABEL: .*`x` .* each of its values comes with one/);
  const mixed = (i: number) => ({ y: i === 399 ? 99 : (i % 20) / 2, x: `v${i % 20}` });
  t.deepEqual(await warningsOf(t, mixed, "categorical"), [], "one line has another label");
  const ids = (i: number) => ({ y: i / 2, x: `v${i}` });
  t.deepEqual(await warningsOf(t, ids, "categorical"), [], "no value repeats");
});

test("a column without values is named, whatever the label", async (t) => {
  for (const kind of ["dense", "categorical"] as const) {
    const [only] = await warningsOf(t, (i) => ({ y: label(i), x: "" }), kind);
    t.regex(only ?? "", /^COLUMN_EMPTY: The column `x` has no value in any good line/);
  }
});

const generated = { samples: 20_000, dense: 3, batchSize: 10, seed: 4 };
const tables = [
  { name: "a", rows: 50 },
  { name: "b", rows: 50 },
];

function generatedBy(more: object) {
  const options = checkOptions(dataOptions, synthetic({ ...generated, ...more }));
  if (options.kind !== "synthetic") throw new RangeError("other data");
  const found: { labels: number[]; dense: number[] }[] = [];
  const report = generateSamples(options, tables, ({ labels, dense }) => {
    found.push({ labels: [...labels], dense: [...dense] });
  });
  return { found, report };
}

test("a generated numeric label is the true logit plus noise of 0.5", (t) => {
  const { found, report } = generatedBy({ numericLabels: ["label"] });
  t.is(report.positives, 0);
  t.true(Math.abs((report.bestRmse ?? 0) - 0.5) < 0.01, `best RMSE ${report.bestRmse}`);
  const values = found.map(({ labels }) => labels[0] ?? 0);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const spread = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  t.true(spread > 1, `the logit itself varies: ${spread}`);
  t.true(values.every((value) => value === Math.fround(value)));
  const classes = generatedBy({});
  t.deepEqual(
    found.slice(0, 50).map(({ dense }) => dense),
    classes.found.slice(0, 50).map(({ dense }) => dense),
    "features do not depend on the kind of label",
  );
  t.false("bestRmse" in classes.report);
  t.deepEqual(generatedBy({ numericLabels: ["label"] }).report, report);
});

test("of two generated labels only the second may be numeric", (t) => {
  const both = generatedBy({ labels: 2, numericLabels: ["label2"], samples: 500 });
  const plain = generatedBy({ labels: 2, samples: 500 });
  const firsts = (all: typeof both) => all.found.map(({ labels }) => labels[0]);
  t.deepEqual(firsts(both), firsts(plain), "the first label is unchanged");
  t.true(new Set(both.found.map(({ labels }) => labels[1])).size > 490);
  t.is(both.report.bestAuc, plain.report.bestAuc);
});
