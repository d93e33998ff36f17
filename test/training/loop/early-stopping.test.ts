// Early stopping: when a run ends, and which cut is the best.

import test from "ava";
import { checkOptions } from "../../../src/ports/check-options.ts";
import {
  type EarlyStoppingState,
  earlyStoppingOptions,
  initialEarlyStopping,
  observe,
} from "../../../src/training/loop/early-stopping.ts";

/** Observes values at cuts 10, 20, ...; returns the state and which values improved. */
function follow(
  options: object,
  values: number[],
  from: EarlyStoppingState = initialEarlyStopping,
) {
  const checked = checkOptions(earlyStoppingOptions, options);
  let state = from;
  const improved = values.map((value, index) => {
    const metrics = { samples: 1, positives: 1, calibration: 1 };
    const all = { ...metrics, auc: value, logLoss: value, normalizedEntropy: value };
    const seen = observe(state, checked, 10 * (index + 1), all);
    state = seen.state;
    return seen.improved;
  });
  return { state, improved };
}

test("stops after `patience` evaluations in a row without a higher AUC", (t) => {
  const { state, improved } = follow({ metric: "auc", patience: 2 }, [0.6, 0.7, 0.7, 0.69]);
  t.deepEqual(improved, [true, true, false, false]);
  t.deepEqual(state, { best: 0.7, bestCut: 20, badEvaluations: 2, stopped: true });
});

test("an improvement resets the count of evaluations", (t) => {
  const { state } = follow({ metric: "auc", patience: 2 }, [0.7, 0.6, 0.8, 0.7]);
  t.deepEqual(state, { best: 0.8, bestCut: 30, badEvaluations: 1, stopped: false });
});

test("losses are better when lower", (t) => {
  for (const metric of ["logLoss", "normalizedEntropy"]) {
    const { state, improved } = follow({ metric, patience: 1 }, [0.5, 0.4, 0.45]);
    t.deepEqual(improved, [true, true, false]);
    t.deepEqual(state, { best: 0.4, bestCut: 20, badEvaluations: 1, stopped: true });
  }
});

test("stops at the first evaluation that reaches the target, which is then the best", (t) => {
  const auc = { metric: "auc", target: 0.7, minDelta: 0.5 };
  const { state, improved } = follow(auc, [0.6, 0.69, 0.7, 0.9]);
  t.deepEqual(improved, [true, false, true, false]);
  t.deepEqual(state, { best: 0.7, bestCut: 30, badEvaluations: 0, stopped: true });
  t.false(follow(auc, [0.6, Number.NaN]).state.stopped);
  const loss = { metric: "logLoss", target: 0.4, patience: 2 };
  t.is(follow(loss, [0.5, 0.6, 0.39]).state.bestCut, 30);
  t.is(follow(loss, [0.5, 0.6, 0.6, 0.3]).state.bestCut, 10, "patience ends it first");
});

test("a gain of minDelta or less is no improvement", (t) => {
  const options = { metric: "auc", patience: 3, minDelta: 0.25 };
  t.deepEqual(follow(options, [0.25, 0.5, 0.75]).improved, [true, false, true]);
});

test("NaN is never the best, not even at the first evaluation", (t) => {
  const { state, improved } = follow({ metric: "auc", patience: 9 }, [Number.NaN, 0.5, Number.NaN]);
  t.deepEqual(improved, [false, true, false]);
  t.is(state.best, 0.5);
});

test("an infinite loss is never the best, as a state restored from JSON would not know it", (t) => {
  const losses = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  const { state, improved } = follow({ metric: "logLoss", patience: 2 }, losses);
  t.deepEqual(improved, [false, false]);
  t.deepEqual(state, { best: null, bestCut: null, badEvaluations: 2, stopped: true });
});

test("a stopped state stays stopped", (t) => {
  const { state } = follow({ metric: "auc", patience: 1 }, [0.5, 0.4, 0.9]);
  t.deepEqual(state, { best: 0.5, bestCut: 10, badEvaluations: 1, stopped: true });
});

test("a state restored from JSON continues the same way", (t) => {
  const options = { metric: "auc", patience: 3 };
  const values = [0.5, 0.4, 0.6, 0.55];
  const { state } = follow(options, values.slice(0, 2));
  const restored: EarlyStoppingState = JSON.parse(JSON.stringify(state));
  t.deepEqual(follow(options, values.slice(2), restored), follow(options, values.slice(2), state));
});

test("invalid options are refused in one form, and minDelta defaults to 0", (t) => {
  t.is(checkOptions(earlyStoppingOptions, { metric: "auc", patience: 1 }).minDelta, 0);
  t.throws(() => checkOptions(earlyStoppingOptions, { metric: "auc", patience: 0 }), {
    message: "Expected `patience` to be a number >= 1, got `0` (number)",
  });
  t.throws(() => checkOptions(earlyStoppingOptions, { metric: "loss", patience: 1 }), {
    message: /Expected `metric` to be one of "auc"/,
  });
});
