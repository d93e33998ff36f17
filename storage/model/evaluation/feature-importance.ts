// Permutation importance of a trained model's features: how much worse an evaluation gets when one
// feature's values are permuted among the samples and all others are unchanged (Breiman, "Random
// forests", 2001).
//
// Values are permuted within blocks of consecutive samples, one of which is in memory at a time.
// The permutation of a block is a function of (seed, feature, block), so the same model, data and
// seed give the same results bit for bit.

import type { EncodedBatch } from "../../../src/data/batch-rows.ts";
import type { Dataset } from "../../../src/data/dataset.ts";
import { Permutation } from "../../../src/data/permutation.ts";
import { featureColumnsOf } from "../../../src/data/records.ts";
import { scoredLabelsOf } from "../../../src/data/targets.ts";
import type { EvaluationData } from "../../../src/job/evaluation-options.ts";
import { shapesOf } from "../../../src/model/features.ts";
import { expected } from "../../../src/ports/check-options.ts";
import { purposes } from "../../../src/ports/random.ts";
import { evaluateScores, type Metrics } from "../../../src/training/loop/metrics.ts";
import type { Model } from "../model.ts";
import { type OpenOptions, withEvaluation } from "./open-evaluation.ts";
import { scoreSamples } from "./score-samples.ts";

/** Options of `featureImportance`. */
export interface ImportanceOptions extends OpenOptions {
  /** Files to evaluate on, as for `Model.evaluate`. @default what the job holds out */
  readonly data?: EvaluationData | undefined;
  /** Seed of the permutations: an integer from 0 to 2^53 - 1. @default the job's */
  readonly seed?: number | undefined;
}

/** The importance of one feature: the loss of quality without its information. */
export interface FeatureImportance {
  /** The column of the data, or the output of a transform, that the feature comes from. */
  readonly feature: string;
  /** AUC minus the AUC with permuted values; left out for a numeric label. */
  readonly aucDrop?: number;
  /** Log loss with permuted values minus the log loss; left out for a numeric label. */
  readonly logLossRise?: number;
  /** RMSE with permuted values minus the RMSE; only for a numeric label. */
  readonly rmseRise?: number;
}

/** The importance of all features. */
export interface ImportanceReport {
  readonly seed: number;
  /** Samples of a block, within which values are permuted. */
  readonly blockSamples: number;
  /** The evaluation without permutation. */
  readonly metrics: Metrics;
  /** For each task of the model, its features, the most important one first. */
  readonly tasks: readonly { readonly task: string; readonly features: FeatureImportance[] }[];
}

/**
 * Computes the importance of each feature of a model. It takes one evaluation per column, and one
 * more. Features of one column are permuted together.
 * @throws as `Model.evaluate`
 */
export async function featureImportance(
  model: Model,
  options: ImportanceOptions = {},
): Promise<ImportanceReport> {
  const { data, seed = model.job.seed } = options;
  if (!(Number.isSafeInteger(seed) && seed >= 0)) {
    throw expected("seed", "an integer from 0 to 2^53 - 1", seed);
  }
  return await withEvaluation(model, data, options, async ({ dataset }) => {
    const labels = scoredLabelsOf(model.job.data);
    const block = blockOf(dataset);
    const metrics = evaluateScores(await scoreSamples(model, dataset), labels);
    const found: { readonly feature: string; readonly changed: Metrics }[] = [];
    for (const [part, one] of columnsOf(model).entries()) {
      const scores = await scoreSamples(model, dataset, block, (batch, first) => {
        const step = first / block;
        const purpose = purposes.importance;
        const order = new Permutation({ seed, purpose, step, part, size: batch.samples });
        return permuted(batch, one, order);
      });
      found.push({ feature: one.column, changed: evaluateScores(scores, labels) });
    }
    const tasks = labels.map(({ name }, task) => {
      const own = (all: Metrics) => all.tasks?.[name] ?? all;
      const features = found.map(({ feature, changed }) => {
        return importanceOf(feature, own(metrics), own(changed));
      });
      return { task: model.tasks[task] ?? name, features: features.sort(byImportance) };
    });
    return { seed, blockSamples: block, metrics, tasks };
  });
}

