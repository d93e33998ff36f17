// The gradients of DreamShard's networks, by central differences; and REINFORCE against the slope
// that it estimates, that of the expected reward of a small decision process.

import test from "ava";
import type { Kernels } from "../../../../src/kernels/contract/kernels.ts";
import { valuesOf } from "../../../../src/kernels/reference/memory.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { gradientError } from "../../../../test/helpers/batches/central-differences.ts";
import {
  exactKernels,
  plainCosts,
  sizedTables,
  someOf,
  worstError,
} from "../../../../test/helpers/policies.ts";
import { someOrAll } from "../../../../test/helpers/thinned.ts";
import { CostModel, CostTrainer, deviceCostNames } from "../../policies/cost-model.ts";
import type { PlayedEpisodes } from "../../policies/dreamshard/episodes.ts";
import { Policy } from "../../policies/dreamshard/policy.ts";
import { episodesOf } from "../../policies/dreamshard/train-dreamshard.ts";
import { policyFeatures, policyStandardOf, poolFeatures } from "../../policies/table-pool.ts";

test("the cost network's gradients are the slopes of its loss", (t) => {
  const kernels = exactKernels();
  const tables = sizedTables(5, 1);
  const features = kernels.tensor([5, policyFeatures]);
  kernels.write(features, poolFeatures(tables, policyStandardOf(tables)));
  const model = new CostModel(kernels, 1, deviceCostNames);
  const trainer = new CostTrainer(kernels, model, { features, plans: 2, devices: 2 });
  const measure = plainCosts(tables);
  const batch = [
    [[0, 1, 2], [4]],
    [[3], [0, 4]],
  ].map((placed) => ({ placed, costs: measure(placed) }));
  const names = model.parameters.named().map(({ name }) => name);
  t.true(names.length >= 16);
  const error = worstError(kernels, model.parameters, names, () => trainer.gradients(batch, 500));
  t.true(error < 1e-4, `${error}`);
});

/** Episodes of three tables on two devices with these actions, as if they had been played. */
function chosen(kernels: Kernels, choices: readonly (readonly number[])[], rewards: number[]) {
  const count = choices.length;
  const tables = sizedTables(3, 2);
  // Observations are a function of the state, so that equal states look the same.
  const seenAt = (episode: number, step: number) => {
    const before = (choices[episode] ?? []).slice(0, step);
    const state = before.reduce((code, own) => 2 * code + own, 1);
    const random = new RandomStream(3, 1, state);
    return Array.from({ length: 6 }, () => random.uniform());
  };
  const steps = [0, 1, 2];
  const played: PlayedEpisodes = {
    order: steps,
    placed: [],
    costs: Float32Array.from(rewards, (reward) => -reward),
    actions: Int32Array.from(steps.flatMap((step) => choices.map((own) => own[step] ?? 0))),
    hasRoom: new Uint8Array(3 * count * 2).fill(1),
    seen: Float32Array.from(
      steps.flatMap((step) => choices.flatMap((_, episode) => seenAt(episode, step))),
    ),
    isWhole: choices.map(() => true),
  };
  return episodesOf(kernels, played, { tables, standard: policyStandardOf(tables), devices: 2 });
}

const all = Array.from({ length: 8 }, (_, code) => [code & 1, (code >> 1) & 1, code >> 2]);

test("the policy's gradients are slopes of its loss, with entropy and full devices", (t) => {
  const kernels = exactKernels();
  const policy = new Policy(kernels, 4);
  const episodes = chosen(kernels, all.slice(0, 4), [3, 1, 4, 1]);
  // In the last step of one episode, the device that was not chosen has no room.
  const step = 2 * 4 + 1;
  episodes.hasRoom[2 * step + 1 - (episodes.actions[step] ?? 0)] = 0;
  const names = policy.parameters.named().map(({ name }) => name);
  const error = worstError(kernels, policy.parameters, names, () =>
    policy.gradients(episodes, 0.3),
  );
  t.true(error < 1e-4, `${error}`);
});

test("REINFORCE over all choices is the slope of the expected reward", (t) => {
  const kernels = exactKernels();
  const policy = new Policy(kernels, 5);
  const rewards = [3, 1, 4, 1, 5, 9, 2, 6];
  const single = all.map((choices) => {
    const one = chosen(kernels, [choices], [0]);
    return { ...one, advantages: one.advantages.map(() => 1) };
  });
  // With advantage 1, the loss of an episode is minus the logarithm of its probability.
  const odds = () => single.map((episode) => Math.exp(-policy.gradients(episode, 0)));
  const expected = () => odds().reduce((sum, own, i) => sum + own * (rewards[i] ?? 0), 0);
  t.true(Math.abs(odds().reduce((sum, own) => sum + own, 0) - 1) < 1e-9);

  const everything = chosen(kernels, all, rewards);
  const weights = odds().map((own, i) => own * (rewards[i] ?? 0) * all.length);
  const advantages = everything.advantages.map((_, i) => weights[i % all.length] ?? 0);
  const names = ["policy.device.0.weight", "policy.costs.0.bias", "policy.table.1.bias"];
  for (const name of someOrAll("weights of an expected reward", names.slice(0, 1), names)) {
    policy.gradients({ ...everything, advantages }, 0);
    const slope = [...valuesOf(someOf(kernels, policy.parameters.gradient(name)))];
    const at = someOf(kernels, policy.parameters.weight(name));
    const error = gradientError(
      at,
      slope.map((own) => -own),
      expected,
    );
    t.true(error < 1e-4, `${name}: ${error}`);
  }
});

test("at each step, a device has the tables of the steps before", (t) => {
  const kernels = exactKernels();
  const { places } = chosen(kernels, [[0, 1, 0]], [0]);
  // One row per step and device, one column per table.
  const rows = [
    [0, 0, 0],
    [0, 0, 0],
    [1, 0, 0],
    [0, 0, 0],
    [1, 0, 0],
    [0, 1, 0],
  ];
  t.deepEqual([...valuesOf(places)], rows.flat());
});

test("advantages are rewards minus their mean, and plans without room are worth less", (t) => {
  const kernels = exactKernels();
  const { advantages } = chosen(kernels, all.slice(0, 2), [1, 3]);
  t.true(Math.abs((advantages[0] ?? 0) + Math.SQRT1_2) < 1e-5);
  t.true(Math.abs((advantages[1] ?? 0) - Math.SQRT1_2) < 1e-5);
});
