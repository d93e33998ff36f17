// A model exported as ONNX computes the same in ONNX Runtime as in this project: every
// architecture, every pooling, weights, sequences, tables in the model and beside it.
//
// Tolerance: ONNX Runtime adds up products in blocks, this project in order, so results differ in
// their last bits. Probabilities are held to 1e-6, numeric predictions to 1e-6 of their size. The
// AUC of 200 samples is the same number, except for pairs whose scores are closer than twice that.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { areNumeric } from "../../../../src/data/targets.ts";
import { InvalidOptionError } from "../../../../src/errors/errors.ts";
import type { JobOptions } from "../../../../src/job/job.ts";
import { allowModels } from "../../../../src/model/custom/allowed-modules.ts";
import type { ModelOptions } from "../../../../src/model/options.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { evaluate } from "../../../../src/training/loop/metrics.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { drawBatch, runOnnx } from "../../../../test/helpers/models/onnx.ts";
import { moduleOf, twoTowers } from "../../../../test/helpers/models/own-models.ts";
import { zoo } from "../../../../test/helpers/models/zoo.ts";
import { sameValues } from "../../../../test/helpers/same-values.ts";
import { drawModel, drawnIds } from "../../../../test/helpers/stores/drawn-model.ts";
import { readTensorFile } from "../../../../test/helpers/stores/tensor-file.ts";
import { someOrAll } from "../../../../test/helpers/thinned.ts";
import { exportModel } from "../../exports/export-model.ts";

const tolerance = 1e-6;

const tables = [
  { name: "a", rows: 50, dim: 4, rowBlocks: 4 as const },
  { name: "b", rows: 40, dim: 4, pooling: "mean" as const },
  { name: "c", rows: 30, dim: 4, precision: "int8" as const },
];
const tasks = [{ name: "label", tower: [3], weight: 2 }, { name: "label2" }];
const several = { dense: 5, tables, tasks };

const models: Readonly<Record<string, ModelOptions>> = {
  DLRM: { kind: "dlrm", dense: 3, tables, bottom: [5, 4], top: [6, 1] },
  "DLRM of all vectors and their products": {
    ...{ kind: "dlrm", dense: 3, tables, bottom: [5, 4], top: [6, 1] },
    interaction: "dot+cat",
  },
  "DLRM of vectors side by side": {
    kind: "dlrm",
    tables: tables.map((table, i) => ({ ...table, dim: 2 + i })),
    interaction: "cat",
    top: [6, 1],
  },
  "DLRM with groups and features of several vectors": {
    kind: "dlrm",
    dense: 3,
    dim: 3,
    tables,
    features: [
      { column: "a", vectors: 2 },
      { column: "b" },
      { column: "b2", table: "b", pooling: "sum" },
      { column: "c" },
    ],
    groups: [{ name: "both", features: ["b", "c"], vectors: 2 }],
    bottom: [3],
    top: [1],
  },
  Wukong: {
    kind: "wukong",
    dense: 3,
    tables,
    bottom: [4],
    layers: [
      { interacted: 2, compressed: 2, rank: "full", hidden: [5] },
      {
        interacted: 2,
        compressed: 1,
        rank: 2,
        hidden: [4],
        attentive: { vectors: 2, hidden: [3] },
      },
    ],
    top: [5, 1],
  },
  "sequences of which the last ids are kept": {
    kind: "din",
    dense: 2,
    tables: tables.slice(0, 1),
    features: [
      { column: "seen", table: "a", pooling: "none", maxLength: 3, kept: "last" },
      { column: "a" },
    ],
    attention: [{ target: "a", sequence: "seen", hidden: [5] }],
    top: [5, 1],
  },
  "shared bottom": { ...several, kind: "sharedBottom", shared: [6] },
  MMoE: { ...several, kind: "mmoe", experts: 3, expert: [6], gate: [3] },
  PLE: {
    ...several,
    ...{ kind: "ple", levels: 2, sharedExperts: 2, taskExperts: 1, expert: [6] },
  },
  ...zoo,
};

/** A job of such a model, on a data file that does not exist. */
function jobOf(home: string, model: ModelOptions, data: object = {}): JobOptions {
  const labels = "tasks" in model ? { labels: model.tasks?.length } : {};
  const { dense = 0 } = model;
  const own = { kind: "synthetic" as const, samples: 8, dense, batchSize: 8, ...labels, ...data };
  return { model, data: own, checkpoint: { directory: join(home, "checkpoints") } };
}

/** Samples of each batch, and the maximum ids of a bag. */
const shapes = [
  [7, 5],
  [1, 0],
  [3, 1],
] as const;

