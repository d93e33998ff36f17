// A saved model predicts the same as the devices that trained it, and its errors name the bad value
// of a record.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { EncodedBatch } from "../../../src/data/batch-rows.ts";
import type { SampleRecord } from "../../../src/data/records.ts";
import { criteo, csv } from "../../../src/data/sources.ts";
import { writeSyntheticTsv } from "../../../src/data/synthetic/generated-lines.ts";
import {
  ArithmeticMismatchError,
  CheckpointCorruptError,
  CheckpointMissingError,
  IdOutOfRangeError,
  InputUnusableError,
  InvalidOptionError,
  ModelClosedError,
} from "../../../src/errors/errors.ts";
import type { JobOptions } from "../../../src/job/job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { evaluate } from "../../../src/training/loop/metrics.ts";
import { pathsOf } from "../../../storage/checkpoints/store/store-paths.ts";
import { loadModel } from "../../../storage/model/load-model.ts";
import { startDirectory, writeText } from "../../data/data-files.ts";
import { startTrained, type Trained } from "../../helpers/devices/trained.ts";
import { flipByte, flipInPart } from "../../helpers/stores/checkpoints.ts";

const samples = 60;

/** Trains a job on Criteo text; `records` are the lines of its file. */
async function trainedOnCriteo(
  t: ExecutionContext,
  options: Partial<JobOptions> = {},
): Promise<{ trained: Trained; records: SampleRecord[]; directory: string; home: string }> {
  const home = startDirectory(t);
  const path = join(home, "data.tsv");
  writeSyntheticTsv({ samples, rows: 50, seed: 5 }, path);
  const text = new TextDecoder().decode(readFile(path));
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
    ...options,
  });
  const records = text
    .trimEnd()
    .split("\n")
    .map((line) => recordOf(line.split("\t")));
  return { trained, records, directory, home };
}

function readFile(path: string): Uint8Array {
  const file = realDisk.open(path, "read");
  const bytes = new Uint8Array(file.size());
  file.read(bytes, 0);
  file.close();
  return bytes;
}

/**
 * The record of a line as a data owner would write it: numbers for integers, absent fields for
 * missing values.
 */
function recordOf(fields: readonly string[]): SampleRecord {
  const entries = fields.slice(1).map((field, i): [string, string | number | null] => {
    if (i >= 13) return [`C${i - 12}`, field === "" ? null : field];
    return [`I${i + 1}`, field === "" ? null : Number(field)];
  });
  return Object.fromEntries(entries);
}

/** The probabilities that the devices which trained compute. */
async function expectedOf(trained: Trained): Promise<Float32Array> {
  const logits = await trained.devices.score(trained.samples);
  return logits.map((logit) => 1 / (1 + Math.exp(-logit)));
}

test("records give the same bits as the lines of the training file", async (t) => {
  const { trained, records, directory } = await trainedOnCriteo(t);
  await trained.train({ cut: 1 });
  const model = await loadModel(directory);
  t.is(model.digest, `sha256:${await trained.devices.digest()}`);
  t.is(model.step, 1);
  t.deepEqual(model.job, trained.job);
  t.deepEqual(await model.predict(records), await expectedOf(trained));
});

test("an evaluation equals that of the training, and needs no batch size", async (t) => {
  const { trained, directory, home } = await trainedOnCriteo(t);
  await trained.train({ cut: 1 });
  const model = await loadModel(directory);
  const logits = await trained.devices.score(trained.samples);
  const data = { kind: "criteo-tsv" as const, cache: join(home, "cache") };
  const found = await model.evaluate({ ...data, paths: [join(home, "data.tsv")] });
  t.deepEqual(found, evaluate(logits, trained.samples.labels));
  const error = await t.throwsAsync(model.evaluate(), { instanceOf: InvalidOptionError });
  t.regex(error?.message ?? "", /the job holds nothing out/);
  const missing = { ...data, paths: [join(home, "none.tsv")] };
  await t.throwsAsync(model.evaluate(missing), { instanceOf: InputUnusableError });
});

test("a path that plain JavaScript left out is an error with its name", async (t) => {
  const none = undefined as unknown as string; // As a caller in JavaScript may pass it.
  const message = "Expected `path` to be a string, got nothing";
  await t.throwsAsync(loadModel(none), { instanceOf: InvalidOptionError, message });
  t.deepEqual(criteo.tsv(none, { batchSize: 8 }).paths as unknown, [undefined]);
});

