// Predictions of a file in every output format, beside raw ids, raw and calibrated: the numbers of
// `Model.predict`, which equal those of an evaluation.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { tableFromIPC } from "apache-arrow";
import test, { type ExecutionContext } from "ava";
import { parquetReadObjects } from "hyparquet";
import { ZSTDDecoder } from "zstddec";
import { finiteWarnings } from "../../../../actors/run/state/warnings.ts";
import { csv } from "../../../../src/data/sources.ts";
import { InvalidOptionError } from "../../../../src/errors/errors.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { calibrated, fitCalibration } from "../../../../storage/model/calibration.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { startTrained } from "../../../../test/helpers/devices/trained.ts";
import { drawModel } from "../../../../test/helpers/stores/drawn-model.ts";
import { predictFile } from "../../predict/predict-file.ts";

const samples = 60;
const records = Array.from({ length: samples }, (_, i) => {
  return { clicked: i % 3 === 0 ? 1 : 0, price: `${i % 7}.25`, user: `Zoë ${i % 16}`, at: `n${i}` };
});
const lines = records.map(({ clicked, price, user, at }) => `${clicked},${price},${user},${at}`);
const header = "clicked,price,user,at";

async function trainedOnClicks(t: ExecutionContext) {
  const home = startDirectory(t);
  const path = join(home, "clicks.csv");
  writeFileSync(path, `${[header, ...lines].join("\n")}\n`);
  const directory = join(home, "checkpoints");
  const trained = await startTrained({
    model: {
      kind: "dlrm",
      dense: 1,
      tables: [{ name: "user", rows: 300, dim: 4, initScale: 1 }],
      bottom: [4],
      top: [1],
      interaction: "cat",
    },
    data: csv(path, {
      label: "clicked",
      dense: ["price"],
      categorical: ["user"],
      batchSize: 20,
      cache: join(home, "cache"),
    }),
    checkpoint: { directory },
  });
  for (let cut = 1; cut < 4; cut++) await trained.train({ cut });
  const model = await loadModel(directory);
  t.teardown(() => model.close());
  return { home, path, model };
}

const decoder = new ZSTDDecoder();

/** The decompressed bytes of a file, all of its gzip members or zstd frames. */
async function unpacked(bytes: Buffer, path: string): Promise<Buffer> {
  if (path.endsWith(".gz")) return gunzipSync(bytes);
  if (!path.endsWith(".zst")) return bytes;
  await decoder.init();
  return Buffer.from(decoder.decode(bytes, 2 ** 20));
}

/** The rows of a file of predictions, by its format. */
async function rowsIn(path: string): Promise<Record<string, unknown>[]> {
  const bytes = await unpacked(readFileSync(path), path);
  if (/\.jsonl/.test(path)) {
    return bytes
      .toString()
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
  }
  if (path.endsWith(".parquet")) {
    const file = new Uint8Array(bytes).buffer;
    return (await parquetReadObjects({ file })) as Record<string, unknown>[];
  }
  return tableFromIPC(bytes)
    .toArray()
    .map((row) => row.toJSON());
}

test("lines become rows of any format, with raw ids beside the model's own numbers", async (t) => {
  const { home, path, model } = await trainedOnClicks(t);
  const wanted = await model.predict(records);
  const probabilities = Array.from(wanted, (one) => Number(one.toPrecision(9)));
  t.true(new Set(probabilities).size > 9);
  for (const name of ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet", "a.arrow"]) {
    const out = join(home, name);
    const report = await predictFile(model, path, out, { keep: ["user", "at"] });
    t.is(report.samples, samples);
    const rows = await rowsIn(out);
    t.deepEqual(
      rows.map((row) => Number(row.row)),
      records.map((_, i) => i),
    );
    t.deepEqual(
      rows.map(({ user, at }) => ({ user, at })),
      records.map(({ user, at }) => ({ user, at })),
      name,
    );
    const found = rows.map(({ probability }) => Number(Number(probability).toPrecision(9)));
    t.deepEqual(found, probabilities, name);
  }
  // For the same format, lines stay unchanged; compressed where the file name says so.
  await predictFile(model, path, join(home, "b.csv"));
  const plain = readFileSync(join(home, "b.csv"));
  for (const name of ["b.csv.gz", "b.csv.zst"]) {
    await predictFile(model, path, join(home, name));
    const packed = readFileSync(join(home, name));
    t.true(packed.length < plain.length);
    t.is((await unpacked(packed, name)).toString(), plain.toString());
  }
  const [first, ...scored] = plain.toString().trimEnd().split("\n");
  t.is(first, `${header},probability`);
  t.deepEqual(
    scored,
    lines.map((line, i) => `${line},${probabilities[i]}`),
  );

  const before = readdirSync(home);
  for (const [options, message] of [
    [{ keep: ["nowhere"] }, /Expected `keep` to name columns of .*, got `nowhere`/],
    [
      { keep: ["user"], column: "user" },
      /columns of different names in the result, got two of `user`/,
    ],
  ] as const) {
    const refused = predictFile(model, path, join(home, "c.parquet"), options);
    await t.throwsAsync(refused, { instanceOf: InvalidOptionError, message });
  }
  const same = predictFile(model, path, join(home, "c.csv"), { keep: ["user"] });
  await t.throwsAsync(same, { message: /Expected `keep` with a file of another format/ });
  const packedColumns = predictFile(model, path, join(home, "c.parquet.gz"));
  await t.throwsAsync(packedColumns, {
    message: /a file of columns without `\.gz`: it is read from its end/,
  });
  t.deepEqual(readdirSync(home), before);
});

