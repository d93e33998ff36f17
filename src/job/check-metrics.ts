// The metrics that a job names, beside the labels whose figures they are.

import type { ResolvedDataOptions } from "../data/options.ts";
import { areNumeric, labelsOf, targetsOf } from "../data/targets.ts";
import { expected } from "../ports/check-options.ts";
import {
  type ComparedMetric,
  comparedMetric,
  isOfNumbers,
  type Watched,
} from "../training/loop/best-evaluation.ts";

/** What an evaluation section names of metrics. */
interface NamedMetrics {
  readonly keepBest?: ComparedMetric | undefined;
  readonly earlyStopping?: Watched | undefined;
  readonly reduceOnPlateau?: Watched | undefined;
  readonly thresholds?: readonly number[] | undefined;
}

/** @throws InvalidOptionError where a metric is named that evaluations do not have */
export function checkMetrics(
  { keepBest, earlyStopping, reduceOnPlateau, thresholds }: NamedMetrics,
  data: ResolvedDataOptions,
): void {
  const numeric = areNumeric(data);
  if (thresholds !== undefined && !numeric.includes(false)) {
    const why = "left out where each label is a number, which has no probability";
    throw expected("evaluation.thresholds", why, thresholds);
  }
  if (keepBest !== undefined) checkMetric("evaluation.keepBest", { metric: keepBest }, data);
  for (const [option, watched] of Object.entries({ earlyStopping, reduceOnPlateau })) {
    if (watched === undefined) continue;
    checkTask(`evaluation.${option}.task`, watched, data);
    checkMetric(`evaluation.${option}.metric`, watched, data);
  }
}

function checkTask(option: string, { task }: Watched, data: ResolvedDataOptions): void {
  const labels = labelsOf(data);
  if (task === undefined || labels.includes(task)) return;
  const named = labels.map((label) => `\`${label}\``).join(", ");
  throw expected(option, `one of the tasks, ${named}`, task);
}

function checkMetric(option: string, { metric, task }: Watched, data: ResolvedDataOptions): void {
  const labels = labelsOf(data);
  const place = task === undefined ? 0 : labels.indexOf(task);
  const isNumber = areNumeric(data)[place] === true;
  if (isOfNumbers(metric) !== isNumber) {
    const fitting = comparedMetric.options.filter((one) => isOfNumbers(one) === isNumber);
    const names = fitting.map((one) => `"${one}"`).join(", ");
    const label = `\`${labels[place]}\` is a ${isNumber ? "number" : "class"}`;
    throw expected(option, `one of ${names}, as the label ${label}`, metric);
  }
  if (metric !== "gauc" || targetsOf(data).hasGroups) return;
  const groups = data.kind === "synthetic" ? "data.groups" : "data.group";
  const why = `another metric, as GAUC needs groups, which \`${groups}\` names`;
  throw expected(option, why, metric);
}
