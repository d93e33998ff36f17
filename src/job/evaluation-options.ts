// The job's evaluation section, and the test in it. Held-out data are read like the training data:
// options that the section leaves out of `data` are inherited from the training data, and options
// that read the same fields in another way are refused, unless `dataDiffers` allows it.

import { z } from "zod";
import { splitOptions } from "../data/column-options.ts";
import { namesColumns } from "../data/data-kinds.ts";
import {
  type ArrowOptions,
  type CriteoTsvOptions,
  type CsvOptions,
  dataOptions,
  type JsonLinesOptions,
  type ParquetOptions,
  type ResolvedCsvOptions,
  type ResolvedDataOptions,
  type SyntheticOptions,
  type TableShape,
} from "../data/options.ts";
import { areNumeric, labelsOf, targetsOf } from "../data/targets.ts";
import { categoricalOf, checkWeights } from "../data/text/match-features.ts";
import { InvalidOptionError } from "../errors/errors.ts";
import { checkOptions, expected } from "../ports/check-options.ts";
import { isSection, type Written } from "../ports/written.ts";
import { comparedMetric } from "../training/loop/best-evaluation.ts";
import { earlyStoppingOptions } from "../training/loop/early-stopping.ts";
import { plateauOptions } from "../training/loop/plateau.ts";
import { checkMetrics, checkParts } from "./check-metrics.ts";

const dataDiffers = z
  .boolean()
  .optional()
  .meta({ default: false })
  .describe(
    "Whether fields of `data` may be read by other options than those of the training data. Default: false.",
  );

/** Schema of `JobOptions.evaluation.test`, without its data. */
export const testOptions = z.strictObject({
  dataDiffers,
  fraction: z
    .number()
    .gt(0)
    .lt(1)
    .default(0.1)
    .describe(
      "With `evaluation.test`, even `{}`, and without `evaluation.test.data`: share of the training data that is the test.",
    ),
});

/** Schema of `JobOptions.evaluation`. */
export const evaluationOptions = z.strictObject({
  data: dataOptions
    .optional()
    .describe("Held-out data. Left out: a share of the training data is held out."),
  dataDiffers,
  fraction: z
    .number()
    .gt(0)
    .lt(1)
    .default(0.1)
    .describe("Without `evaluation.data`: share of the training data that is held out."),
  split: splitOptions
    .optional()
    .describe(
      "Without `evaluation.data`: how the training data is split into parts. Default: at random.",
    ),
  test: testOptions
    .extend({
      data: dataOptions
        .optional()
        .describe("Data of the test. Left out: a share of the training data."),
    })
    .optional()
    .describe("Test data, evaluated once after training has ended. Left out: no test."),
  thresholds: z
    .array(z.number().gt(0).lt(1))
    .min(1)
    .max(16)
    .refine((values) => new Set(values).size === values.length, { error: "different numbers" })
    .optional()
    .describe(
      "Up to 16 thresholds: probabilities from which on a sample is predicted positive. Evaluations then have precision, recall and F1 at each threshold, in reports, `--json`, `osiris eval` (whose `--thresholds` override these) and as columns of the learning curve (`precision@0.5`); changes no bit.",
    ),
  everySteps: z
    .int()
    .min(0)
    .default(0)
    .describe("Number of steps between two evaluations; 0: at the end of each epoch."),
  keepBest: comparedMetric
    .optional()
    .describe(
      "Keeps the checkpoint with the best evaluation by this metric, and does not stop the run: `auc`, `gauc`, `logLoss` or `normalizedEntropy`; for a numeric label, `mse`, `rmse`, `mae` or `r2`; of several tasks, the metric of the first. The result of the run is still the last model. Left out: the best evaluation is only reported.",
    ),
  earlyStopping: earlyStoppingOptions
    .optional()
    .describe(
      "Early stopping: the run ends when a metric no longer improves, and its result is the best checkpoint.",
    ),
  reduceOnPlateau: plateauOptions
    .optional()
    .describe(
      "Reduces all learning rates when a metric no longer improves. Left out: no reduction.",
    ),
});

/** Data to evaluate on; options that are left out are inherited from the training data. */
export type EvaluationData =
  | Partial<CsvOptions>
  | Partial<CriteoTsvOptions>
  | Partial<JsonLinesOptions>
  | Partial<ArrowOptions>
  | Partial<ParquetOptions>
  | Partial<SyntheticOptions>;

/** A section of held-out data: `Options`, and the data. */
type HeldOut<Options> = Written<Options> & {
  /** Data of its own, which inherits options. Left out: a share of the training data. */
  readonly data?: EvaluationData;
};

/** The evaluation section as a user writes it. */
export type EvaluationOptions = HeldOut<
  Omit<z.input<typeof evaluationOptions>, "data" | "test">
> & {
  /** Data that is evaluated once, when training has ended. Left out: there is no test. */
  readonly test?: HeldOut<z.input<typeof testOptions>>;
};

