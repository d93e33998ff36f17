// Metrics of numeric labels, against scikit-learn's figures or values computed by hand.

import test from "ava";
import { evaluateScores } from "../../../src/training/loop/metrics.ts";
import { evaluateNumbers } from "../../../src/training/loop/number-metrics.ts";

const floats = (...values: number[]) => Float32Array.of(...values);

test("metrics equal those of scikit-learn's example", (t) => {
  // sklearn.metrics: mean_squared_error 0.375, mean_absolute_error 0.5, r2_score 0.9486…
  const found = evaluateNumbers(floats(2.5, 0, 2, 8), floats(3, -0.5, 2, 7));
  t.is(found.mse, 0.375);
  t.is(found.rmse, Math.sqrt(0.375));
  t.is(found.mae, 0.5);
  t.true(Math.abs(found.r2 - 0.9486081370449679) < 1e-15);
  t.is(found.calibration, 12.5 / 11.5);
});

test("R² is 1 for a perfect prediction, 0 for the mean label, and below 0 for worse", (t) => {
  const labels = floats(1, 2, 3, 6);
  t.like(evaluateNumbers(labels, labels), { mse: 0, rmse: 0, mae: 0, r2: 1, calibration: 1 });
  t.like(evaluateNumbers(floats(3, 3, 3, 3), labels), { r2: 0, mse: 3.5, calibration: 1 });
  t.true(evaluateNumbers(floats(6, 3, 2, 1), labels).r2 < 0);
});

test("large labels lose no precision: sums are in float64, around the mean", (t) => {
  const labels = Float32Array.from({ length: 1000 }, (_, i) => 1e6 + (i % 2));
  const found = evaluateNumbers(
    labels.map((label) => label + 0.5),
    labels,
  );
  t.like(found, { mse: 0.25, mae: 0.5, r2: 0 });
});

test("metrics of numeric labels that the samples do not define are NaN", (t) => {
  const none = evaluateNumbers(floats(), floats());
  t.deepEqual(Object.values(none), [Number.NaN, Number.NaN, Number.NaN, Number.NaN, Number.NaN]);
  t.is(evaluateNumbers(floats(1, 2), floats(3, 3)).r2, Number.NaN, "equal labels");
  t.is(evaluateNumbers(floats(1, 2), floats(-1, 1)).calibration, Number.NaN, "a mean of 0");
  t.is(evaluateNumbers(floats(Number.NaN, 2), floats(1, 2)).mse, Number.NaN);
  t.is(evaluateNumbers(floats(Number.POSITIVE_INFINITY, 2), floats(1, 2)).rmse, Infinity);
});

test("each task has the metrics of its label's kind, and thresholds are for classes alone", (t) => {
  const scores = { samples: 2, logits: floats(2, 7, -1, 3), labels: floats(1, 6, 0, 3) };
  const tasks = [
    { name: "click", isNumber: false },
    { name: "seconds", isNumber: true },
  ];
  const found = evaluateScores(scores, tasks, [0.5]);
  t.is(found.auc, 1);
  t.is(found.rmse, undefined);
  t.is(found.tasks?.click?.thresholds?.[0]?.recall, 1);
  t.like(found.tasks?.seconds, { samples: 2, positives: 0, mse: 0.5, mae: 0.5, auc: Number.NaN });
  t.is(found.tasks?.seconds?.thresholds, undefined);
  const turned = evaluateScores({ ...scores, labels: floats(6, 1, 3, 0) }, [...tasks].reverse());
  t.true(turned.rmse !== undefined, "the first task's metrics are also those of the model");
});
