// Scores the samples of a dataset with a trained model, batch by batch.

import type { EncodedBatch } from "../../../src/data/batch-rows.ts";
import { holdAt } from "../../../src/data/cache/pieces.ts";
import { type Dataset, memoryFor, readSamples } from "../../../src/data/dataset.ts";
import { groupWords } from "../../../src/data/targets.ts";
import { batchSamplesMax } from "../../../src/serving/scorer.ts";
import { createScores } from "../../../src/training/loop/evaluation.ts";
import type { Scores } from "../../../src/training/loop/metrics.ts";

/** A scorer of encoded samples, such as a `Model`. `first`: index of the batch's first sample. */
export interface Scoring {
  readonly tasks: readonly string[];
  logitsOf(batch: EncodedBatch, first: number): Promise<Float32Array>;
}

/**
 * The logits, labels and groups of all samples of a dataset; `block` samples are in memory at a
 * time. `change` may replace the features of a block, whose first sample is `first`.
 */
export async function scoreSamples(
  model: Scoring,
  dataset: Dataset,
  block = batchSamplesMax,
  change: (batch: EncodedBatch, first: number) => EncodedBatch = (batch) => batch,
): Promise<Scores> {
  const scores = createScores(dataset.samples, dataset.targets);
  for (let first = 0; first < dataset.samples; first += block) {
    const samples = Math.min(block, dataset.samples - first);
    await holdAt(dataset, first, samples);
    const batch = change(readBatch(dataset, first, samples, scores), first);
    scores.logits.set(await model.logitsOf(batch, first), model.tasks.length * first);
  }
  return scores;
}

/** Reads samples `first` to `first + samples - 1`; their labels and groups go to `scores`. */
function readBatch(dataset: Dataset, first: number, samples: number, scores: Scores): EncodedBatch {
  const indices = Float64Array.from({ length: samples }, (_, i) => first + i);
  const memory = memoryFor(dataset, samples);
  const { labels: L } = dataset.targets;
  const labels = scores.labels.subarray(L * first, L * (first + samples));
  const batch = readSamples(dataset, indices, { ...memory, labels });
  const { dense, lengths, ids, highs, weights, groups, idCount: count } = batch;
  for (let half = 0; groups !== undefined && half < groupWords; half++) {
    const own = groups.subarray(half * samples, (half + 1) * samples);
    scores.groups?.set(own, half * scores.samples + first);
  }
  return {
    samples,
    dense,
    lengths,
    ids: ids.subarray(0, count),
    highs: highs?.subarray(0, count),
    weights: weights?.subarray(0, count),
  };
}
