// Warnings of a run's result: about its data, its evaluation and its model.

import type { LossScale } from "../../../src/model/loss.ts";
import type { Metrics, TaskMetrics } from "../../../src/training/loop/metrics.ts";
import type { Warning } from "../../threads/generation-spec.ts";
import { divergenceWarnings } from "./divergence.ts";
import type { CutRecord } from "./run-result.ts";

/**
 * All warnings of a result. `evaluation`: at the cut of the returned model, if there was one.
 * `scaleOf`: as in `divergenceWarnings`.
 */
export function warningsOf(
  ofData: readonly Warning[],
  metrics: { readonly history: readonly CutRecord[] },
  evaluation: Metrics | undefined,
  scaleOf?: () => LossScale,
): Warning[] {
  return [
    ...ofData,
    ...classWarnings(ofData, evaluation),
    ...finiteWarnings("evaluation", evaluation),
    ...divergenceWarnings(metrics, evaluation, scaleOf),
  ];
}

const oneClass = "EVALUATION_OF_ONE_CLASS";

/**
 * A warning where all held-out samples have one class, unless preparation has already warned:
 * preparation does not check a held-out part that shares the data cache of the training part.
 */
function classWarnings(ofData: readonly Warning[], evaluation: Metrics | undefined): Warning[] {
  if (evaluation === undefined || ofData.some(({ code }) => code === oneClass)) return [];
  const { samples, positives, rmse } = evaluation;
  if (rmse !== undefined || samples === 0 || (positives > 0 && positives < samples)) return [];
  const message =
    `There is no AUC and no normalized entropy: all ${samples} held-out samples have the label ` +
    `${positives === 0 ? 0 : 1}; hold out more samples, or name \`evaluation.data\``;
  return [{ code: oneClass, message }];
}

/**
 * A warning where some predictions of a part are not finite, so that its metrics are not either.
 */
export function finiteWarnings(
  part: "evaluation" | "test",
  metrics: Metrics | undefined,
): Warning[] {
  if (metrics === undefined) return [];
  const all = Object.entries(metrics.tasks ?? { "": metrics });
  const hasLoss = ({ rmse, logLoss }: TaskMetrics) => Number.isFinite(rmse ?? logLoss);
  const tasks = all.filter(([, own]) => own.samples > 0 && !hasLoss(own)).map(([name]) => name);
  if (tasks.length === 0) return [];
  const named = tasks[0] === "" ? "" : ` of ${tasks.map((name) => `\`${name}\``).join(", ")}`;
  const message =
    `There is no loss of the ${part}: some predictions${named} are not finite numbers; values of ` +
    "dense features may be near the limit of float32; `osiris predict` names the first row";
  return [{ code: `${part.toUpperCase()}_NOT_FINITE`, message }];
}

/** `warningsOf` for the test part. */
export function testWarnings(test: Metrics | undefined): Warning[] {
  return [...testClassWarnings(test), ...finiteWarnings("test", test)];
}

function testClassWarnings(test: Metrics | undefined): Warning[] {
  if (test === undefined) return [];
  const { samples, positives, rmse } = test;
  if (rmse !== undefined || samples === 0 || (positives > 0 && positives < samples)) return [];
  const message =
    `The test has no AUC and no normalized entropy: all ${samples} samples of it have the label ` +
    `${positives === 0 ? 0 : 1}; keep more samples for it, or name \`evaluation.test.data\``;
  return [{ code: "TEST_OF_ONE_CLASS", message }];
}
