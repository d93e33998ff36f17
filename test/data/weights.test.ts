// Weights of ids, from text and the generator to the batch.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { type CsvOptions, dataOptions } from "../../src/data/options.ts";
import { createRecordEncoder } from "../../src/data/records.ts";
import { csv, synthetic } from "../../src/data/sources.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { resolveJob } from "../../src/job/job.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { sameValues } from "../helpers/same-values.ts";
import { openCached, prepare, readPlain, startDirectory, writeText } from "./data-files.ts";

const tables = [
  { name: "item", rows: 20 },
  { name: "user", rows: 50 },
  { name: "topic", rows: 30 },
];
const scored = {
  column: "item",
  ids: "integer" as const,
  separator: "|",
  weightSeparator: ":",
};

async function readCsv(t: ExecutionContext, lines: readonly string[], columns = csvColumns) {
  const directory = startDirectory(t);
  const text = `y,item,user,topic\n${lines.join("\n")}\n`;
  const path = writeText(directory, { name: "a.csv", text });
  const options = { label: "y", batchSize: 1, rejectedMax: 1, cache: join(directory, "cache") };
  const report = await prepare(csv(path, { ...options, categorical: columns }), tables);
  const dataset = openCached(t, report.path);
  return { report, samples: readPlain(dataset), dataset };
}

const csvColumns: NonNullable<CsvOptions["categorical"]> = [
  scored,
  "user",
  { column: "topic", weightSeparator: "=" },
];

test("in a feature with weights, an id has the weight after it", async (t) => {
  const { report, samples } = await readCsv(t, [
    "1,12:0.5|7:2,ann,a=b=-1.5",
    "0,,bob,",
    "0,3:1e-3||4:0|3: 8 ,cid,x=1",
  ]);
  t.deepEqual(report.weighted, [true, false, true]);
  t.deepEqual(
    samples.map(({ bags }) => bags[0]),
    [[12, 7], [], [3, 4, 3]],
  );
  t.deepEqual(
    samples.map(({ weights }) => weights),
    [
      [[0.5, 2], [1], [-1.5]],
      [[], [1], [1]],
      [[Math.fround(1e-3), 0, 8], [1], [1]],
    ],
  );
  const plain = await readCsv(
    t,
    ["1,12|7,ann,a=b"],
    [{ ...scored, weightSeparator: undefined } as never, "user", "topic"],
  );
  t.deepEqual(samples[0]?.bags, plain.samples[0]?.bags, "weights change no id");
  t.deepEqual(plain.samples[0]?.weights, undefined);
});

test("a bad weight makes a bad line, and the reason names it", async (t) => {
  const bad = ["12", "12:", ":0.5", "12:x", "12:NaN", "12:Infinity", "12:1e39", "1:1|2", "a:1"];
  const { report, samples } = await readCsv(
    t,
    [...bad, "12:3"].map((item) => `1,${item},ann,x=1`),
  );
  t.is(samples.length, 1);
  t.deepEqual(
    report.quarantine.kept.map(({ line, reason }) => `${line}: ${reason}`),
    [
      ...bad.slice(0, 7).map((item, i) => {
        return `${i + 2}: expected \`item\` to be an id, \`:\` and a number, got \`${item}\``;
      }),
      "9: expected `item` to be an id, `:` and a number, got `2`",
      "10: expected `item` to be an integer, got `a`",
    ],
  );
});

