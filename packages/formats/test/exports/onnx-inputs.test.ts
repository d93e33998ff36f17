// The file beside an ONNX model: rules by which a client makes the model's inputs, and test
// vectors. A client that has only the rules makes the vectors' inputs, and both the model and ONNX
// Runtime predict the vectors' outputs from them.

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { JobOptions } from "../../../../src/job/job.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { startTrained } from "../../../../test/helpers/devices/trained.ts";
import { runInputs } from "../../../../test/helpers/models/onnx.ts";
import { type InputRules, inputsByRules } from "../../../../test/helpers/models/onnx-client.ts";
import { drawModel } from "../../../../test/helpers/stores/drawn-model.ts";
import { exportModel } from "../../exports/export-model.ts";

const wide = { idBits: 64 } as const;

/** A job on columns of every kind; the data are never read. */
function jobOf(home: string): JobOptions {
  const dim = 4;
  return {
    model: {
      kind: "dlrm",
      dense: 5,
      tables: [
        { name: "city", rows: 40, dim },
        { name: "tags", rows: 30, dim, pooling: "mean", rowBlocks: 4, precision: "int8" },
        { name: "item", rows: 20, dim, ids: "clamp" },
        { name: "shop", rows: 20, dim, ids: "hash" },
        { name: "user", rows: 64, dim, rowBlocks: 4, ...wide, dynamic: {} },
        { name: "seen", rows: 50, dim, ...wide, ids: "hash" },
      ],
      bottom: [6, dim],
      top: [6, 1],
    },
    data: {
      kind: "csv",
      paths: [join(home, "none.csv")],
      label: "clicked",
      dense: [
        "price",
        { column: "age", log: true, missing: "mean" },
        { column: "rank", missing: "indicator" },
        { column: "score", missing: "reject" },
      ],
      categorical: [
        "city",
        { column: "tags", separator: "|" },
        { column: "item", ids: "integer", offset: 100 },
        { column: "shop", ids: "integer" },
        { column: "user", ids: "integer", offset: 7, separator: "," },
        { column: "seen", ids: "integer", separator: " ", weightSeparator: ":" },
      ],
      batchSize: 8,
    },
    checkpoint: { directory: join(home, "checkpoints") },
  };
}

/** Draws a model's weights, with means of the data; returns its checkpoint directory. */
async function drawn(options: JobOptions): Promise<string> {
  const job = await drawModel(options, { 1: 2.5 });
  return job.checkpoint.directory;
}

function readRules(path: string): InputRules {
  return JSON.parse(readFileSync(`${path}.json`, "utf8"));
}

/** Checks the exported test vectors against the model and against ONNX Runtime. */
async function isTrue(t: ExecutionContext, directory: string, dataFile = false) {
  const path = `${directory}.onnx`;
  const beside = dataFile ? { inlineBytesMax: 100 } : {};
  const { inputs } = await exportModel(directory, path, beside);
  t.deepEqual(inputs, { file: `${path}.json`, vectors: 8, withoutVectors: undefined });
  const rules = readRules(path);
  const { vectors } = rules;
  await using model = await loadModel(directory);
  const own = await model.predict(vectors.records);
  t.deepEqual([...own], vectors.predictions.flat().map(Math.fround));
  t.true(Math.max(...own) - Math.min(...own) > 1e-5, `${own}`);
  const made = await runInputs(path, vectors.inputs, dataFile ? `${path}.data` : undefined);
  for (const [i, value] of vectors.predictions.flat().entries()) {
    const error = Math.abs(value - (made.predictions[i] ?? Number.NaN));
    t.true(error <= vectors.tolerance, `${i}: ${error}`);
  }
  return rules;
}

test.serial("a client that has only an export's rules makes its test inputs", async (t) => {
  const rules = await isTrue(t, await drawn(jobOf(startDirectory(t))));
  const { records, inputs } = rules.vectors;
  t.deepEqual(inputsByRules(rules, records), inputs);
  // Each rule applies to at least one record.
  const values = records.flatMap((record) => Object.values(record));
  t.true(values.includes(null));
  t.true(records.some(({ age }) => age === null) && records.some(({ rank }) => rank === null));
  t.true(records.some(({ item }) => Number(item) >= 120));
  t.true(records.some(({ shop }) => Number(shop) >= 20));
  t.true(inputs["user.ids"]?.some((id) => BigInt(String(id)) > 2n ** 53n));
});

test.serial("test vectors hold for a model whose tables lie in a file beside it", async (t) => {
  await isTrue(t, await drawn(jobOf(startDirectory(t))), true);
});