/** Exports a model and checks ONNX Runtime's results on drawn batches against the model's. */
async function isAlike(t: ExecutionContext, options: JobOptions, limit = tolerance) {
  const job = await drawModel(options);
  const { directory } = job.checkpoint;
  const path = `${directory}.onnx`;
  await exportModel(directory, path);
  await using model = await loadModel(directory);
  const isWeighted = "weights" in job.data && job.data.weights !== undefined;
  const stream = new RandomStream(9, 1, 3);
  for (const [samples, idsMax] of someOrAll("batches of ONNX", shapes.slice(0, 2), shapes)) {
    const batch = drawBatch(job, stream, { samples, idsMax, isWeighted });
    const own = await model.predictBatch(batch);
    const { predictions } = await runOnnx(path, job, batch);
    t.is(predictions.length, own.length);
    for (const [i, value] of own.entries()) {
      const error = Math.abs(value - (predictions[i] ?? Number.NaN));
      t.true(error <= limit * Math.max(1, Math.abs(value)), `${i}: ${value}, ${predictions[i]}`);
    }
    // A model that predicts the same for every sample would make the comparison meaningless.
    if (samples > 3) t.true(Math.max(...own) - Math.min(...own) > 10 * limit, `${own}`);
  }
  const held = drawBatch(job, stream, { samples: 200, idsMax: 5, isWeighted });
  const scores = await model.predictBatch(held);
  const { predictions } = await runOnnx(path, job, held);
  const numeric = areNumeric(job.data);
  for (const [label, isNumber] of numeric.entries()) {
    if (isNumber) continue;
    const ofLabel = (_: number, i: number) => i % numeric.length === label;
    isEqualAuc(t, stream, scores.filter(ofLabel), predictions.filter(ofLabel), limit);
  }
}

/**
 * Compares the AUC of the runtime's scores with that of the model's, over labels drawn by the
 * model.
 */
function isEqualAuc(
  t: ExecutionContext,
  stream: RandomStream,
  own: Float32Array,
  others: Float32Array,
  limit: number,
) {
  const mean = own.reduce((sum, score) => sum + score, 0) / own.length;
  const spread = Math.sqrt(own.reduce((sum, score) => sum + (score - mean) ** 2, 0) / own.length);
  const labels = own.map((score) => {
    return Number(stream.uniform() < 1 / (1 + Math.exp((-2 * (score - mean)) / spread)));
  });
  const [auc, found] = [evaluate(own, labels).auc, evaluate(others, labels).auc];
  t.true(auc > 0.6 && auc < 0.95, `${auc}`);
  const of = (label: number) => own.filter((_, i) => labels[i] === label);
  const [positives, negatives] = [of(1), of(0)];
  let close = 0;
  for (const score of positives) {
    close += negatives.filter((other) => Math.abs(score - other) <= 2 * limit).length;
  }
  // Equal, unless the runtime's rounding can swap the order of a pair.
  const most = close / (positives.length * negatives.length);
  if (found !== auc) t.log(`AUC ${auc}, ${found}: ${close} pairs are closer than ${2 * limit}`);
  t.true(Math.abs(found - auc) <= most, `${auc}, ${found}: ${close} pairs`);
}

for (const [title, model] of Object.entries(models)) {
  test.serial(`ONNX Runtime predicts what the model predicts: ${title}`, async (t) => {
    await isAlike(t, jobOf(startDirectory(t), model));
  });
}

const dlrm = { kind: "dlrm", dense: 3, tables, bottom: [5, 4], top: [6, 1] } as const;

test.serial("weights of ids apply in sums, in means and in sequences", async (t) => {
  const weights = "uniform";
  await isAlike(t, jobOf(startDirectory(t), dlrm, { weights }));
  const din = models["sequences of which the last ids are kept"] ?? dlrm;
  await isAlike(t, jobOf(startDirectory(t), din, { weights }));
});

const dynamic = { idBits: 64, dynamic: {} } as const;

test.serial(
  "dynamic ids find their rows, and ids without a row are left out of their bag",
  async (t) => {
    const own = tables.map((table) => ({ ...table, ...(table.name !== "c" && dynamic) }));
    await isAlike(t, jobOf(startDirectory(t), { ...dlrm, tables: own }));
    await isAlike(t, jobOf(startDirectory(t), { ...dlrm, tables: own }, { weights: "uniform" }));
    const din = models["sequences of which the last ids are kept"] ?? dlrm;
    const [seen] = tables;
    const wide = { ...din, tables: [{ ...seen, ...dynamic }] } as ModelOptions;
    await isAlike(t, jobOf(startDirectory(t), wide));
  },
);

