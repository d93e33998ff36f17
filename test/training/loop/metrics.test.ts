// Metrics, against their definitions and worked examples.

import test from "ava";
import { groupOf } from "../../../src/data/targets.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { evaluate, evaluateScores } from "../../../src/training/loop/metrics.ts";

const floats = (...values: number[]) => Float32Array.from(values);

/** The AUC by definition: over all pairs of samples. */
function aucByPairs(logits: Float32Array, labels: Float32Array): number {
  let [wins, pairs] = [0, 0];
  logits.forEach((a, i) => {
    logits.forEach((b, j) => {
      if (labels[i] !== 1 || labels[j] !== 0) return;
      pairs++;
      wins += a > b ? 1 : a === b ? 0.5 : 0;
    });
  });
  return wins / pairs;
}

test("AUC equals that over all pairs, with ties, both zeros and infinities", (t) => {
  for (let seed = 1; seed <= 30; seed++) {
    const random = new RandomStream(seed, 99);
    const pool = [0, -0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e-45, -1e-45];
    const samples = 2 + random.below(200);
    const logits = new Float32Array(samples).map(() => {
      const kind = random.below(3);
      if (kind === 0) return pool[random.below(pool.length)] ?? 0;
      return kind === 1 ? random.below(5) - 2 : random.normal();
    });
    const labels = new Float32Array(samples).map(() => random.below(2));
    labels.set([0, 1]);
    t.is(evaluate(logits, labels).auc, aucByPairs(logits, labels));
  }
});

test("GAUC is the mean AUC of groups with both classes, weighted by their samples", (t) => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = new RandomStream(seed, 98);
    const samples = 2 + random.below(300);
    const users = Array.from({ length: samples }, () => `user ${random.below(40)}`);
    const logits = new Float32Array(samples).map(() => random.below(8) - 4);
    const labels = new Float32Array(samples).map(() => random.below(2));
    const groups = new Float32Array(2 * samples);
    for (const [i, user] of users.entries()) {
      const [one, other] = groupOf(user);
      groups[i] = one;
      groups[samples + i] = other;
    }
    let [sum, count] = [0, 0];
    for (const user of new Set(users)) {
      const isOwn = (_: number, i: number) => users[i] === user;
      const own = labels.filter(isOwn);
      if (own.every((label) => label === own[0])) continue;
      sum += own.length * aucByPairs(logits.filter(isOwn), own);
      count += own.length;
    }
    const { gauc = Number.NaN, auc } = evaluateScores({ samples, logits, labels, groups });
    if (count === 0) t.is(gauc, Number.NaN);
    else t.true(Math.abs(gauc - sum / count) < 1e-12, `seed ${seed}: ${gauc}, ${sum / count}`);
    t.is(auc, evaluate(logits, labels).auc, "the grouped AUC leaves the AUC as it is");
  }
  t.false("gauc" in evaluateScores({ samples: 0, logits: floats(), labels: floats() }));
});

test("groups of one class only have no GAUC", (t) => {
  const groups = floats(1, 1, 2, 2, 0, 0, 0, 0);
  const found = evaluateScores({
    samples: 4,
    logits: floats(1, 2, 3, 4),
    labels: floats(0, 0, 1, 1),
    groups,
  });
  t.is(found.gauc, Number.NaN);
});

test("perfect, reversed and constant rankings have AUC 1, 0 and one half", (t) => {
  const labels = floats(0, 0, 1, 1);
  t.is(evaluate(floats(-2, -1, 1, 2), labels).auc, 1);
  t.is(evaluate(floats(2, 1, -1, -2), labels).auc, 0);
  t.is(evaluate(floats(3, 3, 3, 3), labels).auc, 0.5);
  // The worked example of scikit-learn's documentation of roc_auc_score.
  t.is(evaluate(floats(0.1, 0.4, 0.35, 0.8), labels).auc, 0.75);
});

