// Data preparation: turns a job's data into the binary cache, once, and counts what the job needs
// to know of it.

import { isDeepStrictEqual } from "node:util";
import { cacheMemoryBytesMax, readSampleBytes } from "../../../src/data/cache/cache-reader.ts";
import { type CacheReport, prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { contentsOf } from "../../../src/data/contents.ts";
import { splitSamplesOf } from "../../../src/data/split-order.ts";
import { InputUnusableError, InvalidOptionError } from "../../../src/errors/errors.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { shapesOf } from "../../../src/model/features.ts";
import { expected } from "../../../src/ports/check-options.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import type { DataPlan, Warning } from "../generation-spec.ts";

/** Makes or finds the caches of a job. @throws as `prepareCache` does */
export async function prepareData(
  job: JobSpec,
  disk: Disk,
  onProgress: (fraction: number) => void,
): Promise<DataPlan> {
  const tables = shapesOf(job.model);
  const tell = ({ fraction }: { fraction: number }) => onProgress(fraction);
  const training = await prepareCache(job.data, tables, disk, tell);
  checkClasses(job.data, training);
  if (training.dense !== job.model.dense) {
    throw expected("model.dense", `that of the data, ${training.dense}`, job.model.dense);
  }
  const held = job.evaluation?.data;
  const evaluation =
    held === undefined
      ? undefined
      : await ofEvaluation(() => prepareCache(held, tables, disk, tell));
  if (evaluation !== undefined && evaluation.dense !== job.model.dense) {
    const wanted = `as many columns as the model has dense features, ${job.model.dense}`;
    throw expected("evaluation.data.dense", wanted, evaluation.dense);
  }
  const reports = evaluation === undefined ? [training] : [training, evaluation];
  const datasets = datasetsOf(job, training, evaluation);
  return {
    ...datasets,
    contents: {
      training: contentsOf(training),
      ...(evaluation === undefined ? {} : { evaluation: contentsOf(evaluation) }),
      splitSamples: splitSamplesFor(job, training, datasets.training.samples, disk),
    },
    idsMax: training.idsMax.map((_, feature) =>
      Math.max(...reports.map((report) => report.idsMax[feature] ?? 0)),
    ),
    quarantined: reports.reduce((sum, report) => sum + report.quarantine.count, 0),
    quarantine: reports.flatMap((report) => report.quarantine.kept).slice(0, 100),
    means: training.means,
    bestAuc: training.bestAuc,
    warnings: [
      ...reports.flatMap(({ warnings = [] }) => warnings),
      ...equalityWarnings(job, training, evaluation),
      ...classWarnings(job, evaluation),
    ],
    remade: reports.flatMap(({ path, remade }) =>
      remade === undefined ? [] : [{ path, reason: remade }],
    ),
  };
}

/** Runs `work` on the held-out data: what it refuses is told as the evaluation's, not the job's. */
async function ofEvaluation<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    const problems = error.problems.map(({ option, message }) => ({
      option: option.replace(/^data\b/, "evaluation.data"),
      message: message
        .replaceAll("`data.", "`evaluation.data.")
        .replace(", which ", ", which the evaluation's file "),
    }));
    throw InvalidOptionError.ofAll(problems, { cause: error });
  }
}

/** Throws where all lines have one label: there is nothing to tell apart. */
function checkClasses(
  data: JobSpec["data"],
  { samples, positives, quarantine }: CacheReport,
): void {
  if (data.kind === "synthetic" || (positives > 0 && positives < samples)) return;
  const label = positives === 0 ? 0 : 1;
  const named = data.kind === "csv" ? data.positive : undefined;
  const all = `all ${samples.toLocaleString("en-US")} good lines of ${namesOf(data)}`;
  const [reason] = quarantine.reasons;
  const rest =
    reason === undefined
      ? ""
      : `; the most frequent reason for leaving lines out: ${reason.kind} (${reason.file}, line ` +
        `${reason.line}${reason.got === undefined ? "" : `: ${reason.got}`})`;
  const positive = named === undefined ? "" : ` (positive: ${JSON.stringify(named)})`;
  const message =
    `Expected labels of both classes, and ${all} have the label ${label}${positive}${rest}; ` +
    "name the label that counts as positive with `data.positive`, or other files";
  throw new InputUnusableError(data.paths[0] ?? "", message);
}

