// The gradients of DreamShard's networks, by central differences; and REINFORCE against the slope
// that it estimates, that of the expected reward of a small decision process.

import test from "ava";
import type { Kernels } from "../../../../src/kernels/contract/kernels.ts";
import { valuesOf } from "../../../../src/kernels/reference/memory.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { gradientError } from "../../../../test/helpers/batches/central-differences.ts";
import {
  exactKernels,
  parameterOf,
  plainCosts,
  sizedTables,
  worstError,
} from "../../../../test/helpers/policies.ts";
import { someOrAll } from "../../../../test/helpers/thinned.ts";
import { CostModel, deviceCostNames } from "../../policies/cost-model.ts";
import { Policy } from "../../policies/dreamshard/policy.ts";
import { episodesOf } from "../../policies/dreamshard/train-dreamshard.ts";
import { policyStandardOf, poolFeatures } from "../../policies/table-pool.ts";

test("the cost network's gradients are the slopes of its loss", (t) => {
  const kernels = exactKernels();
  const tables = sizedTables(5, 1);
  const features = poolFeatures(kernels, tables, policyStandardOf(tables));
  const model = new CostModel(kernels, 1, deviceCostNames);
  const gradient = model.trainer({ features, plans: 2, devices: 2 });
  const measure = plainCosts(tables);
  const batch = [
    [[0, 1, 2], [4]],
    [[3], [0, 4]],
  ].map((placed) => ({ placed, costs: measure(placed) }));
  t.is(model.weights.layout.parameters.length, 16);
  const error = worstError(model.weights, () => gradient(batch, 500));
  t.true(error < 1e-4, `${error}`);
});

/** Episodes of three tables on two devices with these actions, as if they had been played. */
function chosen(choices: readonly (readonly number[])[], rewards: readonly number[]) {
  const count = choices.length;
  // Observations are a function of the state, so that equal states look the same.
  const seenAt = (episode: number, step: number) => {
    const before = (choices[episode] ?? []).slice(0, step);
    const state = before.reduce((code, own) => 2 * code + own, 1);
    const random = new RandomStream(3, 1, state);
    return Array.from({ length: 6 }, () => random.uniform());
  };
  const steps = [0, 1, 2];
  return episodesOf({
    // The first device has the whole cost, so that it is the slowest.
    costs: Float32Array.from(rewards.flatMap((reward) => [-reward, 0, 0, -10, 0, 0])),
    actions: Int32Array.from(steps.flatMap((step) => choices.map((own) => own[step] ?? 0))),
    hasRoom: new Uint8Array(3 * count * 2).fill(1),
    seen: steps.map((step) => Float32Array.from(choices.flatMap((_, i) => seenAt(i, step)))),
    isWhole: choices.map(() => true),
  });
}

/** The features of the three tables of `chosen`. */
function threeTables(kernels: Kernels) {
  const tables = sizedTables(3, 2);
  return poolFeatures(kernels, tables, policyStandardOf(tables));
}

const all = Array.from({ length: 8 }, (_, code) => [code & 1, (code >> 1) & 1, code >> 2]);

test("the policy's gradients are slopes of its loss, with entropy and full devices", (t) => {
  const kernels = exactKernels();
  const policy = new Policy(kernels, 4);
  const features = threeTables(kernels);
  const episodes = chosen(all.slice(0, 4), [3, 1, 4, 1]);
  // In the last step of one episode, the device that was not chosen has no room.
  const step = 2 * 4 + 1;
  episodes.hasRoom[2 * step + 1 - (episodes.actions[step] ?? 0)] = 0;
  const error = worstError(policy.weights, () => policy.gradient(features, episodes, 0.3));
  t.true(error < 1e-4, `${error}`);
});

test("REINFORCE over all choices is the slope of the expected reward", (t) => {
  const kernels = exactKernels();
  const policy = new Policy(kernels, 5);
  const features = threeTables(kernels);
  const rewards = [3, 1, 4, 1, 5, 9, 2, 6];
  const single = all.map((choices) => {
    const one = chosen([choices], [0]);
    return { ...one, advantages: one.advantages.map(() => 1) };
  });
  // With advantage 1, the loss of an episode is minus the logarithm of its probability.
  const odds = () => single.map((episode) => Math.exp(-policy.gradient(features, episode, 0)));
  const expected = () => odds().reduce((sum, own, i) => sum + own * (rewards[i] ?? 0), 0);
  t.true(Math.abs(odds().reduce((sum, own) => sum + own, 0) - 1) < 1e-9);

  const everything = chosen(all, rewards);
  const weights = odds().map((own, i) => own * (rewards[i] ?? 0) * all.length);
  const advantages = everything.advantages.map((_, i) => weights[i % all.length] ?? 0);
  const names = ["policy.device.0.weight", "policy.costs.0.bias", "policy.table.1.bias"];
  for (const name of someOrAll("weights of an expected reward", names.slice(0, 1), names)) {
    policy.gradient(features, { ...everything, advantages }, 0);
    const { weight, gradient } = parameterOf(policy.weights, name);
    const slope = [...valuesOf(gradient)].map((own) => -own);
    const error = gradientError(weight, slope, expected);
    t.true(error < 1e-4, `${name}: ${error}`);
  }
});

test("at each step, a device has the tables of the steps before", (t) => {
  const { places } = chosen([[0, 1, 0]], [0]);
  // One row per step and device, one column per table.
  const rows = [
    [0, 0, 0],
    [0, 0, 0],
    [1, 0, 0],
    [0, 0, 0],
    [1, 0, 0],
    [0, 1, 0],
  ];
  t.deepEqual([...places], rows.flat());
});

test("advantages are rewards minus their mean, and plans without room are worth less", (t) => {
  const { advantages } = chosen(all.slice(0, 2), [1, 3]);
  t.true(Math.abs((advantages[0] ?? 0) + Math.SQRT1_2) < 1e-5);
  t.true(Math.abs((advantages[1] ?? 0) - Math.SQRT1_2) < 1e-5);
});
