// Evaluation metrics, computed exactly: functions of all logits and labels, in float64 and in index
// order, so that the same samples in the same order give the same bits on every machine.

import { strict as assert } from "node:assert";
import { evaluateNumbers, type NumberMetrics } from "./number-metrics.ts";

/**
 * Metrics of the samples that have the label. A metric is NaN where these samples do not define it;
 * JSON writes NaN as null. For a numeric label, the metrics of classes are NaN.
 */
export interface Metrics {
  readonly samples: number;
  /** Number of positive samples; 0 for a numeric label. */
  readonly positives: number;
  /** Mean binary cross entropy, in nats. NaN without samples. */
  readonly logLoss: number;
  /** Probability that a positive outranks a negative, ties half. NaN without both classes. */
  readonly auc: number;
  /**
   * Log loss over the entropy of the base rate: below 1 is better than knowing only the base rate
   * (He et al., "Practical lessons from predicting clicks on ads", 2014). NaN without both classes.
   */
  readonly normalizedEntropy: number;
  /** Mean prediction over the mean label; 1 is calibrated. NaN where the mean label is 0. */
  readonly calibration: number;
  /**
   * AUC within groups: the mean of the AUCs of all groups with both classes, weighted by their
   * samples (Zhou et al., "Deep interest network", 2018). NaN where no group has both; left out
   * where samples have no groups.
   */
  readonly gauc?: number | undefined;
  /** These four metrics exist for a numeric label only (number-metrics.ts). */
  readonly mse?: NumberMetrics["mse"] | undefined;
  readonly rmse?: NumberMetrics["rmse"] | undefined;
  readonly mae?: NumberMetrics["mae"] | undefined;
  readonly r2?: NumberMetrics["r2"] | undefined;
  /** Metrics at the thresholds of the job; left out if it has none. */
  readonly thresholds?: readonly ThresholdMetrics[] | undefined;
  /**
   * Metrics of each task by its name, if the model has several tasks. The other fields of `Metrics`
   * are then those of the first task.
   */
  readonly tasks?: Readonly<Record<string, TaskMetrics>> | undefined;
}

/** Metrics of the classifier that predicts a positive for a probability of at least `threshold`. */
export interface ThresholdMetrics {
  readonly threshold: number;
  /** Share of positives among the predicted positives. NaN without predicted positives. */
  readonly precision: number;
  /** Share of the positives that were predicted positive. NaN without positives. */
  readonly recall: number;
  /** Harmonic mean of both: 0 where no positive was found. NaN without positives. */
  readonly f1: number;
}

/** Metrics of one of several tasks. */
export type TaskMetrics = Omit<Metrics, "tasks">;

/**
 * A model's predictions and the labels of all held-out samples, in file order. L = labels of a
 * sample.
 */
export interface Scores {
  readonly samples: number;
  /** (samples, L) */
  readonly logits: Float32Array;
  /** (samples, L) */
  readonly labels: Float32Array;
  /** (2, samples): a group has equal pairs (src/data/targets.ts). */
  readonly groups?: Float32Array | undefined;
}

/** A label that a model predicts. */
export interface ScoredLabel {
  readonly name: string;
  /** Whether the label is numeric and the logit itself is its prediction; else it is a class. */
  readonly isNumber: boolean;
}

/**
 * Returns the metrics of a model with a task for each of `tasks`. `thresholds` are probabilities.
 */
export function evaluateScores(
  scores: Scores,
  tasks: readonly ScoredLabel[] = [{ name: "label", isNumber: false }],
  thresholds: readonly number[] = [],
): Metrics {
  const all = tasks.map(({ isNumber }, task) => {
    const own = ofTask(scores, task, tasks.length);
    return isNumber ? evaluateNumberTask(own) : evaluateTask(own, thresholds);
  });
  const [first] = all;
  assert(first !== undefined, "a model has at least one task");
  if (all.length === 1) return first;
  const named = tasks.map(({ name }, i) => [name, all[i] ?? first] as const);
  return { ...first, tasks: Object.fromEntries(named) };
}

