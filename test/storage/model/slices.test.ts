// Metrics by slices of a column's values, and feature importance by permutation: the figures equal
// sums over records, by definition.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { dataOptions } from "../../../src/data/options.ts";
import { Permutation } from "../../../src/data/permutation.ts";
import { featureColumnsOf } from "../../../src/data/records.ts";
import { arrow, criteo, csv, jsonl, parquet } from "../../../src/data/sources.ts";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import type { JobOptions } from "../../../src/job/job.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { purposes } from "../../../src/ports/random.ts";
import { featureImportance } from "../../../storage/model/evaluation/feature-importance.ts";
import { sliceMetrics } from "../../../storage/model/evaluation/slice-metrics.ts";
import { loadModel } from "../../../storage/model/load-model.ts";
import type { Model } from "../../../storage/model/model.ts";
import { fixtures as arrowFixtures } from "../../data/arrow/arrow-files.ts";
import { startDirectory } from "../../data/data-files.ts";
import { fixtures } from "../../data/parquet/parquet-files.ts";
import { drawClicks } from "../../helpers/models/clicks.ts";
import { drawModel } from "../../helpers/stores/drawn-model.ts";

interface Line {
  readonly clicked: number | string;
  readonly price: number | string;
  readonly user: string;
  readonly country: string;
  readonly day: string;
}

const countries = ["DE", "FR", "Österreich", "", "US"];

/** Lines, some of them bad: without a valid label, price or day. */
const lines: readonly Line[] = Array.from({ length: 400 }, (_, i) => ({
  clicked: i % 57 === 5 ? "?" : Number((i * 7) % 11 < 4),
  price: i % 61 === 3 ? "cheap" : (i * 13) % 17,
  user: `u${(i * i) % 23}`,
  country: countries[Math.floor(Math.sqrt((i * 37) % 25))] ?? "",
  day: i % 43 === 2 ? "" : `d${i % 50}`,
}));
const isGood = ({ clicked, price }: Line) => clicked !== "?" && price !== "cheap";
const good = lines.filter(isGood);

const tables = [{ name: "user", rows: 40, dim: 4, initScale: 1 }];
const model: JobOptions["model"] = {
  kind: "dlrm",
  dense: 1,
  tables,
  bottom: [4],
  top: [6, 1],
  interaction: "cat",
};

/** A model with drawn weights, of a file with columns that the model does not read. */
async function drawHere(
  t: ExecutionContext,
  { kind = "csv", ...more }: Partial<JobOptions> & { readonly kind?: "csv" | "jsonl" } = {},
): Promise<Model> {
  const home = startDirectory(t);
  const path = join(home, `clicks.${kind}`);
  const header = "clicked,price,user,country,day";
  const rows = lines.map(({ clicked, price, user, country, day }) => {
    return [clicked, price, user, `"${country}"`, day].join(",");
  });
  const asJson = lines.map((line) => JSON.stringify({ ...line, country: line.country || null }));
  writeFileSync(path, `${(kind === "csv" ? [header, ...rows] : asJson).join("\n")}\n`);
  const options = {
    ...{ label: "clicked", dense: ["price"], categorical: ["user"], batchSize: 20 },
    ...{ cache: join(home, "cache"), rejectedMax: 0.1 },
  };
  const data = kind === "csv" ? csv(path, options) : jsonl(path, options);
  const checkpoint = { directory: join(home, "checkpoints") };
  const job = await drawModel({ model, data, checkpoint, ...more });
  return await loadModel(job.checkpoint.directory, { arithmetic: "reference" });
}

const recordOf = ({ price, user }: Line) => ({ price: Number(price), user });

/**
 * Metrics by definition: AUC by comparing all pairs, log loss by its sum, and the metrics derived
 * from them.
 */
