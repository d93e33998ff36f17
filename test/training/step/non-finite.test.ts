// A NaN or an infinity ends the step, and the error names its origin.

import test from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import { oneLabel } from "../../../src/data/targets.ts";
import { NonFiniteGradientError, NonFiniteLossError } from "../../../src/errors/errors.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { type ModelSpec, modelOptions } from "../../../src/model/options.ts";
import { learnableBatch } from "../../helpers/batches/learnable-batch.ts";
import { type LocalDevices, startLocalDevices } from "../../helpers/devices/local-devices.ts";

const rows = [40, 30];
const [samples, dense, dim] = [32, 3, 8];

const arithmetics = { reference: () => createReference(), "the best": () => openKernels("auto") };

function startTraining(options: {
  devices: number;
  arithmetic: keyof typeof arithmetics;
  dense?: "sgd" | "adagrad" | "adam" | "lamb";
  replicated?: boolean;
  features?: number;
  model?: ModelSpec;
  labels?: number;
}): LocalDevices {
  const { devices, arithmetic, replicated = false, features = dense, labels = 1 } = options;
  const targets = { ...oneLabel, labels };
  const sharding = replicated ? ("data-parallel" as const) : ("table-wise" as const);
  const initScale = 1e-18; // Avoids overflow of dot products of large weights.
  const usual = modelOptions.parse({
    kind: "dlrm",
    dense: features,
    tables: rows.map((count, i) => ({ name: `T${i}`, rows: count, dim, sharding, initScale })),
    bottom: features > 0 ? [8, dim] : [],
    top: [16, 1],
  });
  const model = options.model ?? usual;
  return startLocalDevices({
    input: { model, batchSize: samples, slices: 8, idsMax: [1, 2], targets },
    recipe: {
      optimizer: optimizerOf({ kind: options.dense ?? "sgd" }, { kind: "rowWiseAdagrad" }),
      seed: 3,
    },
    devices,
    kernels: arithmetics[arithmetic],
  });
}

const batch = learnableBatch({ samples, dense, rows }, 0);

/** The batch, with the dense features of some samples set to a value. */
function poisoned(value: number, ...poisonedSamples: number[]) {
  const features = batch.dense.slice();
  for (const sample of poisonedSamples) features[sample * dense] = value;
  return { ...batch, dense: features };
}

/** Sets the parameters whose names begin with the prefix, on all devices. */
function setParameters(local: LocalDevices, prefix: string, value: number): void {
  for (const { kernels, network, topology } of local.states) {
    for (const { name, first, length } of topology.graph.layout.parameters) {
      if (!name.startsWith(prefix)) continue;
      kernels.fill(kernels.reshape(network.flat, [length], first), value);
    }
  }
}

test("a non-finite loss of two tasks names the task that it comes from", async (t) => {
  const model = modelOptions.parse({
    kind: "sharedBottom",
    dense,
    tables: rows.map((count, i) => ({ name: `T${i}`, rows: count, dim })),
    shared: [8],
    tasks: [{ name: "click" }, { name: "seconds", tower: [4], loss: { kind: "mse" } }],
  });
  const labels = Float32Array.from({ length: 2 * samples }, (_, i) => i % 3);
  for (const [prefix, task, layer] of [
    ["towers.1.1", "seconds", "towers.1.1"],
    ["towers.0", "click", "towers.0.0"],
  ] as const) {
    const local = startTraining({ devices: 2, arithmetic: "reference", model, labels: 2 });
    setParameters(local, prefix, Number.POSITIVE_INFINITY);
    const error = await t.throwsAsync(local.train({ ...batch, labels }, 0), {
      instanceOf: NonFiniteLossError,
    });
    t.deepEqual([error.task, error.layer], [task, `layer \`${layer}\``]);
    t.true(error.message.includes(task), error.message);
  }
});