test("a prediction does not depend on its batch, nor on concurrent predictions", async (t) => {
  const { trained, records, directory } = await trainedOnCriteo(t);
  await trained.train({ cut: 1 });
  const model = await loadModel(directory);
  const many = Array.from({ length: 1500 }, (_, i) => records[i % samples] ?? {});
  const [all, one, few] = await Promise.all([
    model.predict(many),
    model.predict(many.slice(7, 8)),
    model.predict(many.slice(1100, 1110)),
  ]);
  t.is(all.length, 1500);
  t.deepEqual(all.slice(0, samples), await expectedOf(trained));
  t.deepEqual(one, all.slice(7, 8));
  t.deepEqual(few, all.slice(1100, 1110));
  t.deepEqual(all.slice(1140, 1200), all.slice(0, samples));
  t.is((await model.predict([])).length, 0);
});

test("a value that is no list of records is refused, and a closed model refuses all calls", async (t) => {
  const { trained, records, directory } = await trainedOnCriteo(t);
  await trained.train({ cut: 1 });
  const model = await loadModel(directory);
  const wrong: [unknown, RegExp][] = [
    ["x", /^Expected `records` to be a list of records, got `x` \(string\)$/],
    [records[0], /^Expected `records` to be a list of records, got `\{.*` \(object\)$/],
    [undefined, /^Expected `records` to be a list of records, got nothing$/],
  ];
  for (const [given, message] of wrong) {
    const predicted = model.predict(given as typeof records);
    await t.throwsAsync(predicted, { instanceOf: InvalidOptionError, message });
  }
  const batch = model.predictBatch("x" as unknown as EncodedBatch);
  await t.throwsAsync(batch, {
    instanceOf: InvalidOptionError,
    message: /^Expected `batch` to be an encoded batch \(`predict` takes records\), got `x`/,
  });
  await model.close();
  const closed = {
    instanceOf: ModelClosedError,
    message: /^Cannot predict with a model that is closed/,
  };
  await t.throwsAsync(model.predict(records), closed);
  await t.throwsAsync(model.predict([]), closed);
  await t.throwsAsync(model.evaluate(), { code: "MODEL_CLOSED" });
  await t.throwsAsync(model.save("nowhere"), { code: "MODEL_CLOSED" });
  await model.close();
});

test("encoded batches are split without a change, and bags may exceed the training's", async (t) => {
  const { trained, directory } = await trainedOnCriteo(t);
  await trained.train({ cut: 1 });
  const model = await loadModel(directory);
  const features = 26;
  const count = 1100;
  const lengthOf = (feature: number, sample: number) => (feature + sample) % 4;
  const idOf = (feature: number, sample: number, i: number) => (7 * feature + sample + i) % 40;
  const batchOf = (first: number, size: number) => {
    const lengths: number[] = [];
    const ids: number[] = [];
    for (let feature = 0; feature < features; feature++) {
      for (let sample = first; sample < first + size; sample++) {
        lengths.push(lengthOf(feature, sample));
        for (let i = 0; i < lengthOf(feature, sample); i++) ids.push(idOf(feature, sample, i));
      }
    }
    const dense = Float32Array.from({ length: 13 * size }, (_, i) => ((first * 13 + i) % 11) / 10);
    return { samples: size, dense, lengths: Int32Array.from(lengths), ids: Int32Array.from(ids) };
  };
  const all = await model.predictBatch(batchOf(0, count));
  t.true(new Set(all).size > 300, "predictions differ");
  for (const sample of [0, 1, 1023, 1024, 1099]) {
    t.deepEqual(await model.predictBatch(batchOf(sample, 1)), all.slice(sample, sample + 1));
  }
});

