// The choice of the best evaluation.

import test from "ava";
import { bestOf, isBetter } from "../../../src/training/loop/best-evaluation.ts";
import type { Metrics } from "../../../src/training/loop/metrics.ts";

const point = (step: number, figures: Partial<Metrics>) => {
  const evaluation = { auc: 0.5, logLoss: 0.7, normalizedEntropy: 1, ...figures } as Metrics;
  return { step, evaluation };
};

test("AUC is better when higher, a loss when lower, and any number is better than NaN", (t) => {
  t.true(isBetter("auc", 0.7, 0.6));
  t.false(isBetter("auc", 0.6, 0.6));
  t.true(isBetter("logLoss", 0.6, 0.7));
  t.false(isBetter("normalizedEntropy", 0.9, 0.8));
  t.true(isBetter("auc", 0.1, Number.NaN));
  t.true(isBetter("logLoss", 3, undefined));
  t.false(isBetter("auc", Number.NaN, undefined));
  t.false(isBetter("auc", JSON.parse("null"), undefined));
});

test("the best of several points by its metric is the first of equal ones", (t) => {
  const points = [
    { step: 1 },
    point(2, { auc: 0.6, logLoss: 0.5 }),
    point(4, { auc: 0.8, logLoss: 0.6 }),
    point(6, { auc: 0.8, logLoss: 0.5 }),
    { step: 7 },
  ];
  t.like(bestOf({ metric: "auc" }, points), { step: 4, metric: "auc" });
  t.like(bestOf({ metric: "logLoss" }, points), { step: 2, metric: "logLoss" });
  t.is(bestOf({ metric: "auc" }, [{ step: 1 }, point(2, { auc: Number.NaN })]), undefined);
});
