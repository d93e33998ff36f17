// Data preparation: converts a job's data into the binary cache, once, and collects the figures
// that the job needs.

import { isDeepStrictEqual } from "node:util";
import { readKeys } from "../../../src/data/cache/cache-facts.ts";
import type { FeatureStatistics } from "../../../src/data/cache/feature-statistics.ts";
import { type CacheReport, prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { ofAllSamples, sharingWarnings } from "../../../src/data/columnar/value-watch.ts";
import { contentsOf } from "../../../src/data/contents.ts";
import { linesOf, namesColumns, placeOf } from "../../../src/data/data-kinds.ts";
import type { IndexHelp } from "../../../src/data/file-index/write-index.ts";
import { shownPath } from "../../../src/data/remote/addresses.ts";
import { heldBytesMax } from "../../../src/data/sample-order.ts";
import { planSplit } from "../../../src/data/split.ts";
import { keyColumnOf, type SplitKeys } from "../../../src/data/split-keys.ts";
import { areNumeric, labelsOf } from "../../../src/data/targets.ts";
import { InputUnusableError, InvalidOptionError } from "../../../src/errors/errors.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { shapesOf } from "../../../src/model/features.ts";
import { expected } from "../../../src/ports/check-options.ts";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import type { GroupChoice } from "../generation-schema.ts";
import type { DataPlan, Warning } from "../generation-spec.ts";
import { type EarlyStart, earlyStartOf } from "./early-start.ts";
import type { DataPart } from "./index-program.ts";
import { groupsFor, namesOf, splitsFor } from "./training-order.ts";

/** The prepared data of a run, with the statistics that the planner uses. */
export interface PreparedData extends DataPlan {
  /** Statistics of the training data by feature; undefined: its cache has none. */
  readonly statistics?: readonly FeatureStatistics[] | undefined;
  /** Indexes the files that the first steps do not need; undefined: all are indexed. */
  readonly goOn?: EarlyStart["goOn"] | undefined;
}

/**
 * Makes or finds the caches of a job. `readerBytesMax`: memory limit of a reader for held splits.
 * `helpFor`: further threads that index the files of a part.
 * @throws like `prepareCache`
 * @throws InputUnusableError where samples without a cache lie in row groups above that limit
 */
export async function prepareData(
  job: JobSpec,
  disk: Disk,
  onProgress: (fraction: number) => void,
  readerBytesMax: number = heldBytesMax,
  helpFor?: (part: DataPart) => IndexHelp,
): Promise<PreparedData> {
  const tables = shapesOf(job.model);
  const tell = ({ fraction }: { fraction: number }) => onProgress(fraction);
  const key = keyColumnOf(job.evaluation?.split);
  const help = helpFor?.("training");
  const early = await earlyStartOf(job, disk, readerBytesMax, help);
  const training = early?.report ?? (await prepareCache(job.data, tables, disk, tell, key, help));
  if (early === undefined) checkClasses(job.data, training);
  if (training.dense !== job.model.dense) {
    throw expected("model.dense", `that of the data, ${training.dense}`, job.model.dense);
  }
  const further = async (name: "evaluation" | "test") => {
    const held = name === "test" ? job.evaluation?.test?.data : job.evaluation?.data;
    if (held === undefined) return undefined;
    const help = helpFor?.(name);
    const report = await namingOption(name, () =>
      prepareCache(held, tables, disk, tell, undefined, help),
    );
    if (report.dense === job.model.dense) return report;
    const wanted = `as many columns as the model has dense features, ${job.model.dense}`;
    throw expected(`${optionOf(name)}.dense`, wanted, report.dense);
  };
  const [evaluation, test] = [await further("evaluation"), await further("test")];
  const reports = [training, evaluation, test].filter((report) => report !== undefined);
  const parts = partsOf(job, training, evaluation, test, () => readKeys(training.path, disk));
  const splits = await splitsFor(job, training, parts.training, disk, readerBytesMax);
  const ikjt = await groupsFor(job, parts.training, training, splits, disk);
  const chosen = ikjt?.filter(({ isChosen }) => isChosen) ?? [];
  const indexOf = (name: string) => tables.findIndex((table) => table.name === name);
  const begun = await early?.begin({
    training: parts.training,
    contents: { training: contentsOf(training), ...splits },
  });
  const values = training.values?.map((own) => ofAllSamples(own, training.statistics)) ?? [];
  const isTold = job.evaluation?.split !== undefined || parts.test?.split !== undefined;
  return {
    ...parts,
    contents: {
      training: contentsOf(training),
      ...(isTold ? { trained: parts.training.samples } : {}),
      ...(evaluation === undefined ? {} : { evaluation: contentsOf(evaluation) }),
      ...(test === undefined ? {} : { test: contentsOf(test) }),
      ...splits,
      ...(chosen.length === 0 ? {} : { ikjt: chosen.map((own) => own.features.map(indexOf)) }),
    },
    ...(ikjt === undefined ? {} : { ikjt }),
    ...bagSizesOf(reports),
    quarantined: reports.reduce((sum, report) => sum + report.quarantine.count, 0),
    quarantine: reports.flatMap((report) => report.quarantine.kept).slice(0, 100),
    means: training.means,
    statistics: begun?.statistics ?? training.statistics,
    ...(begun && { indexedSteps: begun.steps }),
    goOn: early?.goOn.bind(early),
    bestAuc: training.bestAuc,
    bestRmse: training.bestRmse,
    ...(values.length === 0 ? {} : { values }),
    warnings: [
      ...reports.flatMap(({ warnings = [] }) => warnings),
      ...equalityWarnings(job, training, evaluation, test),
      ...classWarnings(job, evaluation),
      ...sharingWarnings(values),
    ],
    remade: reports.flatMap(({ path, remade }) =>
      remade === undefined ? [] : [{ path, reason: remade }],
    ),
  };
}

/**
 * The measured groups of `data.ikjt`; undefined where the job has none. Makes the data cache if it
 * is missing. @throws like `prepareData`
 */
export async function measuredGroups(job: JobSpec): Promise<readonly GroupChoice[] | undefined> {
  if (job.data.ikjt === undefined) return undefined;
  return (await prepareData(job, realDisk, () => {})).ikjt;
}

/** The longest and the mean bag of each feature, of the data with the largest. */
function bagSizesOf(reports: readonly CacheReport[]): Pick<DataPlan, "idsMax" | "idsMean"> {
  const features = [...(reports[0]?.idsMax.keys() ?? [])];
  const most = (of: (report: CacheReport, feature: number) => number) =>
    features.map((feature) => Math.max(...reports.map((report) => of(report, feature))));
  const idsMax = most((report, feature) => report.idsMax[feature] ?? 0);
  const sixteenths = most(({ statistics }, feature) => {
    return Math.ceil(16 * (statistics?.[feature]?.idsMean ?? Number.POSITIVE_INFINITY));
  });
  const idsMean = sixteenths.map((mean) => mean / 16);
  const isKnown =
    idsMean.every(Number.isFinite) && idsMean.some((mean, i) => mean < (idsMax[i] ?? 0));
  return isKnown ? { idsMax, idsMean } : { idsMax };
}

const optionOf = (name: "evaluation" | "test") =>
  name === "test" ? "evaluation.test.data" : "evaluation.data";

/**
 * Runs `work` on evaluation or test data, and rewrites its option errors to name the option of
 * these data instead of `data`.
 */
async function namingOption<Result>(
  name: "evaluation" | "test",
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    const problems = error.problems.map(({ option, message }) => ({
      option: option.replace(/^data\b/, optionOf(name)),
      message: message
        .replaceAll("`data.", `\`${optionOf(name)}.`)
        .replace(", which ", `, which the ${name}'s file `),
    }));
    throw InvalidOptionError.ofAll(problems, { cause: error });
  }
}

