// The training loop against PyTorch: loss curves, activations, gradients and final weights of a
// DLRM trained in PyTorch. The golden's README derives the tolerances from the noise of rounding
// errors: a larger difference means another function, not another order of additions.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import test from "ava";
import { sparseOptimizerOptions } from "../../../src/embedding/tables/options.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { denseOptimizerOptions, modelOptions } from "../../../src/model/options.ts";
import { evaluate } from "../../../src/training/loop/metrics.ts";
import type { DeviceState } from "../../../src/training/step/device-state.ts";
import {
  type Golden,
  type GoldenOptimizer,
  goldenFolder,
  readGolden,
} from "../../helpers/batches/golden.ts";
import {
  type LocalDevices,
  startLocalDevices,
  type WholeBatch,
} from "../../helpers/devices/local-devices.ts";

const golden = readGolden("dlrm");

for (const name of ["dlrm", "wukong", "wukong_fullfm"]) {
  test(`the golden ${name} is the one that its README tells of, and whole`, (t) => {
    const bytes = readFileSync(`${goldenFolder}/${name}.bin`);
    const hash = createHash("sha256").update(bytes).digest("hex");
    const page = readFileSync(`${goldenFolder}/README.md`, "utf8");
    const [row = ""] = page.match(new RegExp(`^\\| \`${name}\` .*$`, "m")) ?? [];
    t.true(row.includes(hash), `SHA-256 ${hash}`);
    const { names, tensor } = readGolden(name);
    t.true(names.every((one) => tensor(one).every(Number.isFinite)));
  });
}

const cases = [
  { devices: 1, kernels: () => createReference() },
  { devices: 2, kernels: () => openKernels("auto") },
];

for (const { devices, kernels } of cases) {
  for (const optimizer of golden.optimizers) {
    const arithmetic = kernels().arithmetic;
    const title = `${optimizer.name} on ${devices} device(s), ${arithmetic}`;
    test(`follows PyTorch's curve and weights: ${title}`, async (t) => {
      const local = startGolden(golden, optimizer, devices, kernels);
      const expected = golden.tensor(`${optimizer.name}/loss_f32`);
      const lossTolerance = Math.max(1e-5, 10 * optimizer.noise_loss_dev);
      const batches = batchesOf(golden, "train", golden.steps);
      for (const [step, batch] of batches.entries()) {
        const loss = await local.train(batch, step);
        const difference = Math.abs(loss - (expected[step] ?? Number.NaN));
        if (!(difference <= lossTolerance))
          t.fail(`step ${step}: the loss is off by ${difference}`);
      }
      const weightTolerance = Math.max(1e-4, 10 * optimizer.noise_weight_dev);
      for (const name of parameterNames(golden)) {
        const difference = furthest(
          read(local, name),
          golden.tensor(`${optimizer.name}/final/${name}`),
        );
        t.true(difference <= weightTolerance, `${name} is off by ${difference}`);
      }
      const auc = await aucOf(local, golden);
      t.true(Math.abs(auc - optimizer.test_auc) <= 1e-3, `AUC ${auc}, not ${optimizer.test_auc}`);
    });
  }
}

// Rounding operands by up to 2^-9 shifts by some steps when a model finds the signal, so single
// losses of 64 samples diverge. The first steps, the mean over all steps and the final quality stay
// near.
for (const optimizer of golden.optimizers) {
  test(`stays near PyTorch's float32 curve with layers in bfloat16: ${optimizer.name}`, async (t) => {
    const local = startGolden(golden, optimizer, 2, () => openKernels("auto"), "bfloat16");
    const expected = golden.tensor(`${optimizer.name}/loss_f32`);
    let sum = 0;
    for (const [step, batch] of batchesOf(golden, "train", golden.steps).entries()) {
      const difference = (await local.train(batch, step)) - (expected[step] ?? Number.NaN);
      if (step < 30) t.true(Math.abs(difference) < 0.01, `step ${step}: off by ${difference}`);
      sum += difference;
    }
    const mean = sum / golden.steps;
    t.true(Math.abs(mean) < 0.01, `the mean loss is off by ${mean}`);
    const auc = await aucOf(local, golden);
    t.true(auc > optimizer.test_auc - 0.01, `AUC ${auc}, not ${optimizer.test_auc}`);
    t.log(mean, auc - optimizer.test_auc);
  });
}

test("gives the logits and gradients of the first batch", async (t) => {
  const sgd = golden.optimizers.find((optimizer) => optimizer.kind === "sgd");
  if (sgd === undefined) {
    t.fail("the golden has no sgd");
    return;
  }
  const local = startGolden(golden, sgd, 1, () => createReference());
  const [batch] = batchesOf(golden, "train", 1);
  if (batch === undefined) {
    t.fail("the golden has no batch");
    return;
  }
  const logits = await local.score(batch);
  t.true(furthest(logits, golden.tensor("step0/act/logits")) <= 1e-5);
  await local.train(batch, 0);
  for (const name of parameterNames(golden)) {
    // w - lr*g with lr = 1: the update is the gradient, give or take the rounding of w.
    const before = golden.tensor(`init/${name}`);
    const gradient = read(local, name).map((after, i) => (before[i] ?? 0) - after);
    const difference = furthest(gradient, golden.tensor(`step0/grad/${name}`));
    t.true(difference <= 1e-6, `the gradient of ${name} is off by ${difference}`);
  }
});