test.serial(
  "ONNX Runtime refuses negative rows, and ids that belong to no sample, like a server",
  async (t) => {
    const home = startDirectory(t);
    const job = await drawModel({
      model: {
        kind: "dlrm",
        dense: 1,
        tables: [
          { name: "user", rows: 100, dim: 4 },
          { name: "tags", rows: 30, dim: 4 },
        ],
        bottom: [4],
        top: [1],
      },
      data: { kind: "synthetic", samples: 8, dense: 1, batchSize: 8, weights: "uniform" },
      checkpoint: { directory: join(home, "checkpoints") },
    });
    const { directory } = job.checkpoint;
    await exportModel(directory, `${directory}.onnx`);
    const good = {
      ...{ dense: [[0.5], [1]], "user.rows": [99, 0], "user.lengths": [1, 1] },
      ...{ "user.weights": [1, 2], "tags.rows": [0, 1, 29], "tags.lengths": [1, 2] },
      "tags.weights": [1, 1, 0.5],
    };
    const run = (change: object) => runInputs(`${directory}.onnx`, { ...good, ...change });
    t.is((await run({})).logits.length, 2);
    await t.notThrowsAsync(run({ "tags.rows": [], "tags.lengths": [0, 0], "tags.weights": [] }));
    for (const change of [
      { "user.rows": [-1, 0] },
      { "user.rows": [0, -100] },
      { "user.rows": [0, 100] },
      { "tags.lengths": [1, 1] },
      { "tags.lengths": [0, 0] },
      { "tags.lengths": [2, 2] },
      { "tags.lengths": [4, -1] },
      { "tags.lengths": [-1, 4] },
      { "tags.rows": [], "tags.weights": [], "tags.lengths": [1, 0] },
      { "tags.weights": [1] },
      { "tags.lengths": [1, 1, 1] },
      { "user.rows": [5], "user.lengths": [1], "user.weights": [1] },
    ]) {
      await t.throwsAsync(
        run(change),
        { message: /out of data bounds|error code/i },
        JSON.stringify(change),
      );
    }
  },
);

test.serial("synthetic data, moving averages and rows with decay have test vectors", async (t) => {
  const ema = { decay: 0.9 };
  for (const [table, optimizer] of [
    [{}, { dense: { kind: "sgd", ema }, sparse: { kind: "sgd", learningRate: 0.1, ema } }],
    [{ l2: 0.5, l2Scope: "decayed" }, { sparse: { kind: "sgd", learningRate: 0.3 } }],
  ] as const) {
    const home = startDirectory(t);
    const directory = join(home, "checkpoints");
    const trained = await startTrained({
      model: {
        kind: "dlrm",
        dense: 2,
        tables: [{ name: "a", rows: 20, dim: 4, ...table }],
        bottom: [4],
        top: [1],
      },
      data: {
        ...{ kind: "synthetic", samples: 40, dense: 2, batchSize: 10 },
        cache: join(home, "cache"),
      },
      optimizer,
      checkpoint: { directory },
    });
    await trained.train({ cut: 3 });
    const rules = await isTrue(t, directory);
    t.deepEqual(inputsByRules(rules, rules.vectors.records), rules.vectors.inputs);
  }
});

test.serial("rules list transforms in order, and a vocabulary whose file is gone", async (t) => {
  const home = startDirectory(t);
  const words = join(home, "words.txt");
  writeFileSync(words, "red\ngreen\nblau\u00e4\n");
  const options: JobOptions = {
    model: {
      kind: "dlrm",
      dense: 1,
      tables: [
        { name: "colour", rows: 4, dim: 4 },
        { name: "both", rows: 30, dim: 4 },
      ],
      bottom: [4],
      top: [1],
    },
    data: {
      kind: "csv",
      paths: [join(home, "none.csv")],
      label: "clicked",
      dense: ["logPrice"],
      transforms: [
        { op: "mapId", input: "text", output: "colour", vocabulary: words, unknown: 3 },
        { op: "cartesian", inputs: ["user", "colour"], output: "both", max: 30 },
        { op: "log", input: "price", output: "logPrice", plus: 10 },
      ],
      categorical: [
        { column: "colour", ids: "integer" },
        { column: "both", ids: "integer" },
      ],
      batchSize: 8,
    },
    checkpoint: { directory: join(home, "checkpoints") },
  };
  const directory = await drawn(options);
  const { vectors } = await isTrue(t, directory);
  const texts = vectors.records.map(({ text }) => text);
  t.true(texts.some((text) => ["red", "green", "blau\u00e4"].includes(String(text))));

  const again = `${directory}-2.onnx`;
  rmSync(words);
  const { inputs } = await exportModel(directory, again);
  t.is(inputs?.vectors, 0);
  t.regex(inputs?.withoutVectors ?? "", /words\.txt/);
  const { vectors: none, ...rules } = JSON.parse(readFileSync(`${again}.json`, "utf8"));
  t.deepEqual(none, { leftOut: inputs?.withoutVectors });
  t.deepEqual(
    rules.transforms.map(({ output }: { output: string }) => output),
    ["colour", "both", "logPrice"],
  );
});