/** Throws where all lines have the same label, from which nothing can be learned. */
function checkClasses(data: JobSpec["data"], report: CacheReport): void {
  const { samples, quarantine } = report;
  const label = oneLabelOf(data, report);
  if (data.kind === "synthetic" || label === undefined) return;
  const named = namesColumns(data) ? data.positive : undefined;
  const all = `all ${samples.toLocaleString("en-US")} good ${linesOf(data)} of ${namesOf(data)}`;
  const [reason] = quarantine.reasons;
  const rest =
    reason === undefined
      ? ""
      : `; the most frequent reason for leaving ${linesOf(data)} out: ${reason.kind} ` +
        `(${placeOf(reason)}${reason.got === undefined ? "" : `: ${reason.got}`})`;
  const positive = named === undefined ? "" : ` (positive: ${JSON.stringify(named)})`;
  const [wanted, advice] =
    areNumeric(data)[0] === true
      ? ["labels that differ", "name another label, or other files"]
      : [
          "labels of both classes",
          "name the label that counts as positive with `data.positive`, or other files",
        ];
  const message = `Expected ${wanted}, and ${all} have the label ${label}${positive}${rest}; ${advice}`;
  throw new InputUnusableError(shownPath(data.paths[0] ?? ""), message);
}

/** The label that all good lines share; undefined where labels differ. */
function oneLabelOf(
  data: JobSpec["data"],
  { samples, positives, labelRanges, labelled }: CacheReport,
): number | undefined {
  const [least, greatest] = labelRanges?.[0] ?? [Number.NaN, Number.NaN];
  if (areNumeric(data)[0] === true) return least === greatest ? least : undefined;
  if (positives > 0 && positives < (labelled?.[0] ?? samples)) return undefined;
  return positives === 0 ? 0 : 1;
}

/**
 * Warns of evaluation data of one class, which have a loss but no AUC and no normalized entropy.
 * @throws InvalidOptionError where early stopping watches one of the missing metrics
 */
