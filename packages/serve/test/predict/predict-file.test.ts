// Predictions of a file, one probability per line: those of `Model.predict`, with the order and the
// bytes of the input lines.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import test, { type ExecutionContext } from "ava";
import { criteo, csv } from "../../../../src/data/sources.ts";
import { writeSyntheticTsv } from "../../../../src/data/synthetic/generated-lines.ts";
import { InputUnusableError, InvalidOptionError } from "../../../../src/errors/errors.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { startTrained } from "../../../../test/helpers/devices/trained.ts";
import { predictFile } from "../../predict/predict-file.ts";

const header = "clicked,price,user,tags";
const lines = Array.from({ length: 40 }, (_, i) => {
  return `${i % 3 === 0 ? 1 : 0},${i % 7}.25,"Zoë, ${i % 5}",t${i % 4}|t${i % 3}`;
});

async function trainedOnClicks(t: ExecutionContext) {
  const home = startDirectory(t);
  const path = join(home, "clicks.csv");
  writeFileSync(path, `${[header, ...lines].join("\n")}\n`);
  const directory = join(home, "checkpoints");
  const trained = await startTrained({
    model: {
      kind: "dlrm",
      dense: 1,
      tables: [
        { name: "user", rows: 30, dim: 4, initScale: 0.3 },
        { name: "tags", rows: 20, dim: 4, initScale: 0.3 },
      ],
      bottom: [4],
      top: [8, 1],
    },
    data: csv(path, {
      label: "clicked",
      dense: [{ column: "price", log: true }],
      categorical: ["user", { column: "tags", separator: "|" }],
      batchSize: 8,
      cache: join(home, "cache"),
    }),
    checkpoint: { directory },
  });
  await trained.train({ cut: 1 });
  const model = await loadModel(directory);
  t.teardown(() => model.close());
  return { home, path, model };
}

function fieldsOf(file: string): string[] {
  return readFileSync(file, "utf8").trimEnd().split("\n");
}

test("each line gets the probability of its record, and keeps its bytes", async (t) => {
  const { home, path, model } = await trainedOnClicks(t);
  const out = join(home, "scored.csv");
  const report = await predictFile(model, path, out);
  const [first, ...scored] = fieldsOf(out);
  t.is(first, `${header},probability`);
  t.deepEqual(
    scored.map((line) => line.slice(0, line.lastIndexOf(","))),
    lines,
  );
  const records = lines.map((_, i) => ({
    price: `${i % 7}.25`,
    user: `Zoë, ${i % 5}`,
    tags: [`t${i % 4}`, `t${i % 3}`],
  }));
  const wanted = await model.predict(records);
  const got = scored.map((line) => Math.fround(Number(line.slice(line.lastIndexOf(",") + 1))));
  t.deepEqual(Float32Array.from(got), wanted);
  t.like(report, { samples: 40, bad: 0, firstBad: undefined });
});

test("the label may be missing, the file compressed, the columns in another order", async (t) => {
  const { home, path, model } = await trainedOnClicks(t);
  const turned = lines.map((line) => {
    const [, price, ...rest] = line.split(",");
    return `${rest.join(",")},${price},note`;
  });
  const packed = join(home, "turned.csv.gz");
  writeFileSync(packed, gzipSync(`\ufeffuser,tags,price,note\r\n${turned.join("\r\n")}\r\n`));
  await predictFile(model, path, join(home, "a.csv"));
  await predictFile(model, packed, join(home, "b.csv"), { column: "click" });
  const last = (file: string) =>
    fieldsOf(join(home, file)).map((line) => line.slice(line.lastIndexOf(",") + 1));
  t.deepEqual(last("b.csv"), ["click", ...last("a.csv").slice(1)]);
});