test("weights stay with their ids in any order of samples, from memory and from disk", async (t) => {
  const cache = join(startDirectory(t), "cache");
  const idsPerBag = { min: 0, max: 5 };
  const options = { samples: 500, batchSize: 8, dense: 3, idsPerBag, cache };
  const report = await prepare(synthetic({ ...options, weights: "uniform" }), tables);
  const whole = openCached(t, report.path);
  const blocks = openCached(t, report.path, 10_000);
  const all = readPlain(whole);
  sameValues(t, readPlain(blocks), all);
  const indices = [499, 0, 31, 32, 31, 250];
  sameValues(t, readPlain(blocks, indices), indices.map((index) => all[index]) as typeof all);
  const weights = all.flatMap((sample) => sample.weights?.flat() ?? []);
  t.is(weights.length, all.flatMap(({ bags }) => bags.flat()).length);
  t.true(weights.every((weight) => weight >= 0 && weight <= 2));
  const mean = weights.reduce((sum, weight) => sum + weight, 0) / weights.length;
  t.true(Math.abs(mean - 1) < 0.05, `mean ${mean}`);
  t.true(new Set(weights).size > 0.99 * weights.length);
  // Weights change labels, as the generator's true model includes them, but no id.
  const plain = await prepare(synthetic(options), tables);
  const unweighted = openCached(t, plain.path);
  t.deepEqual(
    readPlain(unweighted).map(({ bags }) => bags),
    all.map(({ bags }) => bags),
  );
  t.not(plain.digest, report.digest);
  t.not(plain.positives, report.positives);
});

test("a batch without room for weights is refused", async (t) => {
  const { dataset } = await readCsv(t, ["1,1:2,ann,x=1"]);
  const memory = { dense: new Float32Array(0), labels: new Float32Array(1) };
  const bags = { lengths: new Int32Array(3), ids: new Int32Array(9) };
  const read = (weights?: Float32Array) => () =>
    dataset.read(Float64Array.of(0), { ...memory, ...bags, weights });
  t.throws(read(), { message: /room for its weights/ });
  t.is(read(new Float32Array(3))(), 3);
});

test("records take ids and weights in the text form of training", (t) => {
  const data = csv("a.csv", { label: "y", batchSize: 1, categorical: csvColumns });
  const encoder = createRecordEncoder(checkOptions(dataOptions, data), tables);
  const batch = encoder.encode([
    { item: "12:0.5|7:2", user: "ann" },
    { item: ["3:4"], user: "bob", topic: "x=3" },
  ]);
  t.deepEqual([...batch.lengths], [2, 1, 1, 1, 1, 1]);
  t.deepEqual([...batch.ids.subarray(0, 3)], [12, 7, 3]);
  t.deepEqual([...(batch.weights ?? [])], [0.5, 2, 4, 1, 1, 1, 3]);
  const refused = () => encoder.encode([{ item: [12] }]);
  t.throws(refused, {
    instanceOf: InvalidOptionError,
    message: /an id, `:` and a number, got `12`/,
  });
  const section = synthetic({ samples: 1, batchSize: 1, dense: 0, weights: "uniform" });
  const generated = createRecordEncoder(checkOptions(dataOptions, section), [
    { name: "a", rows: 9 },
  ]);
  t.deepEqual([...(generated.encode([{ a: ["3:0.25", "8:1"] }]).weights ?? [])], [0.25, 1]);
});

test("the two separators must differ, and held-out data have weights for the same tables", (t) => {
  const section = (separator: string | undefined, weightSeparator: string | undefined) => {
    const column = { column: "a", separator, weightSeparator } as { column: string };
    return csv("a.csv", { label: "y", batchSize: 8, categorical: [column] });
  };
  t.throws(() => checkOptions(dataOptions, section("|", "|"), "data"), {
    instanceOf: InvalidOptionError,
    message:
      "Expected `data.categorical[0].weightSeparator` to be another character than `separator`, " +
      "got `|` (string)",
  });
  const model = { kind: "dlrm" as const, tables: [{ name: "a", rows: 9, dim: 2 }], top: [1] };
  const [data, held] = [section("|", ":"), section("|", undefined)];
  const job = (evaluation: typeof data, dataDiffers?: boolean) => () =>
    resolveJob({ model, data, evaluation: { data: evaluation, dataDiffers } });
  t.notThrows(job(section(";", "=")));
  t.throws(job(held), {
    message: /`evaluation\.data\.categorical\[0\]\.weightSeparator` to be ":"/,
  });
  t.throws(job(held, true), {
    instanceOf: InvalidOptionError,
    message: "Expected `evaluation.data` to have weights for table `a`, as the training data has",
  });
});