/** The evaluation section after its checks. */
export type EvaluationSpec = z.output<typeof evaluationOptions>;

/**
 * Options that select the samples, or the order of training; evaluation data do not inherit them.
 */
const notInherited = [
  ...["paths", "where", "samples", "epochs", "passes", "shuffle", "order"],
  ...["weight", "sampleWeights"], // Metrics count each sample once.
];

/**
 * Completes `given` with the options that it leaves out, from the training data. Data of another
 * kind inherit only the batch size.
 */
function inheritData(
  given: Readonly<Record<string, unknown>>,
  training: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const own = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const { kind, batchSize } = training;
  if (own.kind !== undefined && own.kind !== kind) return { batchSize, ...own };
  const inherited = Object.entries(training).filter(([key]) => !notInherited.includes(key));
  return { ...Object.fromEntries(inherited), ...own };
}

/**
 * Completes and checks data to evaluate a trained model on.
 *
 * @throws InvalidOptionError where the options are no data, or read fields in another way than the
 * training data and `differs` does not allow it
 */
export function evaluationDataOf(
  given: EvaluationData,
  training: ResolvedDataOptions,
  tables: readonly Pick<TableShape, "name" | "column">[],
  differs: boolean,
): ResolvedDataOptions {
  const data = checkOptions(dataOptions, inheritData({ ...given }, { ...training }), "data");
  checkSameReading(data, "data", training, tables, differs);
  return data;
}

/**
 * @throws InvalidOptionError naming every option of `data`, which is at the path `option`, that
 * reads the same fields in another way
 */
export function checkSameReading(
  data: ResolvedDataOptions,
  option: string,
  training: ResolvedDataOptions,
  tables: readonly Pick<TableShape, "name" | "column">[],
  differs: boolean,
): void {
  if (differs) {
    checkWeights(data, option, training, tables);
    checkTargets(data, option, training);
    return;
  }
  const problems = differencesOf(data, training).map(({ path, is, was }) => {
    const wanted = was === undefined ? "left out" : JSON.stringify(was);
    const expectation =
      `${wanted}, as in the training data (leave it out, and it is taken from there; ` +
      `\`${option}Differs: true\` allows another)`;
    return expected(`${option}.${path}`, expectation, is).problems;
  });
  if (problems.length > 0) throw InvalidOptionError.ofAll(problems.flat());
}

/**
 * @throws InvalidOptionError where data that are read in another way have other labels, or no group
 */
function checkTargets(data: ResolvedDataOptions, option: string, training: ResolvedDataOptions) {
  const [is, was] = [targetsOf(data), targetsOf(training)];
  if (is.labels !== was.labels) {
    const labels = `${was.labels} label${was.labels > 1 ? "s" : ""}, as the training data has`;
    throw expected(`${option}.label`, labels, is.labels);
  }
  const [are, were] = [areNumeric(data), areNumeric(training)];
  const other = were.findIndex((isNumber, i) => isNumber !== are[i]);
  if (other >= 0) {
    const names = labelsOf(data).filter((_, i) => were[i] === true);
    const wanted = names.length === 0 ? "left out" : JSON.stringify(names);
    const numbers = `${wanted}, as in the training data`;
    const { numericLabels: given } = data as { readonly numericLabels?: readonly string[] };
    throw expected(`${option}.numericLabels`, numbers, given);
  }
  if (was.hasGroups && !is.hasGroups) {
    throw expected(`${option}.group`, "a column, as the training data has one", undefined);
  }
}

/** An option that decides how a sample is read, and its two values. */
interface Difference {
  readonly path: string;
  readonly is: unknown;
  readonly was: unknown;
}

/**
 * Options that may differ from the training data: they select files, split lines into fields, or
 * handle bad lines.
 */
const free: ReadonlySet<string> = new Set([
  ...notInherited,
  ...[
    "batchSize",
    "cache",
    "cacheBytesMax",
    "startEarly",
    "remoteBytesMax",
    "delimiter",
    "quarantineMax",
    "rejectedMax",
    "damagedMax",
    "labelAsFeature",
  ],
  ...["zipf", "idsPerBag", "perFeature"],
]);

function differencesOf(data: ResolvedDataOptions, training: ResolvedDataOptions): Difference[] {
  if (data.kind !== training.kind) return [{ path: "kind", is: data.kind, was: training.kind }];
  const [is, was] = [{ ...data } as Fields, { ...training } as Fields];
  const { categorical: _is, dense: _ofIs, ...plain } = is;
  const { categorical: _was, dense: _ofWas, ...plainWas } = was;
  return [
    ...fieldDifferences("", plain, plainWas, free),
    ...denseDifferences(is.dense, was.dense),
    ...(namesColumns(data) && namesColumns(training)
      ? categoricalDifferences(categoricalOf(data), categoricalOf(training))
      : []),
  ];
}

type Fields = Readonly<Record<string, unknown>>;

