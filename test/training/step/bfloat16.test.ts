// The log loss cost of bfloat16 layers: small beside what a model learns. The bench `npm run bench
// -- accuracy` measures the same on a million samples and five seeds.

import test from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { generatedBatches } from "../../helpers/batches/generated-batches.ts";
import { logLossOf } from "../../helpers/batches/log-loss.ts";
import { startLocalDevices } from "../../helpers/devices/local-devices.ts";
import { rounds } from "../../helpers/thinned.ts";

const batchSize = 256;
const steps = 240;
const heldOut = 16;
const tables = Array.from({ length: 4 }, (_, i) => {
  return { name: `T${i}`, rows: 50, dim: 8, initScale: 0.05 };
});

/** Log loss before and after training, on held-out samples. */
async function train(precision: "float32" | "bfloat16", seed: number) {
  const top = [32, 16, 1];
  const shape = { dense: 4, tables, bottom: [16, 8], top, precision };
  const model = modelOptions.parse({ kind: "dlrm", ...shape });
  const optimizer = optimizerOf(
    { kind: "adagrad", learningRate: 0.02 },
    { kind: "adagrad", learningRate: 0.05 },
  );
  const local = startLocalDevices({
    input: { model, batchSize, slices: 8, idsMax: tables.map(() => 1) },
    recipe: { optimizer, seed },
    devices: 1,
    kernels: () => openKernels("auto"),
  });
  const batches = generatedBatches({ batchSize, batches: steps + heldOut, dense: 4, tables }, seed);
  const logLoss = () => logLossOf(local, batches.slice(steps));
  const before = await logLoss();
  for (const [step, batch] of batches.slice(0, steps).entries()) await local.train(batch, step);
  return { before, after: await logLoss() };
}

test("a model with bfloat16 layers learns as well as a float32 one", async (t) => {
  let [learned, lost] = [0, 0];
  const seeds = rounds("seeds of the cost of bfloat16", 1, 3);
  for (let seed = 1; seed <= seeds; seed++) {
    const single = await train("float32", seed);
    const half = await train("bfloat16", seed);
    t.not(half.after, single.after);
    learned += single.before - single.after;
    lost += half.after - single.after;
  }
  t.log(`learned ${learned / seeds}, of which bfloat16 lost ${lost / seeds}`);
  t.true(learned > seeds / 30, `learned ${learned}`);
  t.true(Math.abs(lost) < 0.02 * learned, `lost ${lost} of ${learned}`);
});