/** The scores of one task, restricted to the samples that have its label. */
function ofTask(scores: Scores, task: number, tasks: number): Scores {
  const of = (all: Float32Array) => (tasks === 1 ? all : all.filter((_, i) => i % tasks === task));
  const [logits, labels] = [of(scores.logits), of(scores.labels)];
  const isKnown = (_value: number, i: number) => !Number.isNaN(labels[i % labels.length]);
  const known = labels.filter(isKnown);
  if (known.length === labels.length) return { ...scores, logits, labels };
  return {
    samples: known.length,
    logits: logits.filter(isKnown),
    labels: known,
    groups: scores.groups?.filter(isKnown),
  };
}

function evaluateNumberTask({ samples, logits, labels }: Scores): TaskMetrics {
  const undefinedHere = { logLoss: Number.NaN, auc: Number.NaN, normalizedEntropy: Number.NaN };
  return { samples, positives: 0, ...undefinedHere, ...evaluateNumbers(logits, labels) };
}

function evaluateTask(
  { groups, logits, labels }: Scores,
  thresholds: readonly number[],
): TaskMetrics {
  const at = thresholds.map((threshold) => evaluateAt(threshold, logits, labels));
  return {
    ...evaluate(logits, labels),
    ...(groups !== undefined && { gauc: gaucOf(logits, labels, groups) }),
    ...(at.length > 0 && { thresholds: at }),
  };
}

/**
 * Returns the metrics of N predictions. `logits` (N) may be infinite; a NaN among them makes log
 * loss, AUC and the metrics derived from them NaN. `labels` (N) are 0 or 1. Neither is changed.
 * @throws AssertionError where the lengths differ, or a label is neither 0 nor 1
 */
export function evaluate(logits: Float32Array, labels: Float32Array): Metrics {
  const samples = logits.length;
  assert.equal(labels.length, samples, "one label for each logit");
  let positives = 0;
  let lossSum = 0;
  let predictionSum = 0;
  for (let i = 0; i < samples; i++) {
    const logit = logits[i] ?? Number.NaN;
    const label = labels[i];
    assert(label === 0 || label === 1, `label ${i} is 0 or 1, not ${label}`);
    // exp(-|logit|) serves both: log(1 + e^-|x|) and the sigmoid; neither can overflow.
    const decay = Math.exp(-Math.abs(logit));
    const wrongness = label === 1 ? -logit : logit;
    lossSum += Math.max(wrongness, 0) + Math.log1p(decay);
    predictionSum += (logit >= 0 ? 1 : decay) / (1 + decay);
    positives += label;
  }
  const logLoss = samples === 0 ? Number.NaN : lossSum / samples;
  const baseRate = positives / samples;
  const hasBoth = positives > 0 && positives < samples;
  return {
    samples,
    positives,
    logLoss,
    auc: hasBoth ? aucOf(logits, labels, positives) : Number.NaN,
    normalizedEntropy: hasBoth ? logLoss / entropyOf(baseRate) : Number.NaN,
    calibration: positives > 0 ? predictionSum / samples / baseRate : Number.NaN,
  };
}

/** Metrics at one threshold. A NaN logit predicts a negative. */
function evaluateAt(
  threshold: number,
  logits: Float32Array,
  labels: Float32Array,
): ThresholdMetrics {
  let [taken, found, positives] = [0, 0, 0];
  for (let i = 0; i < logits.length; i++) {
    const label = labels[i] ?? 0;
    positives += label;
    if (!(probabilityOf(logits[i] ?? Number.NaN) >= threshold)) continue;
    taken++;
    found += label;
  }
  const share = (part: number, whole: number) => (whole === 0 ? Number.NaN : part / whole);
  return {
    threshold,
    precision: share(found, taken),
    recall: share(found, positives),
    f1: positives === 0 ? Number.NaN : (2 * found) / (taken + positives),
  };
}

/** The sigmoid in float64: a probability of exactly one half is a logit of 0. */
function probabilityOf(logit: number): number {
  const decay = Math.exp(-Math.abs(logit));
  return (logit >= 0 ? 1 : decay) / (1 + decay);
}

