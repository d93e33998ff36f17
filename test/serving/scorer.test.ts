// The forward pass of serving gives the bits of an evaluation: every architecture, every pooling,
// row blocks, weights, reduced precision, dynamic ids, averages and rows with decay.

import test from "ava";
import { weightedOf } from "../../src/data/text/match-features.ts";
import { type JobOptions, type JobSpec, resolveJob } from "../../src/job/job.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { shapesOf } from "../../src/model/features.ts";
import { predictedBy } from "../../src/model/loss.ts";
import type { ModelOptions } from "../../src/model/options.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { Scorer } from "../../src/serving/scorer.ts";
import { createSoloDevice } from "../../src/training/loop/inference-device.ts";
import type { DeviceState } from "../../src/training/step/device-state.ts";
import { forwardStep } from "../../src/training/step/step.ts";
import { denseOfDevice, rowsOfDevice } from "../../storage/model/model.ts";
import { scorerOf } from "../../storage/model/predictor.ts";
import { drawBatch } from "../helpers/models/onnx.ts";
import { zoo } from "../helpers/models/zoo.ts";

const tables = [
  { name: "a", rows: 50, dim: 4, rowBlocks: 4 as const },
  { name: "b", rows: 40, dim: 4, pooling: "mean" as const },
  { name: "c", rows: 30, dim: 4, precision: "int8" as const },
  { name: "d", rows: 30, dim: 4, precision: "float16" as const, pooling: "mean" as const },
  { name: "e", rows: 50, dim: 4, rowBlocks: 2 as const, pooling: "mean" as const },
];
const dlrm = { kind: "dlrm" as const, dense: 3, tables, bottom: [5, 4], top: [6, 1] };

const models: Readonly<Record<string, ModelOptions>> = {
  "DLRM of all kinds of tables": dlrm,
  "DLRM of features that share tables": {
    ...dlrm,
    tables: tables.slice(0, 3),
    features: [
      { column: "b" },
      { column: "a" },
      { column: "b2", table: "b", pooling: "sum" },
      { column: "c" },
      { column: "a2", table: "a", pooling: "mean" },
    ],
  },
  Wukong: {
    ...{ kind: "wukong", dense: 3, tables, bottom: [4], top: [5, 1] },
    layers: [{ interacted: 2, compressed: 2, rank: 2, hidden: [5] }],
  },
  ...zoo,
};

function jobOf(model: ModelOptions, data: object = {}, more: object = {}): JobSpec {
  const { dense = 0 } = model;
  const labels = "tasks" in model ? { labels: model.tasks?.length } : {};
  const own = { kind: "synthetic" as const, samples: 8, dense, batchSize: 8, ...labels, ...data };
  return resolveJob({ model, data: own, ...more } as JobOptions);
}

/** A device with random dense parameters, and row averages that differ from the weights. */
function drawnDevice(
  { model, slices, optimizer, seed, data }: JobSpec,
  weighted = weightedOf(data, shapesOf(model)),
): DeviceState {
  const kernels = openKernels("auto");
  const idsMax = shapesOf(model).map(() => 8);
  const input = { model, slices, idsMax, weighted, batchSize: 16 };
  const device = createSoloDevice({ input, recipe: { optimizer, seed }, kernels });
  const stream = new RandomStream(seed, 1, 7);
  const { parameters } = device.topology.graph.layout;
  for (const tensor of [device.network.flat, ...device.denseState.slots]) {
    const drawn = Float32Array.from({ length: tensor.shape[0] ?? 0 }, () => stream.uniform() - 0.4);
    for (const { name, first, length } of parameters) {
      if (name.endsWith(".running_var")) drawn.fill(0.7, first, first + length);
    }
    kernels.write(tensor, drawn);
  }
  for (const { rows, state, dim, averaged } of device.slab.rowsOf) {
    if (!averaged) continue;
    const width = state.shape[1] ?? 0;
    const drawn = Float32Array.from({ length: rows * width }, (_, i) => {
      return i % width < dim ? stream.uniform() - 0.5 : 3;
    });
    kernels.write(state, drawn);
  }
  device.trained.steps = 7;
  return device;
}

async function evaluated(device: DeviceState, batch: ReturnType<typeof drawBatch>) {
  const labels = new Float32Array(batch.samples);
  const place = { ticket: 0, batchSamples: batch.samples, idCount: batch.ids.length, labels };
  const logits = await forwardStep(device, { ...batch, ...place });
  return predictedBy(device.topology.graph, device.kernels.read(logits));
}

async function differences(job: JobSpec, isWide = false): Promise<string[]> {
  const device = drawnDevice(job);
  const isWeighted = "weights" in job.data && job.data.weights !== undefined;
  const scorer = scorerOf(job, device.kernels);
  scorer.setDense(denseOfDevice(device));
  const stream = new RandomStream(9, 1, 3);
  const wrong: string[] = [];
  for (const [samples, idsMax] of [
    [13, 5],
    [1, 4],
    [1, 0],
    [16, 1],
  ] as const) {
    const drawn = drawBatch(job, stream, { samples, idsMax, isWeighted });
    const batch = isWide ? { ...drawn, highs: new Int32Array(drawn.ids.length) } : drawn;
    const own = await evaluated(device, batch);
    const served = scorer.score(batch, rowsOfDevice(device));
    const isEqual =
      own.every((value, i) => Object.is(value, served[i])) && own.length === served.length;
    if (!isEqual) wrong.push(`${samples} samples: ${[...own]}, ${[...served]}`);
    if (samples > 8 && new Set(own).size < 2) wrong.push(`all scores are ${own[0]}`);
  }
  return wrong;
}