test("a directory, a pattern and several files are predicted as one, in order", async (t) => {
  const { home, path, model } = await trainedOnClicks(t);
  await predictFile(model, path, join(home, "whole.csv"));
  const whole = readFileSync(join(home, "whole.csv"), "utf8");
  const days = join(home, "days");
  mkdirSync(days);
  const parts = [lines.slice(0, 7), lines.slice(7, 8), lines.slice(8)];
  const paths = parts.map((part, i) => {
    const name = join(days, `day-${i}.csv`);
    writeFileSync(name, `${[header, ...part].join("\n")}\n`);
    return name;
  });
  const done: number[] = [];
  for (const [name, data] of [
    ["directory", days],
    ["pattern", join(days, "day-?.csv")],
    ["several", paths],
  ] as const) {
    const out = join(home, `${name}.csv`);
    const onProgress = (read: number, size: number) => void done.push(read / size);
    t.is((await predictFile(model, data, out, { onProgress })).samples, samples);
    t.is(readFileSync(out, "utf8"), whole, name);
  }
  t.is(done.at(-1), 1);
  t.true(done.every((share) => share > 0 && share <= 1));

  // Line numbers count over all files; each file has its own header.
  const turned = lines.slice(8).map((line) => line.split(",").reverse().join(","));
  const [, , last = ""] = paths;
  writeFileSync(last, `at,user,price,clicked\n${turned.join("\n")}\nx,y\n`);
  const out = join(home, "rows.jsonl");
  const report = await predictFile(model, days, out, { keep: ["at"] });
  t.like(report, { samples, bad: 1, firstBad: { file: last, line: samples - 8 + 2 } });
  const rows = await rowsIn(out);
  const probabilities = whole
    .trimEnd()
    .split("\n")
    .slice(1)
    .map((line) => Number(line.split(",")[4]));
  t.deepEqual(
    rows.slice(0, samples),
    records.map(({ at }, row) => ({ row, at, probability: probabilities[row] })),
  );
  const refused = predictFile(model, days, join(home, "other.csv"));
  await t.throwsAsync(refused, {
    instanceOf: InvalidOptionError,
    message: /the header of the first file, clicked,price,user,at; .*day-2\.csv has at,user,price/,
  });
  t.false(existsSync(join(home, "other.csv")));
});

test("calibration recovers a known scale and offset; samples of one class are refused", (t) => {
  const stream = new RandomStream(11, 1, 2);
  const logits = Float64Array.from({ length: 40_000 }, () => 6 * stream.uniform() - 3);
  const labels = logits.map((z) => (stream.uniform() < 1 / (1 + Math.exp(-(0.5 * z - 1))) ? 1 : 0));
  const { scale, offset } = fitCalibration(logits, labels);
  t.true(Math.abs(scale - 0.5) < 0.03 && Math.abs(offset + 1) < 0.04, `${scale} ${offset}`);
  const again = fitCalibration(logits, labels);
  t.deepEqual([again.scale, again.offset], [scale, offset]);
  t.is(calibrated(Number.POSITIVE_INFINITY, { scale: 1, offset: 0 }), 1);
  t.is(calibrated(Number.NEGATIVE_INFINITY, { scale: 1, offset: 0 }), 0);
  const message = /Expected samples of both classes to calibrate with, got 0 positives of 3/;
  t.throws(() => fitCalibration([1, 2, 3], [0, 0, 0]), { instanceOf: InvalidOptionError, message });
  // Scores that separate the classes have a finite optimum only through Platt's targets.
  const parted = fitCalibration([-2, -1, 1, 2], [0, 0, 1, 1]);
  t.true(parted.scale > 0 && Number.isFinite(parted.scale));
});

test("a row without a finite prediction gets no probability, and counts as bad", async (t) => {
  const home = startDirectory(t);
  const ends = [0, 1, -3.4e38, 3.4e38];
  const rows = ends.flatMap((x) => ends.map((y) => ({ l: x > y ? 1 : 0, x, y, u: "a" })));
  const csvLines = rows.map(({ l, x, y, u }) => `${l},${x},${y},${u}`);
  const path = join(home, "ends.csv");
  writeFileSync(path, `l,x,y,u\n${csvLines.join("\n")}\n`);
  const job = await drawModel({
    model: {
      kind: "dlrm",
      dense: 2,
      tables: [{ name: "u", rows: 9, dim: 4, initScale: 1 }],
      bottom: [8, 4],
      top: [8, 1],
    },
    data: csv(path, {
      label: "l",
      dense: ["x", "y"],
      categorical: ["u"],
      batchSize: 4,
      cache: home,
    }),
    checkpoint: { directory: join(home, "checkpoints") },
  });
  await using model = await loadModel(job.checkpoint.directory);
  const raw = [...(await model.predict(rows.map(({ x, y, u }) => ({ x, y, u }))))];
  const unknown = raw.filter(Number.isNaN).length;
  t.true(unknown > 0 && unknown < rows.length, `${unknown} of ${rows.length}`);
  for (const name of ["out.jsonl", "out.csv", "out.parquet", "out.arrow"]) {
    const report = await predictFile(model, path, join(home, name));
    t.is(report.bad, unknown, name);
    t.is(report.firstBad?.line, raw.findIndex(Number.isNaN) + 2);
    t.regex(report.firstBad?.reason ?? "", /^the model predicts no finite number/);
    t.true(Number.isFinite(Object.values(report.means)[0]));
    if (name === "out.csv") continue;
    const found = (await rowsIn(join(home, name))).map(({ probability }) => probability);
    t.deepEqual(
      found.map((one) => one === null),
      raw.map(Number.isNaN),
      name,
    );
  }
  const metrics = await model.evaluate({ paths: [path] });
  t.is(metrics.logLoss, Number.NaN);
  t.deepEqual(
    finiteWarnings("evaluation", metrics).map(({ code }) => code),
    ["EVALUATION_NOT_FINITE"],
  );
});