test("Criteo's logs are predicted with and without their label", async (t) => {
  const home = startDirectory(t);
  const path = join(home, "data.tsv");
  writeSyntheticTsv({ samples: 50, rows: 50, seed: 5 }, path);
  const directory = join(home, "checkpoints");
  const trained = await startTrained({
    model: {
      kind: "dlrm",
      dense: 13,
      tables: criteo.tables({ dim: 4, rows: 40, initScale: 0.3 }),
      bottom: [4],
      top: [8, 1],
    },
    data: criteo.tsv(path, { batchSize: 16, cache: join(home, "cache") }),
    checkpoint: { directory },
  });
  await trained.train({ cut: 1 });
  await using model = await loadModel(directory);
  const bare = fieldsOf(path).map((line) => line.slice(line.indexOf("\t") + 1));
  writeFileSync(join(home, "bare.tsv"), `${bare.join("\n")}\n`);
  await predictFile(model, path, join(home, "a.tsv"));
  await predictFile(model, join(home, "bare.tsv"), join(home, "b.tsv"));
  const last = (file: string) =>
    fieldsOf(join(home, file)).map((line) => line.slice(line.lastIndexOf("\t") + 1));
  t.is(new Set(last("a.tsv")).size > 10, true);
  t.deepEqual(last("b.tsv"), last("a.tsv"));
});

test("a bad line has no probability, and is reported with its number", async (t) => {
  const { home, path, model } = await trainedOnClicks(t);
  const broken = [header, lines[0], "1,2", "", lines[1]].join("\n");
  writeFileSync(path, broken);
  const report = await predictFile(model, path, join(home, "scored.csv"));
  t.like(report, { samples: 2, bad: 1 });
  t.like(report.firstBad, { line: 3, reason: "expected 4 fields, got 2" });
  const [, first, bad, last] = fieldsOf(join(home, "scored.csv"));
  t.regex(first ?? "", /,0\.\d+$/);
  t.is(bad, "1,2,");
  t.regex(last ?? "", /,0\.\d+$/);
});

test("no file is written where a file cannot be predicted, or the prediction is stopped", async (t) => {
  const { home, path, model } = await trainedOnClicks(t);
  const before = readdirSync(home);
  const out = join(home, "scored.csv");
  const short = join(home, "clicks.csv");
  await t.throwsAsync(predictFile(model, join(home, "nowhere.csv"), out), {
    instanceOf: InputUnusableError,
    message: /^Cannot read the data file .*nowhere\.csv: ENOENT/,
  });
  await t.throwsAsync(predictFile(model, "nowhere.csv", out), {
    instanceOf: InputUnusableError,
    message: /ENOENT.*; a relative path begins in the current directory, \//,
  });
  await t.throwsAsync(predictFile(model, path, join(home, "no", "where.csv")), {
    instanceOf: InputUnusableError,
    message: /^Cannot write .*where\.csv: ENOENT/,
  });
  await t.throwsAsync(predictFile(model, path, `${home}/./clicks.csv`), {
    instanceOf: InputUnusableError,
    message: /^Cannot write .*clicks\.csv: it is read; name another file$/,
  });
  await t.throwsAsync(predictFile(model, path, out, { column: "price" }), {
    instanceOf: InvalidOptionError,
    message: /clicks\.csv has a column `price` already: name another for the result$/,
  });
  await t.throwsAsync(predictFile(model, path, out, { signal: AbortSignal.abort() }), {
    any: true,
    name: "AbortError",
  });
  writeFileSync(short, "clicked,price,tags\n1,2,t1\n");
  await t.throwsAsync(predictFile(model, short, out), {
    instanceOf: InvalidOptionError,
    message: /`data\.categorical\[0\]` names the column `user`, which .*clicks\.csv does not have/,
  });
  // The error does not list the label among the missing columns: a file to predict may lack it.
  writeFileSync(short, "price;user;tags\n2;Zoë;t1\n");
  await t.throwsAsync(predictFile(model, short, out), {
    instanceOf: InvalidOptionError,
    message: /header is one column, `price;user;tags`: did you mean `delimiter: ";"`\?$/,
  });
  t.deepEqual(readdirSync(home), before);
});