/** Entropy of a coin that shows 1 with probability `rate`, in nats. */
function entropyOf(rate: number): number {
  return -(rate * Math.log(rate) + (1 - rate) * Math.log1p(-rate));
}

/**
 * Mann and Whitney's U by one sort of plain numbers: each holds a logit's rank key and, as its
 * lowest bit, the label. Counts stay whole numbers below 2^53 up to 10^8 samples: exact.
 */
function aucOf(logits: Float32Array, labels: Float32Array, positives: number): number {
  const keys = sortKeys(logits, labels);
  if (keys === undefined) return Number.NaN;
  let negativesBelow = 0;
  let winsTwice = 0;
  for (let start = 0; start < keys.length; ) {
    const key = Math.floor((keys[start] ?? 0) / 2);
    const tied = [0, 0] as [number, number];
    let end = start;
    for (; end < keys.length && Math.floor((keys[end] ?? 0) / 2) === key; end++) {
      if ((keys[end] ?? 0) % 2 === 1) tied[1]++;
      else tied[0]++;
    }
    winsTwice += tied[1] * (2 * negativesBelow + tied[0]);
    negativesBelow += tied[0];
    start = end;
  }
  return winsTwice / (2 * positives * (logits.length - positives));
}

/** See `Metrics.gauc`. Groups are added up in the order of their first samples. */
function gaucOf(logits: Float32Array, labels: Float32Array, groups: Float32Array): number {
  const { order, starts } = byGroup(groups, logits.length);
  const sortedLogits = Float32Array.from(order, (sample) => logits[sample] ?? Number.NaN);
  const sortedLabels = Float32Array.from(order, (sample) => labels[sample] ?? Number.NaN);
  let sum = 0;
  let counted = 0;
  for (let group = 0; group + 1 < starts.length; group++) {
    const [first, end] = [starts[group] ?? 0, starts[group + 1] ?? 0];
    const own = sortedLabels.subarray(first, end);
    const positives = own.reduce((total, label) => total + label, 0);
    if (positives === 0 || positives === own.length) continue;
    sum += own.length * aucOf(sortedLogits.subarray(first, end), own, positives);
    counted += own.length;
  }
  return counted === 0 ? Number.NaN : sum / counted;
}

/** The samples ordered by group, and the start of each group, followed by the end of the last. */
function byGroup(
  groups: Float32Array,
  samples: number,
): { readonly order: Uint32Array; readonly starts: readonly number[] } {
  const numbers = new Map<number, number>();
  const counts: number[] = [];
  const numberOf = Uint32Array.from({ length: samples }, (_, sample) => {
    const key = (groups[sample] ?? 0) * 2 ** 24 + (groups[samples + sample] ?? 0);
    const number = numbers.get(key) ?? numbers.size;
    numbers.set(key, number);
    counts[number] = (counts[number] ?? 0) + 1;
    return number;
  });
  const starts = [0];
  for (const count of counts) starts.push((starts.at(-1) ?? 0) + count);
  const order = new Uint32Array(samples);
  const next = [...starts];
  for (const [sample, number] of numberOf.entries()) {
    const place = next[number] ?? 0;
    order[place] = sample;
    next[number] = place + 1;
  }
  return { order, starts };
}

/** Sorted keys 2 * rank key + label; undefined where a logit is NaN, which has no rank. */
function sortKeys(logits: Float32Array, labels: Float32Array): Float64Array | undefined {
  const keys = new Float64Array(logits.length);
  const value = new Float32Array(1);
  const bits = new Uint32Array(value.buffer);
  for (let i = 0; i < keys.length; i++) {
    // Adding 0 turns -0 into +0, so that the two zeros tie.
    value[0] = (logits[i] ?? 0) + 0;
    if (Number.isNaN(value[0])) return undefined;
    const word = bits[0] ?? 0;
    // Negative floats order backwards by their bits; flipped, all bits order as the numbers do.
    const rank = word >= 0x8000_0000 ? ~word >>> 0 : word + 0x8000_0000;
    keys[i] = 2 * rank + (labels[i] ?? 0);
  }
  return keys.sort();
}