/** AUC on the held-out batches. */
async function aucOf(local: LocalDevices, from: Golden): Promise<number> {
  const tests = batchesOf(from, "test", from.testBatches);
  const logits: number[] = [];
  for (const batch of tests) logits.push(...(await local.score(batch)));
  const labels = tests.flatMap((batch) => [...batch.labels]);
  return evaluate(Float32Array.from(logits), Float32Array.from(labels)).auc;
}

function startGolden(
  from: Golden,
  optimizer: GoldenOptimizer,
  devices: number,
  kernels: Parameters<typeof startLocalDevices>[0]["kernels"],
  precision: "float32" | "bfloat16" = "float32",
): LocalDevices {
  const model = modelOptions.parse({
    kind: "dlrm",
    dense: from.bottom[0],
    tables: from.rows.map((rows, i) => ({ name: `T${i}`, rows, dim: from.dim })),
    bottom: from.bottom.slice(1),
    top: from.top,
    precision,
  });
  const rates = {
    learningRate: optimizer.lr,
    ...(optimizer.kind === "sgd"
      ? {}
      : { epsilon: optimizer.eps, initialAccumulator: optimizer.initial_accumulator }),
  };
  const rowWise = optimizer.kind === "rowwise_adagrad";
  const dense = denseOptimizerOptions.parse({
    kind: rowWise ? "adagrad" : optimizer.kind,
    ...rates,
  });
  const sparse = sparseOptimizerOptions.parse({
    kind: rowWise ? "rowWiseAdagrad" : optimizer.kind,
    ...rates,
  });
  const idsMax = from.rows.map((_, i) => Math.max(...from.tensor(`train/lengths/${i}`)));
  const local = startLocalDevices({
    input: { model, batchSize: from.batch, slices: 8, idsMax },
    recipe: { optimizer: { dense, sparse }, seed: 1 },
    devices,
    kernels,
  });
  for (const state of local.states) load(state, from);
  return local;
}

function load(state: DeviceState, from: Golden): void {
  const { kernels } = state;
  for (const { name, shape, first } of state.topology.shape.layout.parameters) {
    kernels.write(
      kernels.reshape(state.model.flat, shape, first),
      Float32Array.from(from.tensor(`init/${name}`)),
    );
  }
  for (const [at, { table }] of state.slab.shards.entries()) {
    const weights = state.slab.rowsOf[at]?.weights;
    if (weights === undefined) continue;
    kernels.write(weights, Float32Array.from(from.tensor(`init/emb.${table}.weight`)));
  }
}

function read(local: LocalDevices, name: string): Float64Array {
  const table = /^emb\.(\d+)\.weight$/.exec(name)?.[1];
  for (const { kernels, slab, model, topology } of local.states) {
    if (table === undefined) {
      const found = topology.shape.layout.parameters.find((one) => one.name === name);
      if (found === undefined) break;
      return Float64Array.from(kernels.read(kernels.reshape(model.flat, found.shape, found.first)));
    }
    const at = slab.shards.findIndex((shard) => shard.table === Number(table));
    const rows = slab.rowsOf[at];
    if (rows !== undefined) return Float64Array.from(kernels.read(rows.weights));
  }
  throw new RangeError(`Nobody holds ${name}`);
}

function parameterNames(from: Golden): string[] {
  return from.names.flatMap((name) => (name.startsWith("init/") ? [name.slice(5)] : []));
}

function batchesOf(from: Golden, part: "train" | "test", count: number): WholeBatch[] {
  const { batch, rows } = from;
  const dense = Float32Array.from(from.tensor(`${part}/dense`));
  const labels = Float32Array.from(from.tensor(`${part}/labels`));
  const lengths = rows.map((_, i) => from.tensor(`${part}/lengths/${i}`));
  const ids = rows.map((_, i) => from.tensor(`${part}/indices/${i}`));
  const width = from.bottom[0] ?? 0;
  const taken = rows.map(() => 0);
  return Array.from({ length: count }, (_, step) => {
    const own = lengths.map((all) => all.subarray(step * batch, (step + 1) * batch));
    const ownIds = own.map((bags, i) => {
      const start = taken[i] ?? 0;
      const end = start + bags.reduce((sum, length) => sum + length, 0);
      taken[i] = end;
      return [...(ids[i]?.subarray(start, end) ?? [])];
    });
    return {
      samples: batch,
      dense: dense.slice(step * batch * width, (step + 1) * batch * width),
      labels: labels.slice(step * batch, (step + 1) * batch),
      lengths: Int32Array.from(own.flatMap((bags) => [...bags])),
      ids: Int32Array.from(ownIds.flat()),
    };
  });
}

function furthest(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  if (actual.length !== expected.length) return Number.POSITIVE_INFINITY;
  let most = 0;
  for (let i = 0; i < actual.length; i++) {
    const difference = Math.abs((actual[i] ?? Number.NaN) - (expected[i] ?? Number.NaN));
    if (!(difference <= most))
      most = Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference;
  }
  return most;
}
