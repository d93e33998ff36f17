// The next action of a generation, as a function of the run's position (T1 and T2 of the
// coordinator).

import test from "ava";
import {
  nextAction,
  type RunPosition,
  windowEnd,
} from "../../../../actors/run/control/next-action.ts";
import { restoredMetrics } from "../../../../actors/run/state/run-metrics.ts";
import { smallGenerationSpec } from "../../../helpers/clusters/actors.ts";

const cut = { step: 10, evaluate: true, checkpoint: true, isLast: false };

function positionOf(overrides: Partial<RunPosition> = {}): RunPosition {
  return {
    job: smallGenerationSpec().job,
    record: { isCheckpointRequested: false, cuts: undefined },
    schedule: { batchSize: 8, samples: 160, stepsPerEpoch: 20, begin: 0, steps: 20 },
    plan: undefined,
    indexedSteps: Number.MAX_SAFE_INTEGER,
    step: 4,
    ahead: 0,
    cut,
    metrics: restoredMetrics(undefined),
    latest: undefined,
    isCancelRequested: false,
    isCancelled: false,
    isScaleRequested: false,
    ...overrides,
  };
}

const evaluated = { ...restoredMetrics(undefined), evaluatedStep: 10 };
const saved = { ...evaluated, savedStep: 10 };

test("at a cut the run is evaluated, then saved, then goes beyond it", (t) => {
  t.is(nextAction(positionOf()), "run");
  t.is(nextAction(positionOf({ step: 10 })), "evaluate");
  t.is(nextAction(positionOf({ step: 10, metrics: evaluated })), "checkpoint");
  t.is(nextAction(positionOf({ step: 10, metrics: saved })), "pass");
  t.is(nextAction(positionOf({ step: 10, metrics: saved, cut: undefined })), "pass");
});

test("a cut without a checkpoint is saved if its evaluation is the best so far", (t) => {
  const own = { ...cut, checkpoint: false };
  t.is(nextAction(positionOf({ step: 10, cut: own, metrics: evaluated })), "pass");
  const best = { ...evaluated, isBest: true };
  t.is(nextAction(positionOf({ step: 10, cut: own, metrics: best })), "checkpoint");
});

test("a cancelled run saves its step before it ends", (t) => {
  t.is(nextAction(positionOf({ isCancelRequested: true })), "checkpoint");
  const metrics = { ...restoredMetrics(undefined), savedStep: 4 };
  t.is(nextAction(positionOf({ isCancelRequested: true, metrics })), "pass");
  const ended = { isCancelRequested: true, isCancelled: true, metrics, cut: undefined };
  t.is(nextAction(positionOf(ended)), "end");
});

test("a requested checkpoint is made once, if there are unsaved steps", (t) => {
  const record = { isCheckpointRequested: true, cuts: undefined };
  t.is(nextAction(positionOf({ record })), "checkpoint");
  const metrics = { ...restoredMetrics(undefined), savedStep: 4 };
  t.is(nextAction(positionOf({ record, metrics })), "run");
});

test("before a cut, trainers behind others catch up, whatever is requested", (t) => {
  const behind = { step: 4, ahead: 7, isCancelRequested: true };
  t.is(nextAction(positionOf(behind)), "run");
  t.is(windowEnd(positionOf(behind)), 7);
  t.is(nextAction(positionOf({ ...behind, step: 7 })), "checkpoint");
});

test("a generation that ends for a scaling saves only if it has unsaved steps", (t) => {
  t.is(nextAction(positionOf({ isScaleRequested: true })), "checkpoint");
  t.is(nextAction(positionOf({ isScaleRequested: true, latest: { cut: 4 } })), "pass");
  t.is(
    nextAction(positionOf({ isScaleRequested: true, latest: { cut: 4 }, cut: undefined })),
    "end",
  );
});

test("the end of the data and early stopping end the generation", (t) => {
  const metrics = { ...restoredMetrics(undefined), savedStep: 20, evaluatedStep: 20 };
  t.is(nextAction(positionOf({ step: 20, cut: undefined, metrics })), "end");
  const stopped = { ...saved, earlyStopping: { ...saved.earlyStopping, stopped: true } };
  t.is(nextAction(positionOf({ step: 10, cut: undefined, metrics: stopped })), "end");
});
