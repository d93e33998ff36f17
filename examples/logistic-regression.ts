// Logistic regression, the baseline of the Criteo example: one weight per row of each table, one
// per standardised dense feature, an intercept, and a penalty lambda/2 * |w|^2 on all but the
// intercept. Trained with full batches by Nesterov's accelerated gradient with restarts, in
// float64, until the gradient is almost zero: the optimum is unique, so the result does not depend
// on chance.
//
// B = samples, N = inputs of a sample: the intercept, the dense features, one id per table.

import { strict as assert } from "node:assert";
import type { BatchMemory, Dataset } from "../src/data/dataset.ts";
import type { TableShape } from "../src/data/options.ts";

/** The result of `fitLogistic`. */
export interface LogisticModel {
  /** Logits (B) and labels (B) of all samples of a dataset, in order. */
  score(dataset: Dataset): [logits: Float32Array, labels: Float32Array];
  readonly iterations: number;
  /** Largest absolute element of the final gradient, with the penalty. */
  readonly gradientMax: number;
}

const iterationsMax = 5000;
/** Convergence threshold, far below changes of the AUC's fourth digit. */
const gradientEnough = 1e-5;

/** Fits a logistic regression to all samples of `dataset`, whose bags have at most one id each. */
export function fitLogistic(
  dataset: Dataset,
  tables: readonly TableShape[],
  lambda: number,
): LogisticModel {
  const scales = scalesOf(dataset);
  const samples = samplesOf(dataset, tables, scales);
  const ranks = rank(samples);
  const weights = new Float64Array(ranks.size);
  const ahead = new Float64Array(ranks.size);
  // The curvature of the loss is at most a quarter of the samples' mean squared norm, which bounds
  // the step size.
  const squares = samples.values.reduce((sum, value) => sum + value * value, 0);
  const step = 1 / (squares / samples.count / 4 + lambda);
  let momentum = 1;
  let gradientMax = Number.POSITIVE_INFINITY;
  let iterations = 0;
  while (iterations < iterationsMax && gradientMax > gradientEnough) {
    const gradient = gradientOf(samples, ahead, lambda);
    gradientMax = gradient.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const next = (1 + Math.sqrt(1 + 4 * momentum * momentum)) / 2;
    let uphill = 0;
    for (const [i, slope] of gradient.entries()) {
      const before = weights[i] ?? 0;
      const after = (ahead[i] ?? 0) - step * slope;
      weights[i] = after;
      ahead[i] = after + ((momentum - 1) / next) * (after - before);
      uphill += slope * (after - before);
    }
    momentum = uphill > 0 ? 1 : next; // A restart after an overshoot.
    iterations++;
  }
  return {
    score(other) {
      const test = samplesOf(other, tables, scales);
      rank(test, ranks);
      const logits = Float32Array.from({ length: test.count }, (_, i) => logitOf(test, weights, i));
      return [logits, test.labels];
    },
    iterations,
    gradientMax,
  };
}

/** Samples in sparse form: pairs of a column and its value. Column 0 is the intercept. */
interface Samples {
  readonly count: number;
  readonly width: number;
  /** (B,N) */
  readonly columns: Int32Array;
  /** (B,N) */
  readonly values: Float64Array;
  /** (B) */
  readonly labels: Float32Array;
}

/** Mean and standard deviation of each dense feature in training. */
type Scales = readonly { readonly mean: number; readonly deviation: number }[];

function readAll(dataset: Dataset): BatchMemory {
  const { samples, dense, features, idsMax } = dataset;
  assert(Math.max(0, ...idsMax) <= 1, "one id a feature");
  const batch = {
    dense: new Float32Array(samples * dense),
    labels: new Float32Array(samples),
    lengths: new Int32Array(samples * features),
    ids: new Int32Array(samples * features),
  };
  const indices = Float64Array.from({ length: samples }, (_, i) => i);
  dataset.read(indices, batch);
  return batch;
}

function scalesOf(dataset: Dataset): Scales {
  const { dense } = readAll(dataset);
  return Array.from({ length: dataset.dense }, (_, feature) => {
    let sum = 0;
    let squares = 0;
    for (let at = feature; at < dense.length; at += dataset.dense) {
      sum += dense[at] ?? 0;
      squares += (dense[at] ?? 0) ** 2;
    }
    const mean = sum / dataset.samples;
    return { mean, deviation: Math.sqrt(Math.max(squares / dataset.samples - mean * mean, 0)) };
  });
}

function samplesOf(dataset: Dataset, tables: readonly TableShape[], scales: Scales): Samples {
  const { samples: count, features } = dataset;
  const { dense, labels, lengths, ids } = readAll(dataset);
  const width = 1 + scales.length + features;
  const columns = new Int32Array(count * width);
  const values = new Float64Array(count * width);
  for (let sample = 0; sample < count; sample++) {
    values[sample * width] = 1;
    for (const [feature, { mean, deviation }] of scales.entries()) {
      const distance = (dense[sample * scales.length + feature] ?? 0) - mean;
      columns[sample * width + 1 + feature] = 1 + feature;
      values[sample * width + 1 + feature] = deviation > 0 ? distance / deviation : 0;
    }
  }
  let firstRow = 1 + scales.length;
  let at = 0;
  for (const [feature, { rows }] of tables.entries()) {
    for (let sample = 0; sample < count; sample++) {
      if (lengths[feature * count + sample] === 0) continue;
      const place = sample * width + 1 + scales.length + feature;
      columns[place] = firstRow + (ids[at++] ?? 0);
      values[place] = 1;
    }
    firstRow += rows;
  }
  return { count, width, columns, values, labels };
}

/**
 * Renumbers columns in order of appearance, and returns the numbering. With the numbering of
 * `training`, columns without a trained weight get the value 0.
 */
function rank({ columns, values }: Samples, training?: Map<number, number>): Map<number, number> {
  const ranks = training ?? new Map<number, number>();
  for (const [i, column] of columns.entries()) {
    const known = ranks.get(column);
    if (known === undefined && training === undefined) ranks.set(column, ranks.size);
    if (known === undefined && training !== undefined) values[i] = 0;
    columns[i] = ranks.get(column) ?? 0;
  }
  return ranks;
}

function gradientOf(samples: Samples, weights: Float64Array, lambda: number): Float64Array {
  const { count, width, columns, values, labels } = samples;
  const gradient = weights.map((weight) => lambda * weight);
  gradient[0] = 0;
  for (let sample = 0; sample < count; sample++) {
    const probability = 1 / (1 + Math.exp(-logitOf(samples, weights, sample)));
    const wrongness = (probability - (labels[sample] ?? 0)) / count;
    for (let i = sample * width; i < (sample + 1) * width; i++) {
      const column = columns[i] ?? 0;
      gradient[column] = (gradient[column] ?? 0) + wrongness * (values[i] ?? 0);
    }
  }
  return gradient;
}

function logitOf(samples: Samples, weights: Float64Array, sample: number): number {
  const { width, columns, values } = samples;
  let logit = 0;
  for (let i = sample * width; i < (sample + 1) * width; i++) {
    logit += (weights[columns[i] ?? 0] ?? 0) * (values[i] ?? 0);
  }
  return logit;
}
