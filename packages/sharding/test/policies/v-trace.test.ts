// V-trace against a case computed by hand, against its definition as a sum, and against plain
// returns where nothing is corrected.

import test from "ava";
import { RandomStream } from "../../../../src/ports/random.ts";
import { vTrace } from "../../policies/autoshard/train-autoshard.ts";

test("V-trace of two steps equals values computed by hand", (t) => {
  // The second step: delta 0.5 (2 + 0 - 1) = 0.5, v = 1.5. The first step: its ratio is clipped to
  // 1, delta 1 (0 + 1 - 3) = -2, v = 3 - 2 + 1 (1.5 - 1) = 1.5.
  const { values, advantages } = vTrace({
    values: [3, 1],
    rewards: [0, 2],
    ratios: [4, 0.5],
    last: 0,
  });
  t.deepEqual([...values], [1.5, 1.5]);
  // The advantages: 1 (0 + 1.5 - 3), and 0.5 (2 + 0 - 1).
  t.deepEqual([...advantages], [-1.5, 0.5]);
});

/**
 * Targets by definition: V + the sum over later steps of the products of ratios times their deltas.
 */
function plainTargets(values: number[], rewards: number[], ratios: number[], last: number) {
  const valueAt = (step: number) => values[step] ?? last;
  const cut = (step: number) => Math.min(1, ratios[step] ?? 0);
  const deltaAt = (step: number) => {
    return cut(step) * ((rewards[step] ?? 0) + valueAt(step + 1) - valueAt(step));
  };
  return values.map((value, first) => {
    let sum = value;
    for (let step = first; step < values.length; step++) {
      let product = 1;
      for (let i = first; i < step; i++) product *= cut(i);
      sum += product * deltaAt(step);
    }
    return sum;
  });
}

test("V-trace targets equal their definition", (t) => {
  const random = new RandomStream(7, 1);
  for (let trial = 0; trial < 50; trial++) {
    const drawn = (most: number) => Array.from({ length: 9 }, () => most * random.uniform());
    const [values, rewards, ratios] = [drawn(2), drawn(1), drawn(2)];
    const last = random.uniform();
    const found = vTrace({ values, rewards, ratios, last });
    const plain = plainTargets(values, rewards, ratios, last);
    for (const [step, target] of plain.entries()) {
      t.true(Math.abs((found.values[step] ?? 0) - target) < 1e-12);
      const next = plain[step + 1] ?? last;
      const advantage =
        Math.min(1, ratios[step] ?? 0) * ((rewards[step] ?? 0) + next - (values[step] ?? 0));
      t.true(Math.abs((found.advantages[step] ?? 0) - advantage) < 1e-12);
    }
  }
});

test("on-policy, V-trace targets are the sums of future rewards", (t) => {
  const rewards = [1, 0, 2, 4];
  const { values } = vTrace({ values: [9, 8, 7, 6], rewards, ratios: [1, 1, 1, 1], last: 10 });
  t.deepEqual([...values], [17, 16, 16, 14]);
});