function importanceOf(feature: string, before: Metrics, after: Metrics): FeatureImportance {
  if (before.rmse !== undefined) {
    return { feature, rmseRise: (after.rmse ?? Number.NaN) - before.rmse };
  }
  const logLossRise = after.logLoss - before.logLoss;
  return { feature, aucDrop: before.auc - after.auc, logLossRise };
}

/** Most important first; ties and features without metrics keep the job's order. */
function byImportance(one: FeatureImportance, other: FeatureImportance): number {
  const difference = (a = Number.NaN, b = Number.NaN) => (Number.isNaN(b - a) ? 0 : b - a);
  return (
    difference(one.aucDrop, other.aucDrop) ||
    difference(one.logLossRise, other.logLossRise) ||
    difference(one.rmseRise, other.rmseRise)
  );
}

/** Indices of the dense and categorical features that come from one column. */
interface ColumnFeatures {
  readonly column: string;
  readonly dense: number[];
  readonly ids: number[];
}

/** The columns that features come from, in the order of the job. */
function columnsOf({ job }: Model): ColumnFeatures[] {
  const { dense, features } = featureColumnsOf(job.data, shapesOf(job.model));
  const columns = new Map<string, ColumnFeatures>();
  const columnOf = (column: string) => {
    const one = columns.get(column) ?? { column, dense: [], ids: [] };
    columns.set(column, one);
    return one;
  };
  for (const [at, name] of dense.entries()) columnOf(name).dense.push(at);
  for (const [at, name] of features.entries()) columnOf(name).ids.push(at);
  return [...columns.values()];
}

const blockSamplesMax = 0x1_0000;
const blockSamplesMin = 1024;
/** Most 4-byte words of a block: 64 MiB. */
const blockWordsMax = 0x100_0000;

/** Samples of a block: as many as fit into memory if all bags have their maximum length. */
function blockOf({ dense, features, idsMax, wide, weighted }: Dataset): number {
  const wordsOfId = 1 + Number(wide.includes(true)) + Number(weighted.includes(true));
  const words = dense + features + wordsOfId * idsMax.reduce((sum, ids) => sum + ids, 0);
  const fit = Math.floor(blockWordsMax / Math.max(1, words));
  return Math.min(blockSamplesMax, Math.max(blockSamplesMin, fit));
}

/** A copy of a batch in which sample i has the column's values of sample `order.at(i)`. */
function permuted(
  batch: EncodedBatch,
  { dense, ids: features }: Omit<ColumnFeatures, "column">,
  order: Permutation,
): EncodedBatch {
  const { samples } = batch;
  const from = Uint32Array.from({ length: samples }, (_, i) => order.at(i));
  const values = batch.dense.slice();
  const width = values.length / samples;
  for (const at of dense) {
    for (let i = 0; i < samples; i++) {
      values[i * width + at] = batch.dense[(from[i] ?? 0) * width + at] ?? 0;
    }
  }
  const lengths = batch.lengths.slice();
  const ids = batch.ids.slice();
  const highs = batch.highs?.slice();
  const weights = batch.weights?.slice();
  const begins = beginsOf(batch.lengths);
  for (const feature of features) {
    let to = begins[feature * samples] ?? 0;
    for (let i = 0; i < samples; i++) {
      const bag = feature * samples + (from[i] ?? 0);
      const [begin, end] = [begins[bag] ?? 0, begins[bag + 1] ?? 0];
      lengths[feature * samples + i] = end - begin;
      ids.set(batch.ids.subarray(begin, end), to);
      if (batch.highs !== undefined) highs?.set(batch.highs.subarray(begin, end), to);
      if (batch.weights !== undefined) weights?.set(batch.weights.subarray(begin, end), to);
      to += end - begin;
    }
  }
  return { samples, dense: values, lengths, ids, highs, weights };
}

/** Offset of each bag's first id, and the total number of ids. */
function beginsOf(lengths: Int32Array): Uint32Array {
  const begins = new Uint32Array(lengths.length + 1);
  for (const [bag, length] of lengths.entries()) begins[bag + 1] = (begins[bag] ?? 0) + length;
  return begins;
}
