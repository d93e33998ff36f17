// A model as wide as a real one, with a thousandth of its rows: Neo's model A (Mudigere et al.,
// arXiv 2104.05158, table 3) has a thousand tables of 4 to 384 columns and 15 ids per bag. The
// digest is the same on any number of devices, and under random plans.

import test from "ava";
import { randomPlan } from "../../../bench/planner/random-plan.ts";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { adagrad, modelOptions, rowWiseAdagrad } from "../../../src/model/options.ts";
import type { Plan } from "../../../src/planner/shards.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { randomBatch } from "../../helpers/batches/random-batch.ts";
import { startLocalDevices } from "../../helpers/devices/local-devices.ts";
import { rounds, someOrAll } from "../../helpers/thinned.ts";

const dims = [4, 8, 16, 32, 64, 128, 256, 384];
const tableCount = rounds("tables of a wide model", 96, 1000);
const [idsMean, samples, vectors, dim] = [15, 16, 16, 32];
const stream = new RandomStream(19, 1);

/** Log-uniform columns, lognormal rows; every 50th table has row blocks, too. */
const tables = Array.from({ length: tableCount }, (_, i) => ({
  name: `T${i}`,
  rows: Math.ceil(Math.exp(4 + stream.normal())),
  dim: dims[stream.below(dims.length)] ?? 4,
  rowBlocks: i % 50 === 0 ? 4 : 1,
}));
const names = tables.map(({ name }) => name);
const size = Math.ceil(tableCount / vectors);

/** Sixteen groups of features: the interaction takes one vector per group. */
const model = modelOptions.parse({
  kind: "dlrm",
  dense: 8,
  tables,
  features: names.map((column) => ({ column })),
  groups: Array.from({ length: vectors }, (_, g) => {
    return { name: `g${g}`, features: names.slice(g * size, (g + 1) * size) };
  }),
  bottom: [dim],
  top: [32, 1],
});

const idsMax = tables.map(() => 2 * idsMean - 1);
const rows = tables.map((table) => table.rows);
const batches = [0, 1].map((step) => randomBatch({ rows, idsMax, dense: 8 }, step, samples));

async function train(devices: number, plan?: Plan) {
  const local = startLocalDevices({
    input: { model, batchSize: samples, slices: 8, idsMax, plan },
    recipe: {
      optimizer: optimizerOf(
        adagrad({ learningRate: 0.05 }),
        rowWiseAdagrad({ learningRate: 0.1 }),
      ),
      seed: 3,
    },
    devices,
    kernels: () => openKernels("auto"),
  });
  const losses: number[] = [];
  for (const [step, batch] of batches.entries()) losses.push(await local.train(batch, step));
  return { losses, digest: await local.digest() };
}

test("many tables of 4 to 384 columns give the same bits on 1, 2, 3 and 8 devices", async (t) => {
  const expected = await train(1);
  t.true(expected.losses.every(Number.isFinite));
  for (const devices of someOrAll("devices of a wide model", [3], [2, 3, 8])) {
    t.deepEqual(await train(devices), expected, `${devices}`);
  }
  for (const devices of someOrAll("random plans of a wide model", [8], [3, 8])) {
    const plan = randomPlan(model.tables, devices, new RandomStream(19, 2, devices));
    t.deepEqual(await train(devices, plan), expected, `a random plan of ${devices}`);
  }
});