function figuresOf(probabilities: readonly number[], labels: readonly number[]) {
  const { length: samples } = labels;
  const of = (label: number) => probabilities.filter((_, i) => labels[i] === label);
  const [negatives, positives] = [of(0), of(1)];
  const wins = positives.flatMap((p) => negatives.map((n) => (p > n ? 1 : p === n ? 0.5 : 0)));
  const sum = (values: readonly number[]) => values.reduce((all, one) => all + one, 0);
  const loss = probabilities.map((p, i) => -Math.log(labels[i] === 1 ? p : 1 - p));
  const rate = positives.length / samples;
  const entropy = -rate * Math.log(rate) - (1 - rate) * Math.log(1 - rate);
  return {
    samples,
    positives: positives.length,
    auc: sum(wins) / wins.length,
    logLoss: sum(loss) / samples,
    normalizedEntropy: sum(loss) / samples / entropy,
    calibration: sum([...probabilities]) / positives.length,
  };
}

async function figuresOfLines(of: Model, some: readonly Line[]) {
  const probabilities = [...(await of.predict(some.map(recordOf)))];
  return figuresOf(
    probabilities,
    some.map(({ clicked }) => Number(clicked)),
  );
}

function isNear(t: ExecutionContext, found: object, wanted: object, what = ""): void {
  for (const [name, value] of Object.entries(wanted)) {
    const own = (found as Record<string, number>)[name] ?? Number.NaN;
    t.true(Math.abs(own - value) < 1e-6, `${what} ${name}: ${own}, not ${value}`);
  }
}

for (const kind of ["csv", "jsonl"] as const) {
  test(`${kind}: slices of a column that the model does not read equal those of its lines`, async (t) => {
    await using drawn = await drawHere(t, { kind });
    const { data } = drawn.job;
    const files = { paths: "paths" in data ? data.paths : [] };
    const [found] = await sliceMetrics(drawn, ["country"], { data: files, slicesMax: 3 });
    const byCountry = new Map<string, Line[]>();
    for (const line of good) {
      byCountry.set(line.country, [...(byCountry.get(line.country) ?? []), line]);
    }
    const ordered = [...byCountry].sort(([, a], [, b]) => b.length - a.length);
    const names = ordered.map(([name]) => (name === "" ? null : name));
    t.true(names.indexOf(null) < 3, "a missing value is a slice of its own");
    t.deepEqual(
      found?.slices.map(({ value }) => value),
      names.slice(0, 3),
    );
    for (const [i, { value, metrics }] of (found?.slices ?? []).entries()) {
      isNear(t, metrics, await figuresOfLines(drawn, ordered[i]?.[1] ?? []), `${value}`);
    }
    const rest = new Set(ordered.slice(3).map(([name]) => name));
    const others = good.filter(({ country }) => rest.has(country));
    t.like(found?.others, { values: 2, isMore: false });
    isNear(t, found?.others?.metrics ?? {}, await figuresOfLines(drawn, others), "others");
    t.deepEqual(await sliceMetrics(drawn, ["country"], { data: files, slicesMax: 3 }), [found]);
  });
}

test("slices of held-out samples follow the split's held-out and skipped lines", async (t) => {
  const evaluation = { fraction: 0.3, split: { kind: "hash", column: "day" } } as const;
  await using drawn = await drawHere(t, { evaluation });
  const whole = await drawn.evaluate();
  const [byDay, byCountry] = await sliceMetrics(drawn, ["day", "country"], { slicesMax: 100 });
  const days = new Set(byDay?.slices.map(({ value }) => value));
  t.false(days.has(null));
  t.true(days.size > 5 && days.size < 40, `${days.size} days`);
  const held = good.filter(({ day }) => days.has(day));
  t.is(whole.samples, held.length);
  const training = await drawn.evaluate(undefined, { part: "training" });
  const others = good.filter(({ day }) => day !== "" && !days.has(day));
  isNear(t, training, await figuresOfLines(drawn, others), "training");
  for (const { value, metrics } of byCountry?.slices ?? []) {
    const own = held.filter(({ country }) => country === (value ?? ""));
    isNear(t, metrics, await figuresOfLines(drawn, own), `${value}`);
  }
  t.is(byCountry?.others, undefined);
});

