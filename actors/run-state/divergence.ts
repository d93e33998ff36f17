// Whether a model has diverged, or is overfitted: judged by its last evaluation and its training
// loss, or, where the run evaluates nothing, by its training loss alone. A pure function of the
// metrics in a cut, so that a run that is asked for again after its end warns as it did then.

import { type LossScale, usualScale } from "../../src/model/loss.ts";
import type { Metrics } from "../../src/training/loop/metrics.ts";
import type { Warning } from "../threads/generation-spec.ts";
import type { CutRecord } from "./run-result.ts";

/**
 * Highest normalized entropy of a model that has not diverged. Predicting the base rate for every
 * sample has 1; a model that fits its training samples too well, or a small held-out part, explains
 * somewhat more, but not half as much again. Where one class counts more, predictions are skewed.
 */
const normalizedEntropyMax = 1.5;

/**
 * Most that the MSE of a model may be of that of the mean label. A model that has learned too
 * little of the scale of its label may be above 1; so far above, it is of no use.
 */
const meanSquaresMax = 10;

/**
 * Training loss of a model that has diverged, as a multiple of the loss of a model that knows
 * nothing: before its first step, it predicts 0.5 for every sample.
 */
const trainLossMax = 1.5;

/**
 * A model is overfitted, and has not diverged, where it explains its training samples better than
 * the base rate does, and held-out ones so much worse than it once did.
 */
const pastBestMax = 1.1;

/**
 * A warning where the returned model has diverged, or is overfitted. `evaluation`: at its cut, if
 * there was one.
 * `scaleOf`: of the loss that it was trained on.
 */
export function divergenceWarnings(
  { history }: { readonly history: readonly CutRecord[] },
  evaluation: Metrics | undefined,
  scaleOf: () => LossScale = () => usualScale,
): Warning[] {
  const last = history.at(-1);
  const overfitted = evaluation && overfittedFigure(history, evaluation, scaleOf());
  if (overfitted !== undefined) return [overfittedWarning(overfitted)];
  const figure =
    evaluation === undefined
      ? lossFigure(last, scaleOf())
      : evaluationFigure(evaluation, scaleOf());
  if (figure === undefined) return [];
  const message =
    `The model has diverged: ${figure}. Lower \`optimizer.dense.learningRate\` and ` +
    "`optimizer.sparse.learningRate`, or take the logarithm of large dense features (`log: true`)";
  return [{ code: "MODEL_DIVERGED", message }];
}

function overfittedWarning(figure: string): Warning {
  const message =
    `The model is overfitted: ${figure}. It remembers its training samples: stop at the best ` +
    "evaluation (`evaluation.earlyStopping`, or `keepBest`), train fewer `data.epochs`, or lower " +
    "`optimizer.sparse.learningRate`";
  return { code: "MODEL_OVERFITTED", message };
}

/** What says that a model is overfitted; undefined: it is not, or its losses do not compare. */
function overfittedFigure(
  history: readonly CutRecord[],
  { logLoss, normalizedEntropy, mse, tasks, samples }: Metrics,
  scale: LossScale,
): string | undefined {
  const { trainLoss } = history.at(-1) ?? { trainLoss: Number.NaN };
  const isUsual = scale.skew === usualScale.skew && scale.ofNothing === usualScale.ofNothing;
  if (!isUsual || mse !== undefined || tasks !== undefined || samples === 0) return undefined;
  if (![trainLoss, logLoss, normalizedEntropy].every(isNumber)) return undefined;
  const base = logLoss / normalizedEntropy;
  const losses = history.flatMap(({ evaluation }) => evaluation?.logLoss ?? []).filter(isNumber);
  const best = Math.min(logLoss, ...losses);
  const isFar = normalizedEntropy > normalizedEntropyMax || logLoss > pastBestMax * best;
  if (!isFar || trainLoss >= Math.min(base, logLoss / pastBestMax)) return undefined;
  const once = best < logLoss ? `, once ${best.toPrecision(4)}` : "";
  return (
    `its log loss is ${trainLoss.toPrecision(4)} on the training samples, and ` +
    `${logLoss.toPrecision(4)} on the held-out ones${once}; predicting the base rate has ` +
    base.toPrecision(4)
  );
}

function evaluationFigure(
  { logLoss, normalizedEntropy, positives, samples, mse, r2 }: Metrics,
  { skew }: LossScale,
) {
  if (samples === 0) return undefined;
  if (mse !== undefined) return numberFigure(mse, r2 ?? Number.NaN);
  // JSON has no number for a loss that is not finite: a restored one is null.
  if (!isNumber(logLoss)) return "its log loss on the held-out samples is not a finite number";
  if (!isNumber(normalizedEntropy)) return undefined; // All held-out labels are alike.
  if (normalizedEntropy <= normalizedEntropyMax * skew) return undefined;
  const baseRate = (positives / samples).toPrecision(3);
  const base = (logLoss / normalizedEntropy).toPrecision(4);
  return (
    `its log loss on the held-out samples is ${logLoss.toPrecision(4)}, and predicting the base ` +
    `rate, ${baseRate}, for each of them has ${base}`
  );
}

/** The same of a label that is a number, of which the mean label is the base. */
function numberFigure(mse: number, r2: number): string | undefined {
  if (!isNumber(mse)) return "its MSE on the held-out samples is not a finite number";
  if (!isNumber(r2) || 1 - r2 <= meanSquaresMax) return undefined;
  const base = (mse / (1 - r2)).toPrecision(4);
  return (
    `its MSE on the held-out samples is ${mse.toPrecision(4)}, and predicting their mean label for ` +
    `each of them has ${base}`
  );
}

function lossFigure(last: CutRecord | undefined, { ofNothing }: LossScale): string | undefined {
  if (last === undefined) return undefined;
  if (!isNumber(last.trainLoss)) return "its training loss is not a finite number";
  if (last.trainLoss <= trainLossMax * ofNothing) return undefined;
  const [loss, nothing] = [last.trainLoss.toPrecision(4), ofNothing.toPrecision(4)];
  return `its training loss is ${loss}, and a model that knows nothing has ${nothing}`;
}

function isNumber(value: number | null): value is number {
  return value !== null && Number.isFinite(value);
}
