// Copies of samples from the blocks of a cache to batches: batches have the samples that were put
// into the blocks, in any order, with the addon and without.

import test from "ava";
import { batchCopier, copierOf } from "../../../src/data/cache/batch-copies.ts";
import { BlockEncoder } from "../../../src/data/cache/block-encoder.ts";
import type { BlockShape } from "../../../src/data/cache/cache-format.ts";
import { layoutOf, unfoldedWords } from "../../../src/data/cache/folded-records.ts";
import type { BatchMemory } from "../../../src/data/dataset.ts";
import { Sample } from "../../../src/data/sample.ts";
import type { Targets } from "../../../src/data/targets.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { sameValues } from "../../helpers/same-values.ts";

type DrawnShape = BlockShape & { readonly targets: Targets };

/** A random sample shape; if `isPlain`, ids have 32 bits and no weights. */
function drawnShape(random: RandomStream, isPlain: boolean): DrawnShape {
  const features = random.below(6);
  const drawn = () => Array.from({ length: features }, () => !isPlain && random.below(3) === 0);
  const targets = {
    labels: 1 + random.below(3),
    hasSampleWeights: random.below(2) === 0,
    hasGroups: random.below(2) === 0,
  };
  return { dense: random.below(4), features, wide: drawn(), weighted: drawn(), targets };
}

/** A block of random samples, half of whose bags repeat, and the samples. */
function drawnBlock(random: RandomStream, shape: DrawnShape) {
  const encoder = new BlockEncoder(shape);
  let before: Sample | undefined;
  const samples = Array.from({ length: 32 }, () => {
    const sample = new Sample(shape);
    sample.labels.forEach((_, i) => {
      sample.labels[i] = random.below(9) / 8;
    });
    sample.dense.forEach((_, i) => {
      sample.dense[i] = random.below(5) === 0 ? Number.NaN : random.below(1000) / 8;
    });
    let first = 0;
    for (let feature = 0; feature < shape.features; feature++) {
      const end = first + (before?.lengths[feature] ?? 0);
      if (before !== undefined && random.below(2) === 0) {
        for (let at = first; at < end; at++) {
          sample.push(feature, before.ids[at] ?? 0, before.weights[at], before.highs[at]);
        }
        first = end;
        continue;
      }
      first = end;
      const length = random.below(5) === 0 ? random.below(9) : 1;
      for (let i = 0; i < length; i++) {
        const weight = shape.weighted[feature] === true ? random.below(9) / 4 : 1;
        sample.push(feature, random.word() | 0, weight, random.word() | 0);
      }
    }
    before = sample;
    return { sample, words: encoder.append(sample) };
  });
  const words = Int32Array.from(samples.at(-1)?.words ?? []);
  return { words, samples: samples.map(({ sample }) => sample) };
}

/** The expected batch of samples by definition: feature after feature. */
function batchOf(samples: readonly Sample[], shape: DrawnShape, memory: BatchMemory) {
  let at = 0;
  samples.forEach((sample, b) => {
    memory.labels.set(sample.labels, b * shape.targets.labels);
    memory.dense.set(sample.dense, b * shape.dense);
  });
  for (let feature = 0; feature < shape.features; feature++) {
    samples.forEach(({ lengths, ids, highs, weights }, b) => {
      const first = lengths.subarray(0, feature).reduce((sum, length) => sum + length, 0);
      const end = first + (lengths[feature] ?? 0);
      memory.lengths[feature * samples.length + b] = end - first;
      memory.ids.set(ids.subarray(first, end), at);
      if (shape.wide[feature] === true) memory.highs?.set(highs.subarray(first, end), at);
      memory.weights?.set(weights.subarray(first, end), at);
      at += end - first;
    });
  }
  return at;
}

test("samples are copied out of blocks in any order, with the addon and without", (t) => {
  const random = new RandomStream(11, 1);
  for (let round = 0; round < 150; round++) {
    const shape = drawnShape(random, round % 2 === 0);
    const blocks = [drawnBlock(random, shape), drawnBlock(random, shape)];
    const B = random.below(150);
    const isPlain = ![...shape.wide, ...shape.weighted].includes(true);
    const newMemory = (): BatchMemory => ({
      labels: new Float32Array(B * shape.targets.labels),
      dense: new Float32Array(B * shape.dense),
      lengths: new Int32Array(B * shape.features),
      ids: new Int32Array(B * shape.features * 8),
      ...(isPlain && round % 4 === 0
        ? {}
        : {
            highs: new Int32Array(B * shape.features * 8),
            weights: new Float32Array(B * shape.features * 8),
          }),
    });
    // The first half comes from the first block in order, the rest from the second block in random
    // order.
    const half = Math.min(32, B >> 1);
    const slots = Array.from({ length: B }, (_, b) => (b < half ? b : random.below(32)));
    const starts = new Int32Array(B + 1);
    const froms = Int32Array.from(slots, (slot, b) => {
      const { words } = blocks[b < half ? 0 : 1] ?? { words: new Int32Array(0) };
      const [from, next] = [words[slot] ?? 0, words[slot + 1] ?? 0];
      const size =
        from < 0 ? unfoldedWords(words, ~from, layoutOf(shape)) : (next < 0 ? ~next : next) - from;
      starts[b + 1] = (starts[b] ?? 0) + size;
      return from;
    });
    const own = slots.map((slot, b) => blocks[b < half ? 0 : 1]?.samples[slot] as Sample);
    const wanted = newMemory();
    const ids = batchOf(own, shape, wanted);
    for (const copier of [batchCopier(shape), copierOf(shape)]) {
      const records = { words: new Int32Array((starts[B] ?? 0) + 3), starts };
      for (const [i, [first, end]] of [[0, half] as const, [half, B] as const].entries()) {
        copier.gather(records, blocks[i]?.words ?? records.words, froms, first, end);
      }
      const memory = newMemory();
      t.is(copier.copy(memory, records, B), ids);
      sameValues(t, Object.values(memory), Object.values(wanted));
      if (B * shape.features === 0) continue;
      // Malformed records: a bag is longer than the record.
      const last = records.words.slice();
      const lengthsAt = (starts[1] ?? 0) - 1 - (own[0]?.idCount ?? 0);
      last[lengthsAt] = (last[lengthsAt] ?? 0) ^ 1;
      const isBag = isPlain && (own[0]?.idCount ?? 0) > 0;
      if (isBag) {
        t.throws(() => copier.copy(newMemory(), { words: last, starts }, B), {
          message: /bags as long as their samples/,
        });
      }
    }
  }
});
