// The cost of a quantised exchange, and where float16 is not enough (Neo, Mudigere et al., arXiv
// 2104.05158, sends float16 forward and bfloat16 backward). traffic.test.ts shows that bytes halve,
// sharding.test.ts that no plan changes a bit.

import test from "ava";
import type { z } from "zod";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import { NonFiniteGradientError } from "../../../src/errors/errors.ts";
import { type ExchangeSpec, exchangeOptions } from "../../../src/exchange/options.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { exactExchange } from "../../../src/training/topology/topology.ts";
import { generatedBatches } from "../../helpers/batches/generated-batches.ts";
import { logLossOf } from "../../helpers/batches/log-loss.ts";
import { startLocalDevices } from "../../helpers/devices/local-devices.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { rounds } from "../../helpers/thinned.ts";

type ExchangeOptions = z.input<typeof exchangeOptions>;

const batchSize = 256;
const steps = 240;
const heldOut = 16;
const tables = Array.from({ length: 4 }, (_, i) => {
  return { name: `T${i}`, rows: 50, dim: 8, initScale: 0.05 };
});
const exact = exactExchange;
const neo: ExchangeSpec = { ...exactExchange, forward: "float16", backward: "bfloat16" };

function start(exchange: ExchangeSpec, seed: number, dense: 0 | 4, devices: number) {
  const layers = dense === 0 ? { bottom: [], top: [1] } : { bottom: [16, 8], top: [32, 16, 1] };
  const interaction = dense === 0 ? ("cat" as const) : ("dot" as const);
  const model = modelOptions.parse({ kind: "dlrm", dense, tables, interaction, ...layers });
  const optimizer = optimizerOf(
    { kind: "adagrad", learningRate: 0.005 },
    { kind: "rowWiseAdagrad", learningRate: 0.02 },
  );
  const local = startLocalDevices({
    input: { model, batchSize, slices: 8, idsMax: tables.map(() => 1), exchange },
    recipe: { optimizer, seed },
    devices,
    kernels: () => openKernels("auto"),
  });
  const shape = { batchSize, batches: steps + heldOut, dense, tables };
  return { local, batches: generatedBatches(shape, seed) };
}

/** Log loss before and after training, on held-out samples: the same on any number of devices. */
async function train(exchange: ExchangeSpec, seed: number) {
  const { local, batches } = start(exchange, seed, 4, 1);
  const logLoss = () => logLossOf(local, batches.slice(steps));
  const before = await logLoss();
  for (const [step, batch] of batches.slice(0, steps).entries()) await local.train(batch, step);
  return { before, after: await logLoss() };
}

// Learning rates are low, so that two runs stay close: at higher ones, any rounding error changes
// the log loss by up to 0.3 %, up or down.
testIf(testAll)(
  "vectors in float16 and gradients in bfloat16 cost less than 0.02 % of log loss",
  async (t) => {
    const gaps: number[] = [];
    for (let seed = 1; seed <= rounds("seeds of the cost of a quantised exchange", 2, 5); seed++) {
      const [single, half] = [await train(exact, seed), await train(neo, seed)];
      t.not(half.after, single.after);
      t.true(single.after < 0.95 * single.before, `learned from ${single.before}: ${single.after}`);
      gaps.push((half.after - single.after) / single.after);
    }
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
    t.log(`gaps, %: ${gaps.map((gap) => (100 * gap).toFixed(4)).join(" ")}`);
    t.true(Math.abs(mean) < 2e-4, `mean gap ${100 * mean} %`);
  },
);

/** Runs one step of a one-layer model, all weights `weight`; gradients are proportional to it. */
async function stepWithGradients(exchange: ExchangeOptions, weight: number) {
  const { local, batches } = start(exchangeOptions.parse(exchange), 1, 0, 2);
  for (const { kernels, network } of local.states) {
    kernels.write(network.flat, new Float32Array(network.flat.shape[0] ?? 0).fill(weight));
  }
  const rowsOf = () =>
    local.states.flatMap(({ kernels, slab }) => {
      return slab.rowsOf.flatMap((rows) => [...kernels.readRows(rows, 0, rows.rows)]);
    });
  const [batch] = batches;
  if (batch === undefined) throw new Error("There are no batches");
  const before = rowsOf();
  const loss = await local.train(batch, 0);
  return { loss, changed: rowsOf().filter((value, i) => value !== before[i]).length };
}

test("dense gradients above 65,504 overflow in float16, and not in bfloat16", async (t) => {
  const stepWith = async (dense: ExchangeSpec["dense"]) => {
    const { local, batches } = start({ ...exactExchange, dense }, 1, 4, 2);
    const [batch] = batches;
    if (batch === undefined) throw new Error("There are no batches");
    return local.train({ ...batch, dense: batch.dense.map((value) => 1e8 * value) }, 0);
  };
  const error = await t.throwsAsync(stepWith("float16"), { instanceOf: NonFiniteGradientError });
  t.regex(error?.message ?? "", /parameter `\w+\.\d\.weight` in step 0 .*a sum over the batch/);
  for (const wide of ["bfloat16", "float32"] as const) {
    t.true(Number.isFinite(await stepWith(wide)), wide);
  }
});

// Gradients near 10^6, although the loss is small.
test("gradients above 65,504 overflow a float16 exchange, and not a bfloat16 one", async (t) => {
  const error = await t.throwsAsync(stepWithGradients({ backward: "float16" }, 1e9), {
    instanceOf: NonFiniteGradientError,
  });
  t.regex(error?.message ?? "", /table `T\d`/);
  for (const wide of ["bfloat16", "float32"] as const) {
    t.true(Number.isFinite((await stepWithGradients({ backward: wide }, 1e9)).loss), wide);
  }
});

test("a scale keeps large gradients in float16, and small ones in float8", async (t) => {
  const large = { backward: "float16", backwardScale: 2 ** -8 } as const;
  t.true((await stepWithGradients(large, 1e9)).changed > 0);
  // A gradient of 10^-3 / 256 samples is below half of the least number of E5M2, 2^-16.
  const small = { backward: "float8e5m2" } as const;
  t.true((await stepWithGradients(small, 1e-3)).changed > 0);
  t.is((await stepWithGradients({ ...small, backwardScale: 1 }, 1e-3)).changed, 0);
  await t.throwsAsync(stepWithGradients(small, 1e9), { instanceOf: NonFiniteGradientError });
});

test("each format of exchanged vectors and dense gradients gives other bits", async (t) => {
  const formats = ["float32", "float16", "bfloat16", "int8", "float8e4m3", "float8e5m2"] as const;
  const others = [
    ...formats.map((forward) => ({ forward })),
    ...(["float16", "bfloat16"] as const).map((dense) => ({ dense })),
    { dense: "bfloat16", denseParts: 1 } as const,
  ];
  const digests = new Set<string>();
  for (const other of others) {
    const { local, batches } = start({ ...exact, ...other }, 1, 4, 1);
    for (const [step, batch] of batches.slice(0, 2).entries()) await local.train(batch, step);
    digests.add(await local.digest());
  }
  t.is(digests.size, others.length);
});
