// Assertions on devices that repeat a golden training, with the tolerances of the goldens' README.

import type { ExecutionContext } from "ava";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import type { ModelOptions } from "../../../src/model/options.ts";
import type { Golden, GoldenOptimizer } from "../batches/golden.ts";
import { batchesOf, furthest, parameterNames, read, startGolden } from "./golden-devices.ts";
import type { LocalDevices } from "./local-devices.ts";

/** Asserts the logits and gradients of the first batch. `model`: `own` of `startGolden`. */
export async function beginsLike(
  t: ExecutionContext,
  from: Golden,
  model: Partial<ModelOptions>,
): Promise<void> {
  const sgd = from.optimizers.find((optimizer) => optimizer.kind === "sgd");
  const [batch] = batchesOf(from, "train", 1);
  if (sgd === undefined || batch === undefined) return t.fail("the golden has no sgd, or no batch");
  const local = startGolden(from, sgd, 1, () => createReference(), model);
  const logits = await local.score(batch);
  t.true(furthest(logits, from.tensor("step0/act/logits")) <= 1e-5);
  await local.train(batch, 0);
  for (const name of parameterNames(from)) {
    if (!from.names.includes(`step0/grad/${name}`)) continue; // A statistic: without a gradient.
    // w - lr*g: the update gives the gradient, within the rounding of w.
    const before = from.tensor(`init/${name}`);
    const gradient = read(local, name).map((after, i) => ((before[i] ?? 0) - after) / sgd.lr);
    const difference = furthest(gradient, from.tensor(`step0/grad/${name}`));
    t.true(difference <= 1e-6, `the gradient of ${name} is off by ${difference}`);
  }
}

/** Trains the whole golden; compares the loss of each step, and the final weights. */
export async function followCurve(
  t: ExecutionContext,
  local: LocalDevices,
  from: Golden,
  optimizer: GoldenOptimizer,
): Promise<void> {
  const expected = from.tensor(`${optimizer.name}/loss_f32`);
  const lossTolerance = Math.max(1e-5, 10 * optimizer.noise_loss_dev);
  for (const [step, batch] of batchesOf(from, "train", from.steps).entries()) {
    const loss = await local.train(batch, step);
    const difference = Math.abs(loss - (expected[step] ?? Number.NaN));
    if (!(difference <= lossTolerance)) t.fail(`step ${step}: the loss is off by ${difference}`);
  }
  const weightTolerance = Math.max(1e-4, 10 * optimizer.noise_weight_dev);
  for (const name of parameterNames(from)) {
    const difference = furthest(read(local, name), from.tensor(`${optimizer.name}/final/${name}`));
    t.true(difference <= weightTolerance, `${name} is off by ${difference}`);
  }
}