test("a batch whose arrays do not fit together is refused, naming the array", async (t) => {
  const { trained, directory } = await trainedOnCriteo(t);
  await trained.train({ cut: 1 });
  const model = await loadModel(directory);
  const good = {
    samples: 1,
    dense: new Float32Array(13),
    lengths: new Int32Array(26).fill(1),
    ids: new Int32Array(26),
  };
  const refusals: [object, string][] = [
    [{ samples: -1 }, "batch.samples"],
    [{ dense: new Float32Array(12) }, "batch.dense"],
    [{ lengths: new Int32Array(25) }, "batch.lengths"],
    [{ lengths: new Int32Array(26).fill(-1) }, "batch.lengths[0]"],
    [{ ids: new Int32Array(25) }, "batch.ids"],
  ];
  for (const [change, option] of refusals) {
    const error = await t.throwsAsync(model.predictBatch({ ...good, ...change }), {
      instanceOf: InvalidOptionError,
    });
    t.is(error?.option, option);
  }
  const beyond = { ...good, ids: new Int32Array(26).fill(40) };
  await t.throwsAsync(model.predictBatch(beyond), { instanceOf: IdOutOfRangeError });
  t.is((await model.predictBatch(good)).length, 1);
});

test("a saved copy of a model is the same model, also when the run's directory is gone", async (t) => {
  const { trained, records, directory, home } = await trainedOnCriteo(t);
  await trained.train({ cut: 1 });
  const model = await loadModel(directory);
  realDisk.remove(directory);
  const saved = join(home, "saved");
  await model.save(saved);
  await using again = await loadModel(saved);
  t.is(again.digest, model.digest);
  t.is(again.step, model.step);
  t.deepEqual(await again.predict(records), await model.predict(records));
  const before = readdirSync(saved, { recursive: true });
  const error = await t.throwsAsync(model.save(saved), { instanceOf: InputUnusableError });
  t.regex(error?.message ?? "", /to be new or empty.*name another directory/);
  t.deepEqual(readdirSync(saved, { recursive: true }), before);
});

test("data-parallel tables are loaded too", async (t) => {
  const tables = criteo.tables({ dim: 4, rows: 40, sharding: "data-parallel" as const });
  const model = { kind: "dlrm" as const, dense: 13, tables, bottom: [4], top: [1] };
  const { trained, records, directory, home } = await trainedOnCriteo(t, {
    model: { ...model, tables: tables.map((table) => ({ ...table, l2: 0.1, l2Scope: "table" })) },
    optimizer: { dense: { kind: "adam" }, sparse: { kind: "adam" } },
  });
  await trained.train({ cut: 1 });
  const loaded = await loadModel(directory);
  t.deepEqual(await loaded.predict(records), await expectedOf(trained));
  await loaded.save(join(home, "saved"));
  t.is((await loadModel(join(home, "saved"))).digest, loaded.digest);
});

test("the best checkpoint is loaded where the job stops early, else the newest", async (t) => {
  const earlyStopping = { metric: "auc" as const, patience: 1 };
  const { trained, directory } = await trainedOnCriteo(t, { evaluation: { earlyStopping } });
  const best = await trained.train({ cut: 1, best: true });
  const newest = await trained.train({ cut: 2 });
  t.is((await loadModel(directory)).step, 1);
  t.is((await loadModel(directory, { manifest: newest.sha256 })).step, 2);
  const other = await trainedOnCriteo(t);
  await other.trained.train({ cut: 1, best: true });
  await other.trained.train({ cut: 2 });
  t.is((await loadModel(other.directory)).step, 2);
  const unknown = { manifest: "f".repeat(64) };
  await t.throwsAsync(loadModel(directory, unknown), { instanceOf: CheckpointMissingError });
  t.not(best.sha256, newest.sha256);
});

test("a directory without a checkpoint and a damaged one have distinct errors", async (t) => {
  const { trained, directory, home } = await trainedOnCriteo(t);
  const nowhere = loadModel(join(home, "nowhere"));
  await t.throwsAsync(nowhere, { instanceOf: CheckpointMissingError });
  await t.throwsAsync(loadModel(directory), { instanceOf: CheckpointMissingError });
  const manifest = await trained.train({ cut: 1 });
  flipInPart(directory, manifest, "table-00003", 40);
  const error = await t.throwsAsync(loadModel(directory), { instanceOf: CheckpointCorruptError });
  t.regex(error?.message ?? "", /table-00003/);
  const { cut, generation } = manifest;
  flipByte(realDisk, pathsOf(directory).manifest(cut, generation), 40);
  await t.throwsAsync(loadModel(directory), { instanceOf: CheckpointCorruptError });
});