test.serial("for any number of dynamic ids, each id finds its row, bit for bit", async (t) => {
  for (const pooling of ["sum", "mean"] as const) {
    for (const rows of someOrAll("rows of dynamic ids", [2, 6, 66], [2, 4, 6, 8, 10, 18, 66])) {
      const table = { name: "a", rows, dim: 1, pooling, ...dynamic };
      // The prediction of a numeric label is the logit itself.
      const options = jobOf(startDirectory(t), { kind: "lr", tables: [table] });
      const job = await drawModel({ ...options, loss: { kind: "mse" } });
      const { directory } = job.checkpoint;
      await exportModel(directory, `${directory}.onnx`);
      await using model = await loadModel(directory);
      const ids = [...drawnIds(job.model, 0), 5n, -7n, 2n ** 40n];
      const lengths = Int32Array.from([...ids.map(() => 1), ids.length, 0]);
      const all = [...ids, ...ids];
      const batch = {
        ...{ samples: lengths.length, dense: new Float32Array(0), lengths, weights: undefined },
        ids: Int32Array.from(all, (id) => Number(BigInt.asIntN(32, id))),
        highs: Int32Array.from(all, (id) => Number(id >> 32n)),
      };
      const { logits } = await runOnnx(`${directory}.onnx`, job, batch);
      const own = await model.predictBatch(batch);
      t.deepEqual(new Uint32Array(logits.slice().buffer), new Uint32Array(own.buffer));
      t.is(new Set(logits.subarray(0, rows >> 1)).size, rows >> 1);
      t.deepEqual([...new Set(logits.subarray(rows >> 1, ids.length))], [logits.at(-1)]);
    }
  }
});

test.serial("dynamic ids of a model that is too large are stored beside it", async (t) => {
  const own = tables.map((table) => ({ ...table, ...dynamic }));
  const job = await drawModel(jobOf(startDirectory(t), { ...dlrm, tables: own }));
  const { directory } = job.checkpoint;
  const [path, inline] = [`${directory}-beside.onnx`, `${directory}.onnx`];
  await exportModel(directory, inline);
  const { dataFile } = await exportModel(directory, path, { inlineBytesMax: 100 });
  t.is(statSync(`${path}.data`).size, 8 * 65_536 + 4 * 30 * 4);
  const batch = drawBatch(job, new RandomStream(9, 1, 3), { samples: 5, idsMax: 3 });
  const beside = await runOnnx(path, job, batch, dataFile);
  t.deepEqual(beside.logits, (await runOnnx(inline, job, batch)).logits);
});

test.serial("a dynamic table without known ids adds nothing to any prediction", async (t) => {
  const table = { name: "a", rows: 1, dim: 1, ...dynamic };
  const job = await drawModel(jobOf(startDirectory(t), { kind: "lr", tables: [table] }));
  const { directory } = job.checkpoint;
  await exportModel(directory, `${directory}.onnx`);
  const batch = drawBatch(job, new RandomStream(9, 1, 3), { samples: 3, idsMax: 2 });
  const { logits } = await runOnnx(`${directory}.onnx`, job, batch);
  t.is(new Set(logits).size, 1);
});

test.serial("numeric labels are predicted as values, beside probabilities", async (t) => {
  const home = startDirectory(t);
  const mse = { kind: "mse" as const };
  await isAlike(t, { ...jobOf(home, dlrm), loss: mse });
  const mixed = [tasks[0], { ...tasks[1], loss: mse }] as typeof tasks;
  const model = { ...several, tasks: mixed, kind: "sharedBottom", shared: [6] } as const;
  await isAlike(t, jobOf(startDirectory(t), model));
});

test.serial("a custom model is exported as its blocks", async (t) => {
  allowModels([twoTowers.path]);
  await isAlike(t, jobOf(startDirectory(t), twoTowers, { dense: 4 }));
});

test.serial("bfloat16 layers are exported in float32, and predict nearly the same", async (t) => {
  await isAlike(t, jobOf(startDirectory(t), { ...dlrm, precision: "bfloat16" }), 2e-3);
});

test.serial("the file states its inputs, its outputs and the run it comes from", async (t) => {
  const job = await drawModel(jobOf(startDirectory(t), dlrm));
  const { directory } = job.checkpoint;
  const path = `${directory}.onnx`;
  const report = await exportModel(directory, path);
  t.like(report, { format: "onnx", file: path, dataFile: undefined, cut: 1 });
  t.is(report.bytes, statSync(path).size);
  const batch = drawBatch(job, new RandomStream(9, 1, 3), { samples: 2, idsMax: 2 });
  const { inputs, outputs, logits, predictions } = await runOnnx(path, job, batch);
  const features = ["a", "b", "c"].flatMap((name) => [`${name}.rows`, `${name}.lengths`]);
  t.deepEqual(inputs.toSorted(), ["dense", ...features].toSorted());
  t.deepEqual(outputs, ["logits", "predictions"]);
  for (const [i, logit] of logits.entries()) {
    t.true(Math.abs(1 / (1 + Math.exp(-logit)) - (predictions[i] ?? 0)) < 1e-6);
  }
  const bytes = readFileSync(path);
  for (const text of [report.digest, report.manifest, "bottom.0.weight", "embedding_bags.c.weight"])
    t.true(bytes.includes(text), text);
  await exportModel(directory, `${path}.onnx`);
  sameValues(t, readFileSync(`${path}.onnx`), bytes);
});