function fieldDifferences(
  prefix: string,
  is: Fields,
  was: Fields,
  apart: ReadonlySet<string> = new Set(),
): Difference[] {
  const keys = [...new Set([...Object.keys(was), ...Object.keys(is)])];
  return keys
    .filter((key) => !apart.has(key) && JSON.stringify(is[key]) !== JSON.stringify(was[key]))
    .map((key) => ({ path: `${prefix}${key}`, is: is[key], was: was[key] }));
}

/** Differences of `dense`: columns in order for files, a number for generated data. */
function denseDifferences(is: unknown, was: unknown): Difference[] {
  if (!Array.isArray(is) || !Array.isArray(was) || is.length !== was.length) {
    return fieldDifferences("", { dense: is }, { dense: was });
  }
  return is.flatMap((column, i) => fieldDifferences(`dense[${i}].`, column, was[i]));
}

type Column = ResolvedCsvOptions["categorical"][number];

/**
 * Differences of `categorical`, table by table in any order; a separator may be another character.
 */
function categoricalDifferences(is: readonly Column[], was: readonly Column[]): Difference[] {
  return is.flatMap((column, i) => {
    const other = was.find(({ table }) => table === column.table);
    if (other === undefined) return []; // Another check reports the table.
    const differences = fieldDifferences(`categorical[${i}].`, column, other);
    const isOtherCharacter = ({ path, is, was }: Difference) =>
      /separator$/i.test(path) && is !== undefined && was !== undefined;
    return differences.filter((difference) => !isOtherCharacter(difference));
  });
}

/** The part of a job that its evaluation must agree with. */
interface EvaluatedJob {
  readonly evaluation?: EvaluationSpec | undefined;
  readonly data: ResolvedDataOptions;
  readonly optimizer: { readonly sparse: { readonly kind: string } };
}

/** @throws InvalidOptionError */
export function checkEvaluation(
  { evaluation, data, optimizer }: EvaluatedJob,
  tables: readonly Pick<TableShape, "name" | "column">[],
): void {
  const { patience, target } = evaluation?.earlyStopping ?? { patience: 0 };
  if (patience === undefined && target === undefined) {
    const option = "evaluation.earlyStopping.patience";
    throw expected(option, "an integer >= 1 where there is no `target`", patience);
  }
  if (evaluation?.keepBest !== undefined && evaluation.earlyStopping !== undefined) {
    const why =
      "left out beside `earlyStopping`, which keeps the best checkpoint by its own metric";
    throw expected("evaluation.keepBest", why, evaluation.keepBest);
  }
  if (evaluation === undefined) return;
  checkPlateau(evaluation, optimizer.sparse.kind);
  checkMetrics(evaluation, data);
  checkParts(evaluation, data);
  const named = { evaluation, "evaluation.test": evaluation.test };
  for (const [option, section] of Object.entries(named)) {
    if (section?.data === undefined) continue;
    if (section.data.batchSize !== data.batchSize) {
      const usual = `left out, or that of the training data, ${data.batchSize}`;
      throw expected(`${option}.data.batchSize`, usual, section.data.batchSize);
    }
    const differs = section.dataDiffers === true;
    checkSameReading(section.data, `${option}.data`, data, tables, differs);
  }
}

/**
 * @throws InvalidOptionError where the optimizer has no rate of a step that a plateau can reduce
 */
function checkPlateau({ reduceOnPlateau }: EvaluationSpec, sparse: string): void {
  if (reduceOnPlateau === undefined || sparse !== "ftrl") return;
  const why = "left out where rows are trained by FTRL, whose rate follows from their gradients";
  throw expected("evaluation.reduceOnPlateau", why, reduceOnPlateau);
}

/** The options that decide which samples are held out of training, for the job's identity. */
export function splitIdentity(evaluation: EvaluationSpec | undefined) {
  if (evaluation === undefined || evaluation.data !== undefined) return undefined;
  const { fraction, split, test } = evaluation;
  return { fraction, split, testFraction: test?.data === undefined ? test?.fraction : undefined };
}

/**
 * Returns the options by which evaluations influence a run: the step at which it stops, the
 * checkpoint that it returns, and its learning rates.
 */
export function stoppingOf(evaluation: EvaluationSpec | undefined, data: unknown) {
  const { earlyStopping, reduceOnPlateau } = evaluation ?? {};
  if (evaluation === undefined || (earlyStopping ?? reduceOnPlateau) === undefined) {
    return undefined;
  }
  const { fraction, everySteps } = evaluation;
  return { fraction, everySteps, earlyStopping, reduceOnPlateau, data };
}

/** Completes the data of an evaluation and of its test from the training data. */
export function withEvaluationData(options: unknown): unknown {
  if (!isSection(options) || !isSection(options.evaluation) || !isSection(options.data)) {
    return options;
  }
  const { evaluation, data } = options;
  const completed = (section: Fields) =>
    isSection(section.data) ? { ...section, data: inheritData(section.data, data) } : section;
  const { test } = evaluation;
  const own = completed(evaluation);
  return { ...options, evaluation: isSection(test) ? { ...own, test: completed(test) } : own };
}
