// A diverged or overfitted model causes a warning; a model that merely learned little does not.

import test from "ava";
import { divergenceWarnings } from "../../../../actors/run/state/divergence.ts";
import { finiteWarnings, testWarnings, warningsOf } from "../../../../actors/run/state/warnings.ts";
import { evaluate, evaluateScores, type Metrics } from "../../../../src/training/loop/metrics.ts";

const labels = Float32Array.from({ length: 100 }, (_, i) => (i % 4 === 0 ? 1 : 0));
const metricsOf = (logit: (i: number) => number): Metrics =>
  evaluate(
    labels.map((_, i) => logit(i)),
    labels,
  );
const restored = (metrics: Metrics): Metrics => JSON.parse(JSON.stringify(metrics));
const pointOf = (trainLoss: number) => ({ history: [{ step: 7, trainLoss }] });

test("a log loss far above that of the base rate causes a warning with both figures", (t) => {
  const [warning, ...others] = divergenceWarnings(
    pointOf(0.6),
    metricsOf((i) => (i % 2 === 0 ? 6e5 : -6e5)),
  );
  t.deepEqual(others, []);
  t.is(warning?.code, "MODEL_DIVERGED");
  t.regex(
    warning?.message ?? "",
    /^The model has diverged: its log loss on the held-out samples is 1\.500e\+5, and predicting the base rate, 0\.250, for each of them has 0\.5623\. Lower `optimizer/,
  );
});

test("a model that fits training samples well and held-out ones badly is overfitted", (t) => {
  const held = metricsOf((i) => (i % 2 === 0 ? 6 : -6));
  t.true(held.normalizedEntropy > 1.5);
  const [warning, ...others] = divergenceWarnings(pointOf(0.076), held);
  t.deepEqual(others, []);
  t.is(warning?.code, "MODEL_OVERFITTED");
  t.regex(
    warning?.message ?? "",
    /^The model is overfitted: its log loss is 0\.07600 on the training samples, and 1\.502 on the held-out ones; predicting the base rate has 0\.5623\. .*earlyStopping/,
  );
  t.is(divergenceWarnings(pointOf(0.6), held)[0]?.code, "MODEL_DIVERGED", "above the base rate");
});

test("a model past its best evaluation causes an overfitting warning, the best one does not", (t) => {
  const best = metricsOf((i) => (i % 4 === 0 ? 0 : -2));
  const past = metricsOf((i) => (i % 4 === 0 ? -1.2 : -1.2));
  t.true(past.logLoss > 1.1 * best.logLoss && past.normalizedEntropy < 1.5);
  const points = (trainLoss: number) => ({
    history: [
      { step: 7, trainLoss: 0.4, evaluation: best },
      { step: 14, trainLoss, evaluation: past },
    ],
  });
  t.regex(divergenceWarnings(points(0.2), past)[0]?.message ?? "", /held-out ones, once 0\.2685;/);
  t.deepEqual(divergenceWarnings(points(0.2), best), []);
  t.deepEqual(divergenceWarnings(points(0.55), past), [], "the training loss has not fallen");
});

test("a log loss that is not finite counts as divergence, even after a round trip through JSON", (t) => {
  const metrics = metricsOf(() => Number.NaN);
  for (const evaluation of [metrics, restored(metrics)]) {
    const [warning] = divergenceWarnings(pointOf(0.6), evaluation);
    t.regex(warning?.message ?? "", /held-out samples is not a finite number/);
  }
});

test("in regression, an MSE far above that of the mean label causes a warning with both figures", (t) => {
  const tasks = [{ name: "stars", isNumber: true }];
  const numbers = Float32Array.from({ length: 100 }, (_, i) => i % 4);
  const found = (prediction: (i: number) => number) =>
    evaluateScores(
      { samples: 100, logits: numbers.map((_, i) => prediction(i)), labels: numbers },
      tasks,
    );
  const [warning] = divergenceWarnings(
    pointOf(0.6),
    found(() => 100),
  );
  t.regex(
    warning?.message ?? "",
    /^The model has diverged: its MSE on the held-out samples is 9704, and predicting their mean label for each of them has 1\.250\. /,
  );
  for (const evaluation of [found(() => Number.NaN), restored(found(() => Number.NaN))]) {
    const [none] = divergenceWarnings(pointOf(0.6), evaluation);
    t.regex(none?.message ?? "", /its MSE on the held-out samples is not a finite number/);
  }
  for (const evaluation of [found(() => 0), restored(found((i) => i % 4))]) {
    t.deepEqual(warningsOf([], pointOf(0.6), evaluation), [], "little, or everything, is learned");
  }
});

test("a model that predicts the base rate has not diverged", (t) => {
  const base = Math.log(1 / 3);
  t.deepEqual(
    divergenceWarnings(
      pointOf(0.6),
      metricsOf(() => base),
    ),
    [],
  );
  t.deepEqual(
    divergenceWarnings(
      pointOf(0.6),
      metricsOf((i) => base + (i % 2) / 2),
    ),
    [],
  );
});

test("held-out labels of one class cause no divergence warning", (t) => {
  const ones = new Float32Array(10).fill(1);
  const evaluation = evaluate(new Float32Array(10), ones);
  t.deepEqual(divergenceWarnings(pointOf(0.6), restored(evaluation)), []);
});

test("without an evaluation the training loss shows the divergence", (t) => {
  t.deepEqual(divergenceWarnings({ history: [] }, undefined), []);
  t.deepEqual(divergenceWarnings(pointOf(Math.LN2), undefined), []);
  const [warning] = divergenceWarnings(pointOf(1234.5), undefined);
  t.regex(warning?.message ?? "", /its training loss is 1235, and a model that knows nothing has/);
  t.is(divergenceWarnings(pointOf(Number.NaN), undefined).length, 1);
  // If positive samples have weight ten, a constant model has up to ten times the loss.
  t.deepEqual(
    divergenceWarnings(pointOf(6), undefined, () => ({ ofNothing: 10 * Math.LN2, skew: 10 })),
    [],
  );
});

test("held-out data of one class cause a warning, unless the preparation has warned already", (t) => {
  const ones = evaluate(new Float32Array(9), new Float32Array(9).fill(1));
  const found = warningsOf([], pointOf(0.6), ones);
  t.deepEqual(
    found.map(({ code }) => code),
    ["EVALUATION_OF_ONE_CLASS"],
  );
  t.regex(found[0]?.message ?? "", /all 9 held-out samples have the label 1; hold out more/);
  t.deepEqual(warningsOf(found, pointOf(0.6), ones), found);
  t.deepEqual(
    warningsOf(
      [],
      pointOf(0.6),
      metricsOf(() => -1),
    ),
    [],
  );
  t.deepEqual(warningsOf([], pointOf(0.6), undefined), []);
});

test("an evaluation with a prediction that is not finite causes a warning that names its task", (t) => {
  const plain = evaluate(Float32Array.of(0, 1), Float32Array.of(0, 1));
  const broken = evaluate(Float32Array.of(0, Number.NaN), Float32Array.of(0, 1));
  t.deepEqual(finiteWarnings("test", plain), []);
  t.deepEqual(finiteWarnings("test", undefined), []);
  t.is(testWarnings(broken)[0]?.code, "TEST_NOT_FINITE");
  const tasks = { click: plain, buy: broken };
  const [warning] = finiteWarnings("evaluation", { ...plain, tasks });
  t.is(warning?.code, "EVALUATION_NOT_FINITE");
  t.regex(
    warning?.message ?? "",
    /^There is no loss of the evaluation: some predictions of `buy` are not finite numbers/,
  );
  // Regression has no log loss: its RMSE decides.
  const numbers = { ...plain, logLoss: Number.NaN };
  t.deepEqual(finiteWarnings("test", { ...numbers, rmse: 0.5 }), []);
  t.is(finiteWarnings("test", { ...numbers, rmse: Number.POSITIVE_INFINITY }).length, 1);
});
