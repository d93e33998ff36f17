// Checks the metrics that a job names against the labels of its data, and the parts that its
// training data are split into.

import type { SplitSpec } from "../data/column-options.ts";
import { momentOf } from "../data/columnar/exact-values.ts";
import { namesColumns } from "../data/data-kinds.ts";
import type { ResolvedDataOptions } from "../data/options.ts";
import { areNumeric, labelsOf, targetsOf } from "../data/targets.ts";
import { expected } from "../ports/check-options.ts";
import {
  type ComparedMetric,
  comparedMetric,
  isOfNumbers,
  type Watched,
} from "../training/loop/best-evaluation.ts";

/** The options of an evaluation section that name metrics. */
interface NamedMetrics {
  readonly keepBest?: ComparedMetric | undefined;
  readonly earlyStopping?: Watched | undefined;
  readonly reduceOnPlateau?: Watched | undefined;
  readonly thresholds?: readonly number[] | undefined;
}

/** @throws InvalidOptionError where a metric does not exist for the labels of the data */
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

/** The options of an evaluation section that split the training data. */
interface NamedParts {
  readonly data?: unknown;
  readonly fraction: number;
  readonly split?: SplitSpec | undefined;
  readonly test?: { readonly data?: unknown; readonly fraction: number } | undefined;
}

/** @throws InvalidOptionError where the parts of the data contradict each other */
export function checkParts(
  { data: own, fraction, split, test }: NamedParts,
  data: ResolvedDataOptions,
) {
  const isTestSplit = test !== undefined && test.data === undefined;
  if (own !== undefined && split !== undefined) {
    const why = "left out beside `evaluation.data`: it splits the training data";
    throw expected("evaluation.split", why, split.kind);
  }
  if (own !== undefined && isTestSplit) {
    const why = "named where `evaluation.data` is: then nothing is held out of the training data";
    throw expected("evaluation.test.data", why, undefined);
  }
  if (isTestSplit && fraction + test.fraction >= 1) {
    const why = `less than ${1 - fraction}, as \`evaluation.fraction\` is ${fraction}`;
    throw expected("evaluation.test.fraction", why, test.fraction);
  }
  if (split === undefined || split.kind === "order") return;
  if (!namesColumns(data)) {
    const why = `"order" where \`data.kind\` is "${data.kind}", which has no columns to split by`;
    throw expected("evaluation.split.kind", why, split.kind);
  }
  if (labelsOf(data).includes(split.column)) {
    const why = "another column than the label, which would give each part one class";
    throw expected("evaluation.split.column", why, split.column);
  }
  if (split.kind === "time") checkBoundaries(split, isTestSplit);
}

/** @throws InvalidOptionError where a boundary is invalid or missing */
function checkBoundaries(
  { from, testFrom }: Extract<SplitSpec, { kind: "time" }>,
  isTestSplit: boolean,
): void {
  const [validation, test] = Object.entries({ from, testFrom }).map(([option, value]) => {
    const moment = value === undefined ? undefined : momentOf(String(value));
    if (value === undefined || moment !== undefined) return moment;
    const forms = "a number, or an ISO date: 2024-01-31, 2024-01-31T12:00:00Z";
    throw expected(`evaluation.split.${option}`, forms, value);
  });
  const isNamed = validation !== undefined;
  if (isTestSplit && isNamed !== (test !== undefined)) {
    const option = isNamed ? "testFrom" : "from";
    const other = isNamed ? "from" : "testFrom";
    const why = `named beside \`${other}\`: where one part begins, the other one must`;
    throw expected(`evaluation.split.${option}`, why, undefined);
  }
  if (!isTestSplit && test !== undefined) {
    const why = "left out where no `evaluation.test` is held out of the training data";
    throw expected("evaluation.split.testFrom", why, testFrom);
  }
  if (validation === undefined || test === undefined) return;
  if (validation.form === test.form && validation.value < test.value) return;
  throw expected("evaluation.split.testFrom", `later than \`from\`, ${from}`, testFrom);
}