test("each task has metrics in each slice", async (t) => {
  const { path, directory } = await drawClicks(t, "tasks");
  await using drawn = await loadModel(directory, { arithmetic: "reference" });
  const [found] = await sliceMetrics(drawn, ["price"], { data: { paths: [path] } });
  t.is(found?.slices.length, 7);
  const { tasks } = found?.slices[0]?.metrics ?? {};
  t.deepEqual(Object.keys(tasks ?? {}), ["clicked", "bought"]);
  t.like(tasks, { clicked: { samples: 9 }, bought: { samples: 9, positives: 2 } });
});

test("columnar and text files have the same slices, for any kind of column", async (t) => {
  const common = { label: "label", positive: [1, 2], dense: ["age"], categorical: ["colour"] };
  const found = [];
  for (const [make, path] of [
    [csv, join(fixtures, "clicks.csv")],
    [parquet, join(fixtures, "clicks.parquet")],
    [arrow, join(arrowFixtures, "clicks.arrow")],
  ] as const) {
    const home = startDirectory(t);
    const data = make(path, { ...common, batchSize: 8, cache: join(home, "cache") });
    const checkpoint = { directory: join(home, "checkpoints") };
    const own = { ...model, tables: [{ name: "colour", rows: 40, dim: 4 }] } as typeof model;
    const job = await drawModel({ model: own, data, checkpoint });
    await using drawn = await loadModel(job.checkpoint.directory, { arithmetic: "reference" });
    const columns = ["colour", "shop", "tags", "label"];
    found.push(await sliceMetrics(drawn, columns, { data: { paths: [path] } }));
  }
  const [text, ...others] = found;
  t.true((text?.[2]?.slices.length ?? 0) > 2);
  for (const other of others) t.deepEqual(other, text);
});

test("Criteo's columns have the names of the documents", async (t) => {
  const home = startDirectory(t);
  const path = join(home, "data.tsv");
  const rows = Array.from({ length: 30 }, (_, i) => {
    const ids = Array.from({ length: 26 }, (_value, c) => (c === 1 ? `v${i % 3}` : "x"));
    return [i % 2, ...Array.from({ length: 13 }, () => i), ...ids].join("\t");
  });
  writeFileSync(path, `${rows.join("\n")}\n`);
  const ids = criteo.tables({ dim: 4, rows: 40 });
  const job = await drawModel({
    model: { kind: "dlrm", dense: 13, tables: ids, bottom: [4], top: [1], interaction: "cat" },
    data: criteo.tsv(path, { batchSize: 10, cache: join(home, "cache") }),
    checkpoint: { directory: join(home, "checkpoints") },
  });
  await using drawn = await loadModel(job.checkpoint.directory, { arithmetic: "reference" });
  const [found] = await sliceMetrics(drawn, ["C2"], { data: { paths: [path] } });
  t.deepEqual(
    found?.slices.map(({ value, metrics }) => [value, metrics.samples, metrics.positives]),
    [
      ["v0", 10, 5],
      ["v1", 10, 5],
      ["v2", 10, 5],
    ],
  );
});

test("a column that is missing, or no count of slices, is refused in a sentence", async (t) => {
  await using drawn = await drawHere(t, { evaluation: { fraction: 0.5 } });
  const refused = async (columns: readonly string[], options: object, message: RegExp) => {
    const error = await t.throwsAsync(sliceMetrics(drawn, columns, options));
    t.true(error instanceof InvalidOptionError);
    t.regex(error?.message ?? "", message);
  };
  await refused(
    ["contry"],
    {},
    /^`by` names the column `contry`, which .* did you mean `country`\?/,
  );
  await refused([], {}, /^Expected `by` to be names of columns, got `\[\]`/);
  await refused(
    ["day"],
    { slicesMax: 0 },
    /^Expected `slicesMax` to be an integer from 1 to 10000/,
  );
  await t.throwsAsync(featureImportance(drawn, { seed: -1 }), {
    message: /^Expected `seed` to be an integer from 0/,
  });
});