for (const [title, model] of Object.entries(models)) {
  test(`serving scores equal those of an evaluation: ${title}`, async (t) => {
    t.deepEqual(await differences(jobOf(model)), []);
  });
}

/** A batch with the user's features and dense values of one sample repeated in all. */
function ranked(batch: ReturnType<typeof drawBatch>, isOfUser: readonly boolean[]) {
  const { samples, lengths, ids, dense } = batch;
  const [rows, counts]: [number[], number[]] = [[], []];
  const [ofUser, userCounts]: [number[], number[]] = [[], []];
  let at = 0;
  for (const [feature, isUser] of isOfUser.entries()) {
    const own = lengths.subarray(feature * samples, (feature + 1) * samples);
    const [length = 0] = own;
    const first = ids.subarray(at, at + length);
    userCounts.push(length);
    ofUser.push(...first);
    for (const one of own) {
      counts.push(isUser ? length : one);
      rows.push(...(isUser ? first : ids.subarray(at, at + one)));
      at += one;
    }
  }
  const width = dense.length / samples;
  const user = {
    ...batch,
    samples: 1,
    dense: dense.slice(0, width),
    lengths: Int32Array.from(userCounts),
    ids: Int32Array.from(ofUser),
  };
  const whole = { ...batch, lengths: Int32Array.from(counts), ids: Int32Array.from(rows) };
  const alike = whole.dense.map((_, i) => user.dense[i % width] ?? 0);
  return { user, whole, alike: { ...whole, dense: alike } };
}

for (const [title, model] of Object.entries(models)) {
  test(`candidates of one user have the scores of whole samples: ${title}`, (t) => {
    const job = jobOf(model);
    const device = drawnDevice(job);
    const scorer = scorerOf(job, device.kernels);
    scorer.setDense(denseOfDevice(device));
    const rows = rowsOfDevice(device);
    const stream = new RandomStream(9, 1, 4);
    const features = shapesOf(job.model).length;
    for (let turn = 0; turn < 6; turn++) {
      const isOfUser = Array.from({ length: features }, () => stream.below(2) === 0);
      if (turn === 0) isOfUser.fill(true);
      const drawn = drawBatch(job, stream, { samples: turn === 1 ? 1 : 11, idsMax: 4 });
      const { user, whole, alike } = ranked(drawn, isOfUser);
      for (const isDenseOfUser of [false, true]) {
        const candidates = isDenseOfUser ? alike : whole;
        const expected = scorer.score(candidates, rows).slice();
        const own = scorer.rank({ user, candidates, isOfUser, isDenseOfUser }, rows);
        t.deepEqual([...own], [...expected], `${isOfUser}, ${isDenseOfUser}`);
      }
    }
  });
}

test("serving weights the ids of some features, and counts those of others once", async (t) => {
  const job = jobOf(dlrm);
  const weighted = [true, false, true, false, true];
  const device = drawnDevice(job, weighted);
  const { kernels } = device;
  const { model, optimizer } = job;
  const scorer = new Scorer({ model, optimizer: optimizer.sparse, weighted, kernels });
  scorer.setDense(denseOfDevice(device));
  const sizes = { samples: 9, idsMax: 4, isWeighted: true };
  const batch = drawBatch(job, new RandomStream(9, 1, 6), sizes);
  const expected = await evaluated(device, batch);
  t.deepEqual(scorer.score(batch, rowsOfDevice(device)), expected);
});

test("serving weights the ids of all features", async (t) => {
  t.deepEqual(await differences(jobOf(dlrm, { weights: "uniform" })), []);
});

test("serving uses moving averages of weights and rows", async (t) => {
  const optimizer = {
    dense: { kind: "adam", ema: { decay: 0.9 } },
    sparse: { kind: "adagrad", ema: { decay: 0.9 } },
  };
  t.deepEqual(await differences(jobOf(dlrm, {}, { optimizer })), []);
});

test("serving applies the shared decay of rows", async (t) => {
  const decayed = tables.map((table) => ({
    ...table,
    precision: "float32" as const,
    ...{ l2: 0.1, l2Scope: "decayed" as const },
  }));
  const optimizer = { sparse: { kind: "sgd", learningRate: 0.1 } };
  t.deepEqual(await differences(jobOf({ ...dlrm, tables: decayed }, {}, { optimizer })), []);
});

test("serving scores with data-parallel tables", async (t) => {
  const copied = tables.map((table) => ({ ...table, sharding: "data-parallel" as const }));
  t.deepEqual(await differences(jobOf({ ...dlrm, tables: copied.slice(0, 2) })), []);
});