test.serial("tables too large for the model lie beside it, aligned to pages", async (t) => {
  const job = await drawModel(jobOf(startDirectory(t), dlrm));
  const { directory } = job.checkpoint;
  const [path, inline] = [`${directory}-beside.onnx`, `${directory}.onnx`];
  await exportModel(directory, inline);
  const { dataFile, bytes } = await exportModel(directory, path, { inlineBytesMax: 100 });
  t.is(dataFile, `${path}.data`);
  t.is(bytes, statSync(path).size + statSync(`${path}.data`).size);
  t.is(statSync(`${path}.data`).size, 2 * 65_536 + 4 * 30 * 4);
  const batch = drawBatch(job, new RandomStream(9, 1, 3), { samples: 5, idsMax: 3 });
  const beside = await runOnnx(path, job, batch, dataFile);
  t.deepEqual(beside.logits, (await runOnnx(inline, job, batch)).logits);

  const before = readdirSync(join(directory, ".."));
  const controller = new AbortController();
  const onProgress = (done: number) => done > 0 && controller.abort(new Error("stopped here"));
  const options = { inlineBytesMax: 100, onProgress, signal: controller.signal };
  const stopped = exportModel(directory, `${directory}-2.onnx`, options);
  await t.throwsAsync(stopped, { message: "stopped here" });
  t.deepEqual(readdirSync(join(directory, "..")), before);
});

test.serial(
  "a block without ONNX operators is refused by name, and no file is written",
  async (t) => {
    const own = startDirectory(t);
    const path = moduleOf(own, ownBlock);
    allowModels([path]);
    const model = { kind: "custom", path, dense: 2, tables: tables.slice(0, 1) } as const;
    const job = await drawModel(jobOf(own, model));
    const ofBlock = exportModel(job.checkpoint.directory, join(own, "model.onnx"));
    const block = /^Model `custom` has a block that no operators of ONNX are known for: export/;
    await t.throwsAsync(ofBlock, { instanceOf: InvalidOptionError, message: block });
    t.false(readdirSync(own).some((name) => name.includes("onnx")));
  },
);

test.serial("dense parameters count towards the inline limit as tables do", async (t) => {
  const { checkpoint } = await drawModel(jobOf(startDirectory(t), dlrm));
  const path = `${checkpoint.directory}.onnx`;
  const ofTables = 4 * 4 * (50 + 40 + 30);
  const { parameters, dataFile } = await exportModel(checkpoint.directory, path, {
    inlineBytesMax: ofTables,
  });
  t.is(dataFile, `${path}.data`);
  const inlineBytesMax = ofTables + 4 * parameters;
  const whole = await exportModel(checkpoint.directory, path, { inlineBytesMax });
  t.is(whole.dataFile, undefined);
});

test.serial("the rows of a bag are added in their order, with the bits of float32", async (t) => {
  const model = { kind: "lr" as const, tables: [{ name: "a", rows: 50, dim: 1 }] };
  const job = await drawModel(jobOf(startDirectory(t), model));
  const { directory } = job.checkpoint;
  await exportModel(directory, `${directory}.onnx`);
  await exportModel(directory, `${directory}.safetensors`);
  const { tensors } = readTensorFile(`${directory}.safetensors`);
  const weights = tensors.get("embedding_bags.a.weight")?.values as Float32Array;
  const bias = Number(tensors.get("bias")?.values[0]);
  const batch = drawBatch(job, new RandomStream(9, 1, 3), { samples: 200, idsMax: 30 });
  const { logits } = await runOnnx(`${directory}.onnx`, job, batch);
  let at = 0;
  const sums = Float32Array.from(batch.lengths, (length) => {
    const own = batch.ids.subarray(at, at + length);
    at += length;
    const sum = own.reduce((total, row) => Math.fround(total + (weights[row] ?? 0)), 0);
    return Math.fround(sum + bias);
  });
  t.deepEqual(new Uint32Array(logits.slice().buffer), new Uint32Array(sums.buffer));
});

/** A module whose model has a block of its own: the identity. */
const ownBlock = `export default defineModel({ build(graph, features) {
  const all = features.rows();
  const same = graph.add({
    inputs: [all],
    shape: all.shape,
    start: (memory) => ({
      forward({ samples }) { memory.kernels.copy(memory.out(samples), memory.x(0, samples)); },
      backward() {},
    }),
  });
  return blocks.linear(graph, same, { name: "logit", outputs: 1 });
} });`;