/**
 * Evaluation data of one class have a loss, and no AUC and no normalized entropy.
 * @throws InvalidOptionError where early stopping watches one of these
 */
function classWarnings({ evaluation: held }: JobSpec, report: CacheReport | undefined): Warning[] {
  if (held?.data === undefined || report === undefined || held.data.kind === "synthetic") return [];
  const { samples, positives } = report;
  if (positives > 0 && positives < samples) return [];
  const what =
    `all ${samples.toLocaleString("en-US")} lines of the evaluation data (${namesOf(held.data)}) ` +
    `have the label ${positives === 0 ? 0 : 1}`;
  const metric = held.earlyStopping?.metric;
  if (metric !== undefined && metric !== "logLoss") {
    const message = `Expected a metric that evaluation data of one class have, got ${metric}: ${what}`;
    const option = "evaluation.earlyStopping.metric";
    throw new InvalidOptionError(option, `${message}; watch logLoss, or name other files`);
  }
  const message = `There is no AUC and no normalized entropy: ${what}`;
  return [{ code: "EVALUATION_OF_ONE_CLASS", message }];
}

function datasetsOf(job: JobSpec, training: CacheReport, evaluation: CacheReport | undefined) {
  const { path, samples } = training;
  if (evaluation !== undefined) {
    const { path: heldPath, samples: heldSamples } = evaluation;
    return { training: { path, samples }, evaluation: { path: heldPath, samples: heldSamples } };
  }
  if (job.evaluation === undefined) return { training: { path, samples } };
  const { fraction } = job.evaluation;
  const heldOut = Math.round(samples * fraction);
  if (heldOut < 1 || heldOut >= samples) {
    throw expected(
      "evaluation.fraction",
      `a share that leaves samples in both parts of ${samples}`,
      fraction,
    );
  }
  return {
    training: { path, samples: samples - heldOut, split: { fraction, part: "train" as const } },
    evaluation: { path, samples: heldOut, split: { fraction, part: "heldOut" as const } },
  };
}

/**
 * Samples of a split, if the samples come in the split order: a function of the job and the data.
 * `samples`: those that are trained on.
 */
function splitSamplesFor(
  { data: { order, shuffle }, slices }: JobSpec,
  training: CacheReport,
  samples: number,
  disk: Disk,
): number | undefined {
  if (!shuffle || order === "global") return undefined;
  const bytes = readSampleBytes(training.path, disk);
  if (order === undefined && bytes <= cacheMemoryBytesMax) return undefined;
  return splitSamplesOf({ samples, bytes: (bytes * samples) / training.samples, slices });
}

/** Held-out samples that are training samples say how well a model remembers. */
function equalityWarnings(
  { data, evaluation: section }: JobSpec,
  training: CacheReport,
  evaluation: CacheReport | undefined,
): Warning[] {
  const held = section?.data;
  if (held === undefined) return [];
  const both = `The evaluation data (${namesOf(held)}) and the training data (${namesOf(data)}) are`;
  const file = sharedFile(held, evaluation, training);
  const what =
    evaluation?.digest === training.digest
      ? `${both} the same samples`
      : isSameStream(data, held)
        ? `${both} drawn from one stream: the smaller is the beginning of the other`
        : file && `The evaluation file ${file} has the text of a training file`;
  if (what === undefined) return [];
  const advice =
    "so its figures tell what the model remembers, not how well it predicts: name other data, or " +
    "leave `evaluation.data` out, which holds out a part of the training data";
  return [{ code: "EVALUATION_EQUALS_TRAINING", message: `${what}, ${advice}` }];
}

/** The first evaluation file with the text of a training file, as the job names it. */
function sharedFile(
  held: JobSpec["data"],
  evaluation: CacheReport | undefined,
  training: CacheReport,
): string | undefined {
  if (held.kind === "synthetic") return undefined;
  const trained = new Set(training.sources?.flatMap(({ sha256 }) => sha256 ?? []));
  return held.paths.find((_, i) => trained.has(evaluation?.sources?.[i]?.sha256 ?? ""));
}

/** Whether both are generated, and equal in all but their number. */
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

function namesOf(data: JobSpec["data"]): string {
  if (data.kind === "synthetic") return "generated";
  const [first = "", ...others] = data.paths;
  return others.length === 0 ? first : `${first} and ${others.length} more`;
}
