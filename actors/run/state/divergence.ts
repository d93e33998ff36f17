// Whether a model has diverged or is overfitted: judged by its last evaluation and its training
// loss, or by its training loss alone where the run evaluates nothing. A pure function of the
// metrics in a cut, so that resubmitting a finished run returns the same warnings.

import { type LossScale, usualScale } from "../../../src/model/loss.ts";
import type { Metrics } from "../../../src/training/loop/metrics.ts";
import type { Warning } from "../../threads/generation-spec.ts";
import type { CutRecord } from "./run-result.ts";

/**
 * Highest normalized entropy of a model that has not diverged. Predicting the base rate for every
 * sample has 1; a model that fits its training samples too well, or a small held-out part, can
 * exceed 1 somewhat, but not by half. Where classes have weights, predictions are skewed, and the
 * limit is multiplied by the skew.
 */
const normalizedEntropyMax = 1.5;

/**
 * Highest MSE of a model that has not diverged, as a multiple of the MSE of predicting the mean
 * label. A model that has not yet learned the scale of its label may be above 1; beyond this limit
 * it is useless.
 */
const meanSquaresMax = 10;

/**
 * Training loss above which a model has diverged, as a multiple of the loss of an untrained model,
 * which predicts 0.5 for every sample.
 */
const trainLossMax = 1.5;

/**
 * Log loss of an overfitted model, as a multiple of its best log loss. It counts only where the
 * model explains its training samples better than the base rate does; otherwise it may have
 * diverged.
 */
const pastBestMax = 1.1;

/**
 * A warning where the returned model has diverged or is overfitted. `evaluation`: at the cut of the
 * model, if there was one. `scaleOf`: the scale of the loss that the model was trained on.
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

/** The figures that show overfitting; undefined: none do, or the losses are not comparable. */
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

/** `evaluationFigure` for regression: the base is the prediction of the mean label. */
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