function classWarnings({ evaluation: held }: JobSpec, report: CacheReport | undefined): Warning[] {
  if (held?.data === undefined || report === undefined || held.data.kind === "synthetic") return [];
  const { samples, positives, labelled } = report;
  const hasBoth = positives > 0 && positives < (labelled?.[0] ?? samples);
  if (areNumeric(held.data)[0] === true || hasBoth) return [];
  const what =
    `all ${samples.toLocaleString("en-US")} ${linesOf(held.data)} of the evaluation data (${namesOf(held.data)}) ` +
    `have the label ${positives === 0 ? 0 : 1}`;
  const { metric, task } = held.earlyStopping ?? {};
  const isOfIt = task === undefined || task === labelsOf(held.data)[0];
  if (isOfIt && metric !== undefined && metric !== "logLoss") {
    const message = `Expected a metric that evaluation data of one class have, got ${metric}: ${what}`;
    const option = "evaluation.earlyStopping.metric";
    throw new InvalidOptionError(option, `${message}; watch logLoss, or name other files`);
  }
  const message = `There is no AUC and no normalized entropy: ${what}`;
  return [{ code: "EVALUATION_OF_ONE_CLASS", message }];
}

/** The parts of the data for training, for evaluation at cuts, and for the test. */
function partsOf(
  { evaluation: section }: JobSpec,
  { path, samples }: CacheReport,
  evaluation: CacheReport | undefined,
  test: CacheReport | undefined,
  keysOf: () => SplitKeys,
): Pick<DataPlan, "training" | "evaluation" | "test"> {
  const whole = (report: CacheReport) => ({ path: report.path, samples: report.samples });
  const tested = test === undefined ? {} : { test: whole(test) };
  if (section === undefined) return { training: { path, samples } };
  if (evaluation !== undefined) {
    return { training: { path, samples }, evaluation: whole(evaluation), ...tested };
  }
  const testFraction = test === undefined ? section.test?.fraction : undefined;
  const { fraction, split } = section;
  const plan = planSplit(samples, { fraction, testFraction, split }, keysOf);
  return {
    training: { path, ...plan.training },
    evaluation: { path, ...plan.evaluation },
    ...(plan.test === undefined ? tested : { test: { path, ...plan.test } }),
  };
}

/**
 * Warns where held-out samples are training samples: they measure only how well a model remembers.
 */
function equalityWarnings(
  { data, evaluation: section }: JobSpec,
  training: CacheReport,
  evaluation: CacheReport | undefined,
  test: CacheReport | undefined,
): Warning[] {
  const trained = { name: "training", data, report: training };
  const held = { name: "evaluation", data: section?.data, report: evaluation };
  const tested = { name: "test", data: section?.test?.data, report: test };
  return [
    ...equality(held, trained, "EVALUATION_EQUALS_TRAINING"),
    ...equality(tested, trained, "TEST_EQUALS_TRAINING"),
    ...equality(tested, held, "TEST_EQUALS_EVALUATION"),
  ];
}

/** Data of a job, with their name in messages and their cache. */
interface NamedData {
  readonly name: string;
  readonly data: JobSpec["data"] | undefined;
  readonly report: CacheReport | undefined;
}

function equality(held: NamedData, other: NamedData, code: string): Warning[] {
  if (held.data === undefined || other.data === undefined) return [];
  const named = `The ${held.name} data (${namesOf(held.data)})`;
  const both = `${named} and the ${other.name} data (${namesOf(other.data)}) are`;
  const file = sharedFile(held.data, held.report, other.report);
  const what =
    held.report?.digest === other.report?.digest
      ? `${both} the same samples`
      : isSameStream(other.data, held.data)
        ? `${both} drawn from one stream: the smaller is the beginning of the other`
        : file && `The ${held.name} file ${file} has the text of ${article(other.name)} file`;
  if (what === undefined) return [];
  const option = held.name === "test" ? "evaluation.test.data" : "evaluation.data";
  const why =
    other.name === "training"
      ? "so its metrics measure memory, not prediction"
      : "so its metrics are the metrics that the model was selected by";
  const advice = `${why}: name other data, or leave \`${option}\` out, which holds out a part of the training data`;
  return [{ code, message: `${what}, ${advice}` }];
}

function article(name: string): string {
  return name === "evaluation" ? `an ${name}` : `a ${name}`;
}

/**
 * The first file of `held` whose content equals that of a file of the other data, as the job names
 * it.
 */
function sharedFile(
  held: JobSpec["data"],
  report: CacheReport | undefined,
  other: CacheReport | undefined,
): string | undefined {
  if (held.kind === "synthetic") return undefined;
  const texts = new Set(other?.sources?.flatMap(({ sha256 }) => sha256 ?? []));
  const file = held.paths.find((_, i) => texts.has(report?.sources?.[i]?.sha256 ?? ""));
  return file === undefined ? undefined : shownPath(file);
}

/** Whether both are generated from equal options, except for the number of samples. */
function isSameStream(data: JobSpec["data"], held: JobSpec["data"]): boolean {
  if (data.kind !== "synthetic" || held.kind !== "synthetic") return false;
  const streamOf = (of: typeof data) => ({
    ...of,
    samples: 0,
    passes: 0,
    shuffle: true,
    order: undefined,
    cache: "",
  });
  return isDeepStrictEqual(streamOf(data), streamOf(held));
}