test("log loss, normalized entropy and calibration equal values computed by hand", (t) => {
  const odds = (probability: number) => Math.log(probability / (1 - probability));
  const logits = Float64Array.from([0.25, 0.5, 0.75, 0.5], odds);
  const found = evaluate(Float32Array.from(logits), floats(0, 0, 1, 0));
  const logLoss = -(Math.log(0.75) + Math.log(0.5) + Math.log(0.75) + Math.log(0.5)) / 4;
  const entropy = -(0.25 * Math.log(0.25) + 0.75 * Math.log(0.75));
  t.is(found.samples, 4);
  t.is(found.positives, 1);
  t.true(Math.abs(found.logLoss - logLoss) < 1e-7);
  t.true(Math.abs(found.normalizedEntropy - logLoss / entropy) < 1e-7);
  t.true(Math.abs(found.calibration - 2) < 1e-7);
});

test("precision, recall and F1 equal values computed by hand, at each threshold", (t) => {
  // At 0.5, four samples count as positive, including one with a probability of one half; two of
  // these are true positives, and a third positive is missed.
  const logits = floats(2, 0, 1, -3, 0.5, -1);
  const labels = floats(0, 1, 1, 1, 0, 0);
  const found = evaluateScores(
    { samples: 6, logits, labels },
    labelled("y"),
    [0.5, 0.9, 0.01],
  ).thresholds;
  t.deepEqual(found, [
    { threshold: 0.5, precision: 2 / 4, recall: 2 / 3, f1: 4 / 7 },
    { threshold: 0.9, precision: Number.NaN, recall: 0, f1: 0 },
    { threshold: 0.01, precision: 3 / 6, recall: 1, f1: 2 / 3 },
  ]);
  t.false("thresholds" in evaluateScores({ samples: 6, logits, labels }));
  const none = evaluateScores(
    { samples: 1, logits: floats(-1), labels: floats(0) },
    labelled("y"),
    [0.5],
  );
  t.deepEqual(none.thresholds, [
    { threshold: 0.5, precision: Number.NaN, recall: Number.NaN, f1: Number.NaN },
  ]);
});

test("a model that predicts the base rate has normalized entropy 1 and calibration 1", (t) => {
  const labels = new Float32Array(1000).map((_, index) => (index % 8 === 0 ? 1 : 0));
  const found = evaluate(new Float32Array(1000).fill(Math.log(1 / 7)), labels);
  t.true(Math.abs(found.normalizedEntropy - 1) < 1e-6);
  t.true(Math.abs(found.calibration - 1) < 1e-6);
});

test("large logits neither overflow nor round their loss away", (t) => {
  t.is(evaluate(floats(1000, -1000), floats(1, 0)).logLoss, 0);
  t.is(evaluate(floats(1000, -1000), floats(0, 1)).logLoss, 1000);
  const infinite = floats(Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY);
  t.is(evaluate(infinite, floats(1, 0)).logLoss, 0);
  t.is(evaluate(infinite, floats(0, 1)).logLoss, Number.POSITIVE_INFINITY);
  t.is(evaluate(infinite, floats(1, 0)).calibration, 1);
});

test("metrics that the samples do not define are NaN", (t) => {
  const none = evaluate(floats(), floats());
  t.deepEqual(none, {
    samples: 0,
    positives: 0,
    logLoss: Number.NaN,
    auc: Number.NaN,
    normalizedEntropy: Number.NaN,
    calibration: Number.NaN,
  });
  const negatives = evaluate(floats(0, 1), floats(0, 0));
  t.true(negatives.logLoss > 0);
  t.deepEqual(
    [negatives.auc, negatives.normalizedEntropy, negatives.calibration],
    [Number.NaN, Number.NaN, Number.NaN],
  );
  const positives = evaluate(floats(0, 0), floats(1, 1));
  t.is(positives.auc, Number.NaN);
  t.is(positives.calibration, 0.5);
  const broken = evaluate(floats(Number.NaN, 1), floats(0, 1));
  t.deepEqual([broken.auc, broken.logLoss], [Number.NaN, Number.NaN]);
});

test("labels other than 0 and 1, and lists of unequal length, are refused", (t) => {
  t.throws(() => evaluate(floats(1), floats(0.5)), { message: /label 0 is 0 or 1, not 0.5/ });
  t.throws(() => evaluate(floats(1, 2), floats(1)), { message: /one label/ });
});

test("evaluation does not modify its arguments", (t) => {
  const [logits, labels] = [floats(3, 1, 2), floats(1, 0, 1)];
  evaluate(logits, labels);
  t.deepEqual([logits, labels], [floats(3, 1, 2), floats(1, 0, 1)]);
});

function labelled(name: string) {
  return [{ name, isNumber: false }];
}
