// Opens the samples on which a trained model is evaluated: those of given data, or those that its
// job holds out.

import assert from "node:assert/strict";
import { readKeys } from "../../../src/data/cache/cache-facts.ts";
import { type CacheReport, prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { readSliceValues, type SliceValues } from "../../../src/data/cache/slice-values.ts";
import { contentsOf, recordedContents } from "../../../src/data/contents.ts";
import type { Dataset } from "../../../src/data/dataset.ts";
import { openSamples, type SamplesOrigin } from "../../../src/data/open-samples.ts";
import { planSplit, splitDataset } from "../../../src/data/split.ts";
import { keyColumnOf, type SplitColumn } from "../../../src/data/split-keys.ts";
import { DataCacheDamagedError } from "../../../src/errors/errors.ts";
import { checkHeldOut } from "../../../src/job/check-contents.ts";
import { type EvaluationData, evaluationDataOf } from "../../../src/job/evaluation-options.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { namedFiles } from "../../../src/job/job-files.ts";
import { shapesOf } from "../../../src/model/features.ts";
import { expected } from "../../../src/ports/check-options.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import type { Manifest } from "../../checkpoints/store/checkpoint-store.ts";

/** Options that select the samples. */
export interface OpenOptions {
  /** Whether the data may be read differently from the training data. @default false */
  readonly dataDiffers?: boolean;
  /** The part of the job's data to use if no data are given. @default "evaluation" */
  readonly part?: "evaluation" | "test" | "training";
}

/** The samples of an evaluation. */
export interface OpenEvaluation {
  /** Close it. */
  readonly dataset: Dataset;
  /** Values of a column of the files, in the order of samples. @throws as `readSliceValues` */
  readonly valuesOf: (column: string) => Promise<SliceValues>;
}

interface Evaluated {
  readonly job: JobSpec;
  readonly manifest: Manifest;
  readonly disk: Disk;
}

/**
 * Opens the samples for evaluating a model, runs `work`, and closes them. If the sample cache is
 * damaged, it is rebuilt and `work` is repeated once. @throws as `Model.evaluate`, and as `work`
 */
export async function withEvaluation<Result>(
  model: {
    openEvaluation(data?: EvaluationData, options?: OpenOptions): Promise<OpenEvaluation>;
  },
  data: EvaluationData | undefined,
  options: OpenOptions,
  work: (opened: OpenEvaluation) => Promise<Result>,
): Promise<Result> {
  const once = async () => {
    const evaluation = await model.openEvaluation(data, options);
    try {
      return await work(evaluation);
    } finally {
      evaluation.dataset.close();
    }
  };
  try {
    return await once();
  } catch (error) {
    if (!(error instanceof DataCacheDamagedError)) throw error;
    return await once();
  }
}

/** Opens the samples of `data`, or those that the job holds out. @throws as `Model.evaluate` */
export async function openEvaluation(
  model: Evaluated,
  data: EvaluationData | undefined,
  { dataDiffers = false, part = "evaluation" }: OpenOptions,
): Promise<OpenEvaluation> {
  if (data === undefined) return part === "training" ? openTraining(model) : openPart(model, part);
  const { job, disk } = model;
  const tables = shapesOf(job.model);
  const options = await namedFiles(evaluationDataOf(data, job.data, tables, dataDiffers));
  const report = await prepareCache(options, tables, disk);
  return opened(model, report, { options, tables });
}

/** Opens the samples that the job holds out for evaluation or for its test. */
async function openPart(model: Evaluated, part: "evaluation" | "test"): Promise<OpenEvaluation> {
  const { job, manifest, disk } = model;
  const { evaluation, seed, checkpoint } = job;
  const section = part === "test" ? evaluation?.test : evaluation;
  if (section === undefined || evaluation === undefined) {
    const what = part === "test" ? "has no `evaluation.test`" : "holds nothing out";
    throw expected("data", `named, as the job ${what}`, undefined);
  }
  const key = section.data === undefined ? keyColumnOf(evaluation.split) : undefined;
  const options = section.data ?? job.data;
  const tables = shapesOf(job.model);
  const report = await prepareCache(options, tables, disk, undefined, key);
  const recorded = recordedContents(manifest.metrics);
  checkHeldOut(job, part, recorded, contentsOf(report), checkpoint.directory);
  if (section.data !== undefined) return opened(model, report, { options, tables, key });
  const keysOf = () => readKeys(report.path, disk);
  const plan = planSplit(report.samples, sharesOf(evaluation), keysOf);
  const chosen = part === "test" ? plan.test : plan.evaluation;
  assert(chosen !== undefined, "a test that is held out");
  const partOf = (whole: Dataset) => splitDataset(whole, { seed, ...chosen.split }, keysOf);
  return opened(model, report, { options, tables, key }, partOf);
}

/** Opens the job's training samples. */
async function openTraining(model: Evaluated): Promise<OpenEvaluation> {
  const { job, manifest, disk } = model;
  const { evaluation, seed, checkpoint, data: options } = job;
  const isHeldOut = evaluation !== undefined && evaluation.data === undefined;
  const key = isHeldOut ? keyColumnOf(evaluation.split) : undefined;
  const tables = shapesOf(job.model);
  const report = await prepareCache(options, tables, disk, undefined, key);
  const recorded = recordedContents(manifest.metrics);
  checkHeldOut({ data: options }, "evaluation", recorded, contentsOf(report), checkpoint.directory);
  if (!isHeldOut) return opened(model, report, { options, tables, key });
  const keysOf = () => readKeys(report.path, disk);
  const { training } = planSplit(report.samples, sharesOf(evaluation), keysOf);
  const partOf = (whole: Dataset) => splitDataset(whole, { seed, ...training.split }, keysOf);
  return opened(model, report, { options, tables, key }, partOf);
}

function sharesOf({ fraction, split, test }: NonNullable<JobSpec["evaluation"]>) {
  return { fraction, testFraction: test?.data === undefined ? test?.fraction : undefined, split };
}

/** Opens a prepared cache. `partOf`: selects the samples to evaluate. */
async function opened(
  { job, manifest, disk }: Evaluated,
  { path, dense, samples }: CacheReport,
  origin: SamplesOrigin & { readonly key?: SplitColumn | undefined },
  partOf: (whole: Dataset) => Dataset = (whole) => whole,
): Promise<OpenEvaluation> {
  if (dense !== job.model.dense) {
    throw expected("data.dense", `as many as the model's, ${job.model.dense}`, dense);
  }
  const { options, tables, key } = origin;
  return {
    dataset: partOf(await openSamples(path, disk, origin, { means: manifest.means })),
    valuesOf: async (column) => {
      const all = await readSliceValues(options, tables, column, samples, key);
      return { ...all, places: placesOf(partOf(datasetOf(all.places))) };
    },
  };
}

/** Wraps value indices as a dataset, so that `partOf` selects them like the samples. */
function datasetOf(places: Uint32Array): Dataset {
  return {
    samples: places.length,
    dense: 0,
    features: 1,
    wide: [false],
    weighted: [false],
    idsMax: [1],
    targets: { labels: 0, hasSampleWeights: false, hasGroups: false },
    read(indices, { ids }) {
      for (const [i, index] of indices.entries()) ids[i] = places[index] ?? 0;
      return indices.length;
    },
    hold: async () => {},
    bytesRead: { file: 0, samples: 0 },
    close() {},
  };
}

function placesOf(dataset: Dataset): Uint32Array {
  const indices = Float64Array.from({ length: dataset.samples }, (_, i) => i);
  const ids = new Int32Array(indices.length);
  const none = { dense: new Float32Array(0), labels: new Float32Array(0) };
  dataset.read(indices, { ...none, lengths: new Int32Array(0), ids });
  return new Uint32Array(ids.buffer);
}