test("feature importance is the loss of metrics with permuted records, block by block", async (t) => {
  const home = startDirectory(t);
  const path = join(home, "clicks.csv");
  // One row with 20,000 ids limits blocks to 1,024 rows, so that there are two of them.
  const rows = Array.from({ length: 1500 }, (_, i) => {
    const many = Array.from({ length: i === 700 ? 20_000 : i % 4 }, (_value, k) => k % 29);
    const users = many.length > 0 ? many.map((k) => `u${(i + k) % 23}`) : [];
    return { label: Number((i * 7) % 11 < 4), price: i % 19 === 1 ? "" : `0.${i % 9}`, users };
  });
  const text = rows.map(({ label, price, users }) => `${label},${price},${users.join("|")}`);
  writeFileSync(path, `label,price,users\n${text.join("\n")}\n`);
  const users = { name: "users", rows: 40, dim: 1, initScale: 1, pooling: "mean" } as const;
  const job = await drawModel({
    model: { kind: "lr", dense: 2, tables: [users] },
    data: csv(path, {
      ...{ label: "label", dense: [{ column: "price", missing: "indicator" }], batchSize: 20 },
      categorical: [{ column: "users", separator: "|" }],
      cache: join(home, "cache"),
    }),
    checkpoint: { directory: join(home, "checkpoints") },
    seed: 5,
  });
  await using drawn = await loadModel(job.checkpoint.directory, { arithmetic: "reference" });
  const data = { paths: [path] };
  const found = await featureImportance(drawn, { data });
  t.like(found, { seed: 5, blockSamples: 1024 });
  const labels = rows.map(({ label }) => label);
  const figures = async (part?: number) => {
    const from = rows.map((_, i) => {
      if (part === undefined) return i;
      const step = Math.floor(i / 1024);
      const size = Math.min(1024, rows.length - 1024 * step);
      const purpose = purposes.importance;
      const order = new Permutation({ seed: 5, purpose, step, part, size });
      return 1024 * step + order.at(i % 1024);
    });
    const records = rows.map(({ price, users }, i) => {
      const other = rows[from[i] ?? 0];
      return part === 1
        ? { price, users: other?.users ?? [] }
        : { price: other?.price ?? "", users };
    });
    return figuresOf([...(await drawn.predict(records))], labels);
  };
  const before = await figures();
  isNear(t, found.metrics, before);
  t.deepEqual(
    found.tasks.map(({ task }) => task),
    ["label"],
  );
  const features = found.tasks[0]?.features ?? [];
  t.deepEqual(features.map(({ feature }) => feature).sort(), ["price", "users"]);
  t.true((features[0]?.aucDrop ?? 0) >= (features[1]?.aucDrop ?? 1), "the larger drop first");
  for (const { feature, ...loss } of features) {
    const after = await figures(feature === "price" ? 0 : 1);
    const rise = after.logLoss - before.logLoss;
    t.true(Math.abs(rise) > 1e-4, `${feature}: permuting it changes something`);
    isNear(t, loss, { aucDrop: before.auc - after.auc, logLossRise: rise }, feature);
  }
  t.deepEqual(await featureImportance(drawn, { data }), found, "a second call gives the same bits");
  t.notDeepEqual(await featureImportance(drawn, { data, seed: 6 }), found);
});

test("features are named by the file columns that they are made of", (t) => {
  const made = [
    { op: "log", input: "price", output: "price_log" },
    { op: "scale", input: "price_log", output: "price_scaled", minus: 1, over: 2 },
    { op: "hashText", input: "user", output: "user_id" },
    { op: "cartesian", inputs: ["user_id", "item"], output: "both", max: 10 },
  ];
  const data = checkOptions(
    dataOptions,
    csv("clicks.csv", {
      ...{ label: "clicked", batchSize: 1, transforms: made as never },
      dense: ["price_scaled", "age"],
      categorical: ["user_id", "both"].map((column) => ({ column, table: column, ids: "integer" })),
    }),
  );
  const tables = ["user_id", "both"].map((name) => ({ name, rows: 10 }));
  t.deepEqual(featureColumnsOf(data, tables), {
    dense: ["price", "age"],
    features: ["user", "both"],
  });
});
