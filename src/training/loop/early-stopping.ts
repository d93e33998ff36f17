// Early stopping: a run ends when its metric reaches the target, or has not improved for `patience`
// evaluations. The state is plain JSON and part of the cut, so that a restored run stops at the
// same step as a run without failures.

import { z } from "zod";
import {
  comparedMetric,
  comparedTask,
  figureOf,
  gainOf,
  isHigherBetter,
  minDelta,
} from "./best-evaluation.ts";
import type { Metrics } from "./metrics.ts";

/** Options of early stopping. */
export const earlyStoppingOptions = z.strictObject({
  metric: comparedMetric.describe(
    "The metric that must improve. AUC, GAUC and R² improve when they rise, all others when they fall.",
  ),
  task: comparedTask,
  patience: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe(
      "Consecutive evaluations without improvement after which the run stops. May be left out only with `target`; then the run does not stop for lack of improvement.",
    ),
  target: z
    .number()
    .optional()
    .describe(
      "The run stops at the first evaluation whose metric is at least as good as this: at the same step on any devices and after any failure.",
    ),
  minDelta,
});

/** The complete options. */
export type EarlyStopping = z.output<typeof earlyStoppingOptions>;

/** State of early stopping, carried from cut to cut. */
export interface EarlyStoppingState {
  /** The best value so far; null before the first value that is a number. */
  readonly best: number | null;
  readonly bestCut: number | null;
  /** Evaluations in a row since the best. */
  readonly badEvaluations: number;
  readonly stopped: boolean;
}

/** The state before the first evaluation. */
export const initialEarlyStopping: EarlyStoppingState = {
  best: null,
  bestCut: null,
  badEvaluations: 0,
  stopped: false,
};

/**
 * Returns the state after the evaluation at `cut`, and whether this evaluation is the best so far.
 * NaN is no improvement. A run that has stopped stays stopped.
 */
export function observe(
  state: EarlyStoppingState,
  options: EarlyStopping,
  cut: number,
  metrics: Metrics,
): { readonly state: EarlyStoppingState; readonly improved: boolean } {
  if (state.stopped) return { state, improved: false };
  const value = figureOf(metrics, options);
  const gain = gainOf(options.metric, value, state.best);
  const stopped = isReached(options, value); // Then it is the best, whatever `minDelta`.
  if (stopped || gain > options.minDelta) {
    return { state: { best: value, bestCut: cut, badEvaluations: 0, stopped }, improved: true };
  }
  const badEvaluations = state.badEvaluations + 1;
  const isSpent = badEvaluations >= (options.patience ?? Number.POSITIVE_INFINITY);
  return { state: { ...state, badEvaluations, stopped: isSpent }, improved: false };
}

function isReached({ metric, target }: EarlyStopping, value: number): boolean {
  if (target === undefined) return false;
  return isHigherBetter(metric) ? value >= target : value <= target;
}
