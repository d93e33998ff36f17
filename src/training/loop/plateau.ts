// Reduces the learning rates on a plateau: when a metric has not improved for some evaluations, as
// torch.optim.lr_scheduler.ReduceLROnPlateau does. The state is plain JSON and part of the cut, so
// that a restored run continues with the same rates.

import { z } from "zod";
import { comparedMetric, comparedTask, figureOf, gainOf, minDelta } from "./best-evaluation.ts";
import type { Metrics } from "./metrics.ts";

/** Options of the reduction on a plateau. */
export const plateauOptions = z.strictObject({
  metric: comparedMetric.describe(
    "With `evaluation.reduceOnPlateau`: metric, one of those of `evaluation.keepBest`; the learning rates are reduced when it no longer improves. Not allowed with FTRL.",
  ),
  task: comparedTask,
  factor: z
    .number()
    .gt(0)
    .lt(1)
    .default(0.1)
    .describe("Factor of all learning rates at each reduction."),
  patience: z
    .int()
    .min(1)
    .default(1)
    .describe("Consecutive evaluations without improvement before a reduction."),
  minDelta,
  least: z
    .number()
    .min(0)
    .lt(1)
    .default(1e-3)
    .describe("Smallest share of the learning rates that reductions leave."),
});

/** The complete options. */
export type Plateau = z.output<typeof plateauOptions>;

/** State of the reduction on a plateau, carried from cut to cut. */
export interface PlateauState {
  /** The best value so far; null before the first value that is a number. */
  readonly best: number | null;
  /** Evaluations in a row since the best, or since the last reduction. */
  readonly badEvaluations: number;
  /** Factor on all learning rates: the product of the reductions so far, at least `least`. */
  readonly share: number;
}

/** The state before the first evaluation. */
export const noPlateau: PlateauState = { best: null, badEvaluations: 0, share: 1 };

/** Returns the state after an evaluation. NaN is no improvement. */
export function watchPlateau(
  state: PlateauState,
  options: Plateau,
  metrics: Metrics,
): PlateauState {
  const value = figureOf(metrics, options);
  if (gainOf(options.metric, value, state.best) > options.minDelta) {
    return { ...state, best: value, badEvaluations: 0 };
  }
  const badEvaluations = state.badEvaluations + 1;
  if (badEvaluations < options.patience) return { ...state, badEvaluations };
  const share = Math.max(options.least, state.share * options.factor);
  return { ...state, badEvaluations: 0, share };
}
