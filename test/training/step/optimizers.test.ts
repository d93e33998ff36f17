// Every optimizer through the complete step: it trains, its result does not depend on the number of
// devices, and a checkpoint holds all of its state.

import test from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import type { SparseOptimizerOptions } from "../../../src/embedding/tables/options.ts";
import type { Precision } from "../../../src/kernels/contract/precision.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import {
  adagrad,
  adam,
  adamW,
  type DenseOptimizerOptions,
  ftrl,
  lamb,
  modelOptions,
  partialRowWiseAdam,
  partialRowWiseLamb,
  rowWiseAdagrad,
  sgd,
} from "../../../src/model/options.ts";
import { restorePart } from "../../../src/training/checkpoint/parts.ts";
import { learnableBatch } from "../../helpers/batches/learnable-batch.ts";
import { type LocalDevices, startLocalDevices } from "../../helpers/devices/local-devices.ts";
import { bytesOfParts } from "../../helpers/devices/parts.ts";

const rows = [40, 30, 20];
const [samples, dense, dim] = [48, 3, 40];

function startTraining(
  optimizer: { dense: DenseOptimizerOptions; sparse: SparseOptimizerOptions },
  devices: number,
  precision: Precision = "float32",
): LocalDevices {
  const model = modelOptions.parse({
    kind: "dlrm",
    dense,
    tables: rows.map((count, i) => ({
      name: `T${i}`,
      rows: count,
      dim,
      initScale: 0.1,
      precision,
      sharding: i === 1 ? "data-parallel" : "table-wise",
    })),
    bottom: [8, dim],
    top: [16, 1],
  });
  return startLocalDevices({
    input: { model, batchSize: samples, slices: 8, idsMax: [1, 2, 2] },
    recipe: {
      optimizer: optimizerOf(optimizer.dense, optimizer.sparse),
      seed: 3,
    },
    devices,
    kernels: () => openKernels("auto"),
  });
}

const fewerBits: [DenseOptimizerOptions, SparseOptimizerOptions] = [
  adagrad({ learningRate: 0.05 }),
  rowWiseAdagrad({ learningRate: 0.1 }),
];

const cases: Record<string, [DenseOptimizerOptions, SparseOptimizerOptions, Precision?]> = {
  "tables in float16": [...fewerBits, "float16"],
  "tables in bfloat16": [...fewerBits, "bfloat16"],
  "tables in int8": [...fewerBits, "int8"],
  "SGD with momentum, and SGD": [
    sgd({ learningRate: 0.3, momentum: 0.8 }),
    sgd({ learningRate: 20 }),
  ],
  "Adagrad, and row-wise Adagrad with l2": [
    adagrad({ learningRate: 0.05 }),
    rowWiseAdagrad({ learningRate: 0.1, weightDecay: 1e-3 }),
  ],
  "AdamW, and row-wise Adagrad with decoupled decay": [
    adamW({ learningRate: 0.01 }),
    rowWiseAdagrad({ learningRate: 0.1, weightDecay: 0.01, weightDecayMode: "decoupled" }),
  ],
  "LAMB, and LAMB": [
    lamb({ learningRate: 0.02, weightDecay: 0.01 }),
    lamb({ learningRate: 0.05, weightDecay: 0.01 }),
  ],
  "SGD and row-wise Adagrad, both clipped": [
    sgd({ learningRate: 0.3, momentum: 0.8, clip: { value: 0.01 } }),
    rowWiseAdagrad({ learningRate: 0.1, clip: { value: 0.001 } }),
  ],
  "Adam, and partial row-wise Adam": [
    adam({ learningRate: 0.01 }),
    partialRowWiseAdam({ learningRate: 0.02, weightDecay: 0.01 }),
  ],
  "Adam, and partial row-wise LAMB": [
    adam({ learningRate: 0.01 }),
    partialRowWiseLamb({ learningRate: 0.05 }),
  ],
  "Adam, and FTRL": [
    adam({ learningRate: 0.01 }),
    ftrl({ learningRate: 0.5, beta: 0.01, l1: 1e-4, l2: 1e-3 }),
  ],
};

for (const [title, [denseOptimizer, sparse, precision]] of Object.entries(cases)) {
  const optimizer = { dense: denseOptimizer, sparse };

  test(`training on 1 and on 3 devices gives one digest: ${title}`, async (t) => {
    const [one, three] = [
      startTraining(optimizer, 1, precision),
      startTraining(optimizer, 3, precision),
    ];
    const losses: number[] = [];
    for (let step = 0; step < 30; step++) {
      const batch = learnableBatch({ samples, dense, rows }, step);
      const loss = await one.train(batch, step);
      t.is(await three.train(batch, step), loss);
      losses.push(loss);
    }
    t.is(await one.digest(), await three.digest());
    const mean = (part: number[]) => part.reduce((sum, loss) => sum + loss, 0) / part.length;
    const [first, last] = [mean(losses.slice(0, 5)), mean(losses.slice(-5))];
    t.true(last < first - 0.01, `the loss went from ${first} to ${last}`);
  });

  test(`training resumes from a checkpoint with the same bits: ${title}`, async (t) => {
    const [whole, resumed] = [
      startTraining(optimizer, 2, precision),
      startTraining(optimizer, 1, precision),
    ];
    const train = async (local: LocalDevices, from: number, to: number) => {
      for (let step = from; step < to; step++) {
        await local.train(learnableBatch({ samples, dense, rows }, step), step);
      }
    };
    await train(whole, 0, 4);
    for (const [name, bytes] of await bytesOfParts(whole.states)) {
      for (const state of resumed.states) await restorePart(state, name, [[bytes]]);
    }
    t.is(await resumed.digest(), await whole.digest());
    await train(whole, 4, 8);
    await train(resumed, 4, 8);
    t.is(await resumed.digest(), await whole.digest());
  });
}