test("a model predicts with another arithmetic only if the caller asks for it", async (t) => {
  const { trained, records, directory } = await trainedOnCriteo(t);
  await trained.train({ cut: 1, arithmetic: "abacus" });
  const error = await t.throwsAsync(loadModel(directory), { instanceOf: ArithmeticMismatchError });
  t.regex(error?.message ?? "", /`abacus`.*; or predict with `arithmetic: auto`: the last bits/);
  const model = await loadModel(directory, { arithmetic: "auto" });
  t.is(model.arithmetic, openKernels("auto").arithmetic);
  t.is(model.trainedArithmetic, "abacus");
  const expected = await expectedOf(trained);
  const found = await model.predict(records);
  t.true(found.every((value, i) => Math.abs(value - (expected[i] ?? 0)) < 1e-5));
});

test("the error of another arithmetic names what brings the expected one", (t) => {
  for (const [expected, actual, mend] of [
    ["reference-3", "native-3", "Set `arithmetic: reference`"],
    ["native-3-portable", "native-3", "Set `OSIRIS_SETS=portable`"],
    ["native-3", "native-3-portable", "Leave OSIRIS_SETS out, or run `osiris build-native`"],
    ["native-3", "reference-3", "Run `osiris build-native`"],
  ] as const) {
    const { message } = new ArithmeticMismatchError(expected, actual);
    t.true(message.includes(`they differ in bits. ${mend}`), message);
  }
});

test("a bad value is refused with its record and its column", async (t) => {
  const { trained, directory } = await trainedOnCriteo(t);
  await trained.train({ cut: 1 });
  const model = await loadModel(directory);
  const refusals: [unknown, RegExp][] = [
    [{ I1: 1.5 }, /records\[1\]: expected `I1` to be an integer, got `1.5`/],
    [{ I1: "x" }, /expected `I1` to be an integer, got `x`/],
    [{ I1: [1] }, /expected `I1` to be one number/],
    [{ C1: ["a", "b"] }, /expected `C1` to be one id, got a list of 2/],
    [{ C1: {} as never }, /expected `C1` to be one id/],
    [{ c1: "a" }, /expected some of the columns `I1`, .*, got `c1`/],
    [null, /expected an object, got null/],
  ];
  for (const [record, message] of refusals) {
    const records = [{ C1: "a" }, record as SampleRecord];
    const error = await t.throwsAsync(model.predict(records), { instanceOf: InvalidOptionError });
    t.is(error?.option, "records[1]");
    t.regex(error?.message ?? "", message);
  }
});

test("records of a CSV job apply its offsets, logs and separators, and any alphabet", async (t) => {
  const home = startDirectory(t);
  const lines = [
    ["1", "3.5", "103", "Zürich", "red|green|red"],
    ["0", "", "100", "", ""],
    ["1", "-2", "", "東京, 港区", "blue"],
    ["0", "1e3", "109", "zürich", "green|blue"],
  ];
  const quoted = lines.map((fields) => fields.map((field) => `"${field}"`).join(","));
  const text = `label,price,hour,city,tags\n${quoted.join("\n")}\n`;
  const directory = join(home, "checkpoints");
  const table = (name: string) => ({ name, rows: 10, dim: 4, initScale: 0.5 });
  const trained = await startTrained({
    model: {
      kind: "dlrm",
      dense: 1,
      tables: [table("tags"), table("place"), table("hour")],
      bottom: [4],
      top: [4, 1],
    },
    data: csv(writeText(home, { name: "data.csv", text }), {
      label: "label",
      dense: [{ column: "price", log: true }],
      categorical: [
        { column: "hour", ids: "integer", offset: 100 },
        { column: "city", table: "place" },
        { column: "tags", separator: "|" },
      ],
      batchSize: 4,
      cache: join(home, "cache"),
    }),
    checkpoint: { directory },
  });
  await trained.train({ cut: 1 });
  const model = await loadModel(directory);
  const found = await model.predict([
    { price: 3.5, hour: 103, city: "Zürich", tags: ["red", "green", "red"], label: 1 },
    { price: null, hour: "100" },
    { price: -2, city: "東京, 港区", tags: "blue" },
    { price: "1e3", hour: 109, city: "zürich", tags: ["green", null, "", "blue"] },
  ]);
  t.deepEqual(found, await expectedOf(trained));
  const error = await t.throwsAsync(model.predict([{ hour: 110 }]));
  t.regex(error?.message ?? "", /expected `hour` to lie in 100..109, got `110`/);
});
