// What an evaluation finds without a model: the mean label of the training samples for every
// sample, and the popularity of the values of one column, which is the share of positives of each.

import assert from "node:assert/strict";
import type { EncodedBatch as Batch } from "../../../src/data/batch-rows.ts";
import { type Dataset, memoryFor } from "../../../src/data/dataset.ts";
import type { TableShape } from "../../../src/data/options.ts";
import { holdAt } from "../../../src/data/pieces-at.ts";
import { featureColumnsOf } from "../../../src/data/records.ts";
import { scoredLabelsOf } from "../../../src/data/targets.ts";
import { shapesOf } from "../../../src/model/features.ts";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import { batchSamplesMax } from "../../../src/serving/scorer.ts";
import { evaluateScores, type TaskMetrics } from "../../../src/training/loop/metrics.ts";
import { openCheckpoint } from "../../checkpoints/open-checkpoint.ts";
import { openEvaluation } from "./open-evaluation.ts";
import { scoreSamples } from "./score-samples.ts";

/** What one label's samples, held out by a run's job, come to without a model. */
export interface SimpleBaselines {
  readonly task: string;
  /** The samples that are trained on. */
  readonly samples: number;
  /** The mean label of the training samples. */
  readonly mean: number;
  /** Every sample is predicted to have the mean. */
  readonly ofMean: TaskMetrics;
  /** Each value of the column is predicted to have its own mean; left out: there is no column. */
  readonly popularity?: { readonly column: string; readonly metrics: TaskMetrics };
}

/** Samples of the mean that the mean of each value begins with: few samples tell little. */
const priorSamples = 10;

/** Rows of tables that are counted: 16 bytes each, for every label. */
const rowsMax = 0x80_0000;

/**
 * Baselines of the samples that the run in `directory` holds out, by those that it trains on. The
 * column is the one that tells most of the training samples: the log loss of each sample by the
 * others of its value is the smallest. @throws as `Model.evaluate`
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
      /** The metrics of a prediction for each sample of a batch. */
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

/** The features whose rows are counted: ids of 32 bits, while there is room for their rows. */
function countedFeatures(shapes: readonly TableShape[]): boolean[] {
  let rows = 0;
  return shapes.map((shape) => {
    if (shape.idBits === 64 || rows + shape.rows > rowsMax) return false;
    rows += shape.rows;
    return true;
  });
}

/** (T, B): the first id of each bag; -1: it has none. */
function firstIdsOf({ lengths, ids }: Batch): Int32Array {
  let begin = 0;
  return lengths.map((length) => {
    begin += length;
    return length === 0 ? -1 : (ids[begin - length] ?? -1);
  });
}

/** Sums of labels over samples, of all and by the first id of each feature. */
class LabelSums {
  readonly #labels: number;
  readonly #isCounted: readonly boolean[];
  /** By feature: its rows and one more; 0: it is not counted. */
  readonly #rows: readonly number[];
  #samples = 0;
  readonly #sums: Float64Array;
  /** Samples that have each label. */
  readonly #labelled: Float64Array;
  /** By feature, (rows + 1, L): samples of each row, and of those without an id, at the end. */
  readonly #counts: readonly Float64Array[];
  /** By feature, (rows + 1, L): their labels. */
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
        if (Number.isNaN(label)) continue; // It is missing.
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

  /** The mean label of a value, drawn to the mean of all where it has few samples. */
  rate(task: number, feature: number, id: number): number {
    const row = this.#rowOf(feature, id);
    const sum = this.#byRow[feature]?.[this.#labels * row + task] ?? 0;
    const count = this.#counts[feature]?.[this.#labels * row + task] ?? 0;
    return (sum + priorSamples * this.mean(task)) / (count + priorSamples);
  }

  /** The feature whose values tell most of each other's labels; undefined: none is counted. */
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

  /** Ids beyond the rows are of no row, as a missing id is. */
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
      const memory = memoryFor(dataset, samples);
      dataset.read(
        Uint32Array.from({ length: samples }, (_, i) => first + i),
        memory,
      );
      const { dense, lengths, ids, labels, highs, weights } = memory;
      sums.add({ samples, dense, lengths, ids, highs, weights }, labels);
    }
  } finally {
    dataset.close();
  }
}
