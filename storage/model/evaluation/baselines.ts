// Baselines without a model: predicting the mean label of the training samples for every sample,
// and predicting by popularity, i.e. the share of positives of each value of one column.

import assert from "node:assert/strict";
import type { EncodedBatch as Batch } from "../../../src/data/batch-rows.ts";
import { holdAt } from "../../../src/data/cache/pieces.ts";
import { type Dataset, memoryFor, readSamples } from "../../../src/data/dataset.ts";
import type { TableShape } from "../../../src/data/options.ts";
import { featureColumnsOf } from "../../../src/data/records.ts";
import { scoredLabelsOf } from "../../../src/data/targets.ts";
import { shapesOf } from "../../../src/model/features.ts";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import { batchSamplesMax } from "../../../src/serving/scorer.ts";
import { evaluateScores, type TaskMetrics } from "../../../src/training/loop/metrics.ts";
import { openCheckpoint } from "../../checkpoints/open-checkpoint.ts";
import { openEvaluation } from "./open-evaluation.ts";
import { scoreSamples } from "./score-samples.ts";

/** The baselines of one label on the samples that a run's job holds out. */
export interface SimpleBaselines {
  readonly task: string;
  /** Number of training samples. */
  readonly samples: number;
  /** The mean label of the training samples. */
  readonly mean: number;
  /** Metrics of predicting the mean for every sample. */
  readonly ofMean: TaskMetrics;
  /** Metrics of predicting the mean label of the sample's value; left out: no usable column. */
  readonly popularity?: { readonly column: string; readonly metrics: TaskMetrics };
}

/** Pseudo-samples of the overall mean that smooth the mean of each value. */
const priorSamples = 10;

/** Most table rows that are counted, over all features: 16 bytes per row and label. */
const rowsMax = 0x80_0000;

/**
 * Baselines for the samples that the run in `directory` holds out, fitted to its training samples.
 * The column is the most informative one: it has the smallest leave-one-out log loss on the
 * training samples, where each sample is predicted from the other samples with its value. @throws
 * as `Model.evaluate`
 */
export async function simpleBaselines(
  directory: string,
  disk: Disk = realDisk,
): Promise<SimpleBaselines[]> {
  const { job, manifest } = openCheckpoint(directory, undefined, disk);
  const source = { job, manifest, disk };
  const labels = scoredLabelsOf(job.data);
  const shapes = shapesOf(job.model);
  const { features: columns } = featureColumnsOf(job.data, shapes);
  const training = await openEvaluation(source, undefined, { part: "training" });
  const counted = countedFeatures(shapes);
  const sums = new LabelSums(
    labels.length,
    shapes.map(({ rows }) => rows),
    counted,
  );
  await readAll(training.dataset, sums);
  const { dataset } = await openEvaluation(source, undefined, {});
  try {
    const tasks = labels.map(({ name }) => name);
    const found: SimpleBaselines[] = [];
    for (const [task, { name, isNumber }] of labels.entries()) {
      /** Metrics of `predict`, which returns one prediction per sample of a batch. */
      const metricsOf = async (predict: (batch: Batch) => readonly number[]) => {
        const logitsOf = async (batch: Batch) => {
          const out = new Float32Array(labels.length * batch.samples);
          const all = predict(batch);
          for (const [i, value] of all.entries()) {
            out[labels.length * i + task] = isNumber ? value : Math.log(value / (1 - value));
          }
          return out;
        };
        const metrics = evaluateScores(await scoreSamples({ tasks, logitsOf }, dataset), labels);
        return metrics.tasks?.[name] ?? metrics;
      };
      const mean = sums.mean(task);
      const ofMean = await metricsOf(({ samples }) => Array.from({ length: samples }, () => mean));
      const best = isNumber ? undefined : sums.best(task);
      const popularity = best !== undefined && {
        column: columns[best] ?? "",
        metrics: await metricsOf((batch) => {
          const ids = firstIdsOf(batch).subarray(best * batch.samples, (best + 1) * batch.samples);
          return Array.from(ids, (id) => sums.rate(task, best, id));
        }),
      };
      found.push({
        task: name,
        samples: sums.samples,
        mean,
        ofMean,
        ...(popularity && { popularity }),
      });
    }
    return found;
  } finally {
    dataset.close();
  }
}

/** Whether each feature's rows are counted: features with 32-bit ids, up to `rowsMax` rows. */
function countedFeatures(shapes: readonly TableShape[]): boolean[] {
  let rows = 0;
  return shapes.map((shape) => {
    if (shape.idBits === 64 || rows + shape.rows > rowsMax) return false;
    rows += shape.rows;
    return true;
  });
}

/** (T, B): the first id of each bag; -1: the bag is empty. */
function firstIdsOf({ lengths, ids }: Batch): Int32Array {
  let begin = 0;
  return lengths.map((length) => {
    begin += length;
    return length === 0 ? -1 : (ids[begin - length] ?? -1);
  });
}