for (const arithmetic of ["reference", "the best"] as const) {
  for (const devices of [1, 3] as const) {
    const where = `${devices} device(s), ${arithmetic} arithmetic`;

    test(`a non-finite loss names its samples: ${where}`, async (t) => {
      const local = startTraining({ devices, arithmetic });
      t.true(Number.isFinite(await local.train(batch, 0)));
      const training = local.train(poisoned(Number.NaN, 5, 17), 1);
      const error = await t.throwsAsync(training, { instanceOf: NonFiniteLossError });
      t.deepEqual(error.samples, [5, 17]);
      t.regex(error.message, /step 1 is NaN from sample 5, 17 of the batch, first in the dense f/);
    });

    test(`a non-finite loss names the layer or table that it comes from: ${where}`, async (t) => {
      const wrong = async (make: (local: LocalDevices) => void) => {
        const local = startTraining({ devices, arithmetic });
        make(local);
        return t.throwsAsync(local.train(batch, 0), { instanceOf: NonFiniteLossError });
      };
      const infinite = Number.POSITIVE_INFINITY;
      const ofTop = await wrong((local) => setParameters(local, "top.0.bias", infinite));
      t.is(ofTop?.layer, "layer `top.0`");
      const ofBottom = await wrong((local) => setParameters(local, "bottom.0.bias", infinite));
      t.is(ofBottom?.layer, "layer `bottom.0`");
      const ofRows = await wrong(({ states }) => {
        for (const { slab, kernels, topology, rank } of states) {
          const shards = topology.heldBy[rank] ?? [];
          const at = shards.findIndex(({ table }) => table === 1);
          const weights = slab.rowsOf[at]?.weights;
          if (weights !== undefined) kernels.fill(weights, Number.NaN);
        }
      });
      t.is(ofRows?.layer, "the vectors of table `T1`");
      t.is(ofRows?.task, undefined);
    });

    test(`a non-finite loss of several terms names the term: ${where}`, async (t) => {
      const model = modelOptions.parse({
        kind: "finalNet",
        tables: rows.map((count, i) => ({ name: `T${i}`, rows: count, dim })),
        first: [4],
        second: [4],
      });
      const local = startTraining({ devices, arithmetic, model });
      setParameters(local, "logits.second.bias", Number.NaN);
      const training = local.train(batch, 0);
      const error = await t.throwsAsync(training, { instanceOf: NonFiniteLossError });
      t.deepEqual([error.task, error.layer], ["label", "layer `logits.second`"]);
      t.regex(error.message, /^The loss of `label` in step 0 is NaN from sample 0/);
    });

    for (const kind of ["sgd", "adagrad", "adam", "lamb"] as const) {
      const title = `a gradient that overflows behind a finite loss names its parameter`;
      test(`${title}: ${kind}, ${where}`, async (t) => {
        const local = startTraining({ devices, arithmetic, dense: kind });
        for (const part of ["top.0.weight", "top.1.weight"]) setParameters(local, part, 1e20);
        for (const part of ["bottom", "top.0.bias"]) setParameters(local, part, 0);
        setParameters(local, "bottom.1.bias", 1e-30);
        const training = local.train(batch, 0);
        const error = await t.throwsAsync(training, { instanceOf: NonFiniteGradientError });
        t.is(error.of, "parameter `bottom.1.bias`");
        t.true(error.samples.length > 0);
        t.is(error.recovery, "stop");
      });
    }
  }

  test(`an overflow in the sum of finite gradients names its parameter: ${arithmetic}`, async (t) => {
    const local = startTraining({ devices: 2, arithmetic });
    // Each of the 32 samples adds 3e37 to every element of the parameter's gradient.
    for (const part of ["bottom.0.weight", "top.0.weight"]) setParameters(local, part, 1);
    setParameters(local, "bottom.1.weight", 1e-37);
    setParameters(local, "top.1.weight", 2);
    const large = { ...poisoned(3e37, ...batch.labels.keys()), labels: new Float32Array(samples) };
    const training = local.train(large, 0);
    const error = await t.throwsAsync(training, { instanceOf: NonFiniteGradientError });
    t.deepEqual(error.samples, []);
    t.regex(error.message, /a sum over the batch/);
    t.is(error.of, "parameter `bottom.1.weight`");
  });

  for (const replicated of [true, false]) {
    const kind = replicated ? "replicated" : "sharded";
    test(`a ${kind} table with a non-finite row update is named: ${arithmetic}`, async (t) => {
      const local = startTraining({ devices: 2, arithmetic, replicated, features: 0 });
      for (const part of ["top.0.weight", "top.1.weight"]) setParameters(local, part, 1e20);
      const training = local.train({ ...batch, dense: new Float32Array(0) }, 0);
      const error = await t.throwsAsync(training, { instanceOf: NonFiniteGradientError });
      t.regex(error.of, /^table `T[01]`$/);
      t.true(error.samples.length > 0);
    });
  }
}
