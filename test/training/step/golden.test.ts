// The training loop against PyTorch: loss curves, activations, gradients and final weights of
// models trained in PyTorch. The golden's README derives the tolerances from the noise of rounding
// errors: a larger difference means another function, not another order of additions.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import test from "ava";
import { openKernels } from "../../../src/kernels/index.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { evaluate } from "../../../src/training/loop/metrics.ts";
import {
  type Golden,
  goldenBytes,
  goldenFolder,
  readGolden,
} from "../../helpers/batches/golden.ts";
import { beginsLike, followCurve } from "../../helpers/devices/follow-golden.ts";
import { architectureOf, batchesOf, startGolden } from "../../helpers/devices/golden-devices.ts";
import type { LocalDevices } from "../../helpers/devices/local-devices.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { someOrAll } from "../../helpers/thinned.ts";

const golden = readGolden("dlrm");
const features = readGolden("features");
const wukong = readGolden("wukong");
const fullWukong = readGolden("wukong_fullfm");

/**
 * The model of the golden `features`: its README says which tables are shared, unpooled and
 * projected.
 */
const sharedModel = {
  tables: [8, 4, 16, 6, 3].map((dim, i) => ({ name: `T${i}`, rows: features.rows[i] ?? 0, dim })),
  features: [
    { column: "item", table: "T0" },
    { column: "bought", table: "T0", pooling: "mean" },
    { column: "seen", table: "T0", pooling: "none", maxLength: 3 },
    { column: "country", table: "T1" },
    { column: "wide", table: "T2", vectors: 2 },
    { column: "device", table: "T3" },
    { column: "brand", table: "T4" },
  ],
  groups: [{ name: "context", features: ["device", "brand"] }],
} as const;

for (const name of ["dlrm", "features", "wukong", "wukong_fullfm"]) {
  test(`the golden ${name} has the contents that its README describes, undamaged`, (t) => {
    const bytes = goldenBytes(`${goldenFolder}/${name}.bin.gz`);
    const hash = createHash("sha256").update(bytes).digest("hex");
    const page = readFileSync(`${goldenFolder}/README.md`, "utf8");
    const [row = ""] = page.match(new RegExp(`^\\| \`${name}\` .*$`, "m")) ?? [];
    t.true(row.includes(hash), `SHA-256 ${hash}`);
    const { names, tensor } = readGolden(name);
    t.true(names.every((one) => tensor(one).every(Number.isFinite)));
  });
}

/**
 * On every change, the reference kernels follow the two short trainings and give the gradients of
 * every first batch, and the native kernels follow each optimizer over one of the long ones. `npm
 * run test:all` follows all of them with both.
 */
const cases = [
  { devices: 1, kernels: () => createReference(), isReference: true },
  { devices: 2, kernels: () => openKernels("auto"), isReference: false },
];

for (const { devices, kernels, isReference } of cases) {
  for (const optimizer of features.optimizers) {
    const title = `${optimizer.name} on ${devices} device(s), ${kernels().arithmetic}`;
    const isLong = isReference && optimizer.kind !== "sgd";
    testIf(...(isLong ? [testAll] : []))(
      `training follows PyTorch with shared, unpooled and projected tables: ${title}`,
      async (t) => {
        const local = startGolden(features, optimizer, devices, kernels, sharedModel);
        await followCurve(t, local, features, optimizer);
      },
    );
  }

  for (const from of [golden, wukong, fullWukong]) {
    for (const optimizer of from.optimizers) {
      const arithmetic = kernels().arithmetic;
      const title = `${optimizer.name} on ${devices} device(s), ${arithmetic}`;
      const isOther = (from === golden) === (optimizer.kind === "adagrad");
      const isLong = from !== fullWukong && (isReference || isOther);
      testIf(...(isLong ? [testAll] : []))(
        `training follows PyTorch's curve and weights: ${from.name}, ${title}`,
        async (t) => {
          const local = startGolden(from, optimizer, devices, kernels);
          await followCurve(t, local, from, optimizer);
          const auc = await aucOf(local, from);
          const what = `AUC ${auc}, not ${optimizer.test_auc}`;
          t.true(Math.abs(auc - optimizer.test_auc) <= 1e-3, what);
        },
      );
    }
  }
}

// Rounding operands by up to 2^-9 shifts by some steps when a model finds the signal, so single
// losses of 64 samples diverge. The first steps, the mean over all steps and the final quality stay
// near. The rounding does not depend on the optimizer.
for (const optimizer of someOrAll(
  "optimizers of a golden in bfloat16",
  golden.optimizers.filter(({ kind }) => kind === "rowwise_adagrad"),
  golden.optimizers,
)) {
  test(`bfloat16 layers stay near PyTorch's float32 curve: ${optimizer.name}`, async (t) => {
    const local = startGolden(golden, optimizer, 1, () => openKernels("auto"), {
      precision: "bfloat16",
    });
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

for (const [from, model] of [
  [golden, {}],
  [features, sharedModel],
  [wukong, architectureOf(wukong)],
  [fullWukong, architectureOf(fullWukong)],
] as const) {
  test(`the first batch has PyTorch's logits and gradients: ${from.name}`, (t) => {
    return beginsLike(t, from, model);
  });
}

/** The AUC on the held-out batches. */
async function aucOf(local: LocalDevices, from: Golden): Promise<number> {
  const tests = batchesOf(from, "test", from.testBatches);
  const logits: number[] = [];
  for (const batch of tests) logits.push(...(await local.score(batch)));
  const labels = tests.flatMap((batch) => [...batch.labels]);
  return evaluate(Float32Array.from(logits), Float32Array.from(labels)).auc;
}