/** Sums of labels over all samples, and by the first id of each feature. */
class LabelSums {
  readonly #labels: number;
  readonly #isCounted: readonly boolean[];
  /** By feature: number of rows plus one; 0: the feature is not counted. */
  readonly #rows: readonly number[];
  #samples = 0;
  readonly #sums: Float64Array;
  /** By label: number of samples that have it. */
  readonly #labelled: Float64Array;
  /** By feature, (rows + 1, L): samples of each row; the last entry is for samples without id. */
  readonly #counts: readonly Float64Array[];
  /** By feature, (rows + 1, L): sums of these samples' labels. */
  readonly #byRow: readonly Float64Array[];

  constructor(labels: number, rows: readonly number[], isCounted: readonly boolean[]) {
    const room = (feature: number) => (isCounted[feature] === true ? (rows[feature] ?? 0) + 1 : 0);
    this.#labels = labels;
    this.#isCounted = isCounted;
    this.#sums = new Float64Array(labels);
    this.#labelled = new Float64Array(labels);
    this.#rows = rows.map((_, feature) => room(feature));
    this.#counts = rows.map((_, feature) => new Float64Array(room(feature) * labels));
    this.#byRow = rows.map((_, feature) => new Float64Array(room(feature) * labels));
  }

  add(batch: Batch, labels: Float32Array): void {
    const L = this.#labels;
    this.#samples += batch.samples;
    for (let i = 0; i < batch.samples; i++) {
      for (let task = 0; task < L; task++) {
        const label = labels[L * i + task] ?? 0;
        if (Number.isNaN(label)) continue; // The label is missing.
        this.#sums[task] = (this.#sums[task] ?? 0) + label;
        this.#labelled[task] = (this.#labelled[task] ?? 0) + 1;
      }
    }
    const ids = firstIdsOf(batch);
    for (const [feature, counts] of this.#counts.entries()) {
      if (this.#isCounted[feature] !== true) continue;
      const sums = this.#byRow[feature];
      assert(sums !== undefined, "sums of each feature");
      for (let i = 0; i < batch.samples; i++) {
        const row = this.#rowOf(feature, ids[feature * batch.samples + i] ?? -1);
        for (let task = 0; task < L; task++) {
          const label = labels[L * i + task] ?? 0;
          if (Number.isNaN(label)) continue;
          counts[L * row + task] = (counts[L * row + task] ?? 0) + 1;
          sums[L * row + task] = (sums[L * row + task] ?? 0) + label;
        }
      }
    }
  }

  get samples(): number {
    return this.#samples;
  }

  mean(task: number): number {
    return (this.#sums[task] ?? 0) / (this.#labelled[task] ?? 0);
  }

  /** The mean label of a value, shrunk towards the overall mean if it has few samples. */
  rate(task: number, feature: number, id: number): number {
    const row = this.#rowOf(feature, id);
    const sum = this.#byRow[feature]?.[this.#labels * row + task] ?? 0;
    const count = this.#counts[feature]?.[this.#labels * row + task] ?? 0;
    return (sum + priorSamples * this.mean(task)) / (count + priorSamples);
  }

  /** The feature with the smallest leave-one-out log loss; undefined: no feature is counted. */
  best(task: number): number | undefined {
    let best: { readonly feature: number; readonly loss: number } | undefined;
    const prior = priorSamples * this.mean(task);
    for (const [feature, counts] of this.#counts.entries()) {
      if (this.#isCounted[feature] !== true) continue;
      let loss = 0;
      for (let row = 0; row < (this.#rows[feature] ?? 0); row++) {
        const count = counts[this.#labels * row + task] ?? 0;
        if (count === 0) continue;
        const positives = this.#byRow[feature]?.[this.#labels * row + task] ?? 0;
        const others = count - 1 + priorSamples;
        if (positives > 0) loss -= positives * Math.log((positives - 1 + prior) / others);
        if (positives < count) {
          loss -= (count - positives) * Math.log1p(-(positives + prior) / others);
        }
      }
      if (best === undefined || loss < best.loss) best = { feature, loss };
    }
    return best?.feature;
  }

  /** The entry of an id; ids outside the rows share the last entry with missing ids. */
  #rowOf(feature: number, id: number): number {
    const last = (this.#rows[feature] ?? 1) - 1;
    return id >= 0 && id < last ? id : last;
  }
}

/** Adds all samples of a dataset, and closes it. */
async function readAll(dataset: Dataset, sums: LabelSums): Promise<void> {
  try {
    for (let first = 0; first < dataset.samples; first += batchSamplesMax) {
      const samples = Math.min(batchSamplesMax, dataset.samples - first);
      await holdAt(dataset, first, samples);
      const indices = Float64Array.from({ length: samples }, (_, i) => first + i);
      const batch = readSamples(dataset, indices, memoryFor(dataset, samples));
      const { dense, lengths, ids, labels, highs, weights } = batch;
      sums.add({ samples, dense, lengths, ids, highs, weights }, labels);
    }
  } finally {
    dataset.close();
  }
}
