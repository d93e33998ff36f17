// Folded blocks store a repeated bag once: folded records unfold to the originals, with every
// folder and way of appending, and sessions take less space.

import test from "ava";
import { copierOf } from "../../../src/data/cache/batch-copies.ts";
import { BlockEncoder } from "../../../src/data/cache/block-encoder.ts";
import type { BlockShape } from "../../../src/data/cache/cache-format.ts";
import {
  folderOf,
  layoutOf,
  plainFolder,
  repeatWords,
  unfold,
  unfoldedWords,
} from "../../../src/data/cache/folded-records.ts";
import { Sample } from "../../../src/data/sample.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { sameValues } from "../../helpers/same-values.ts";

type DrawnShape = BlockShape & { readonly features: number };

function drawnShape(random: RandomStream, isPlain: boolean): DrawnShape {
  const features = random.below(40);
  const drawn = () => Array.from({ length: features }, () => !isPlain && random.below(3) === 0);
  return { dense: random.below(3), features, wide: drawn(), weighted: drawn() };
}

/** Samples whose bags mostly equal those of the sample before. */
function drawnSamples(random: RandomStream, shape: DrawnShape, count: number): Sample[] {
  const samples: Sample[] = [];
  const keptOf10 = random.below(11);
  for (let i = 0; i < count; i++) {
    const [sample, before] = [new Sample(shape), samples.at(-1)];
    sample.dense.forEach((_, at) => {
      sample.dense[at] = random.below(100) / 4;
    });
    let first = 0;
    for (let t = 0; t < shape.features; t++) {
      const end = first + (before?.lengths[t] ?? 0);
      if (before !== undefined && random.below(10) < keptOf10) {
        for (let at = first; at < end; at++) {
          sample.push(t, before.ids[at] ?? 0, before.weights[at], before.highs[at]);
        }
      } else {
        const length = random.below(3) === 0 ? random.below(9) : random.below(2);
        for (let at = 0; at < length; at++) {
          sample.push(t, random.below(4), random.below(3) / 4, random.below(2));
        }
      }
      first = end;
    }
    samples.push(sample);
  }
  return samples;
}

/** The records of samples before folding. */
function wholeRecords(samples: readonly Sample[], shape: DrawnShape) {
  const records = samples.map((sample) => {
    const encoder = new BlockEncoder(shape);
    encoder.append(sample);
    return encoder.rest()?.slice(2) ?? new Int32Array(0);
  });
  const starts = new Int32Array(samples.length + 1);
  for (const [i, { length }] of records.entries()) starts[i + 1] = (starts[i] ?? 0) + length;
  const words = new Int32Array(starts.at(-1) ?? 0);
  for (const [i, record] of records.entries()) words.set(record, starts[i]);
  return { words, starts, width: undefined };
}

test("blocks are equal, however their samples are appended, and unfold to the originals", (t) => {
  const random = new RandomStream(23, 1);
  let folded = 0;
  for (let round = 0; round < 150; round++) {
    const shape = drawnShape(random, round % 2 === 0);
    const layout = layoutOf(shape);
    const samples = drawnSamples(random, shape, 1 + random.below(32));
    const records = wholeRecords(samples, shape);
    const [one, many] = [new BlockEncoder(shape), new BlockEncoder(shape)];
    const blockOf = (encoder: BlockEncoder, block: Int32Array | undefined) =>
      (block ?? encoder.rest() ?? new Int32Array(0)).slice();
    const block = blockOf(one, samples.map((sample) => one.append(sample)).at(-1));
    for (let at = 0; at < samples.length; ) {
      const some = Math.min(samples.length - at, 1 + random.below(7));
      const whole = many.appendRecords(records, at, some);
      at += some;
      if (at === samples.length) sameValues(t, blockOf(many, whole), block);
    }
    for (const append of [plainFolder(layout), folderOf(layout)]) {
      const more = repeatWords(layout);
      const words = new Int32Array(33 + records.words.length + more);
      const last = new Int32Array(3 * shape.features).fill(-1);
      words[0] = 33;
      const place = { samples: 0, used: 33 };
      const end = append.append({ words, last }, place, records, 0, samples.length);
      const unused = 32 - samples.length;
      const expected = block.subarray(1 + samples.length);
      sameValues(t, words.subarray(33, end), expected, `round ${round}`);
      t.is(end - unused, block.length);
    }
    t.true(block.length <= records.words.length + samples.length + 1, "one word more a sample");
    const out = new Int32Array(records.words.length);
    for (const [i, start] of block.subarray(0, samples.length).entries()) {
      const [to, end] = [records.starts[i] ?? 0, records.starts[i + 1] ?? 0];
      if (start < 0) {
        folded++;
        t.is(unfoldedWords(block, ~start, layout), end - to);
        unfold(out, to, block, ~start, layout);
      } else out.set(block.subarray(start, start + end - to), to);
    }
    sameValues(t, out, records.words);
    const gathered = new Int32Array(records.words.length);
    const froms = block.slice(0, samples.length);
    const { starts } = records;
    copierOf(shape).gather({ words: gathered, starts }, block, froms, 0, samples.length);
    sameValues(t, gathered, records.words);
  }
  t.true(folded > 500, `${folded} records were folded`);
});

test("a block stores each list of a session once, and the next block starts anew", (t) => {
  const shape = { dense: 0, features: 2, wide: [false, false], weighted: [] };
  const encoder = new BlockEncoder(shape);
  const blocks: Int32Array[] = [];
  for (let i = 0; i < 64; i++) {
    const sample = new Sample(shape);
    for (let id = 0; id < 100; id++) sample.push(0, 1000 + id);
    sample.push(1, i);
    const block = encoder.append(sample);
    if (block !== undefined) blocks.push(block.slice());
  }
  // Each record has a label, two lengths and an id; the list once, then two words that refer to it.
  const words = 33 + 32 * 3 + 100 + 31 * 2;
  t.deepEqual(
    blocks.map(({ length }) => length),
    [words, words],
  );
  t.deepEqual(blocks[1]?.subarray(33, 36), blocks[0]?.subarray(33, 36));
});

test("a list that returns after another one is not folded onto the sample before", (t) => {
  const shape = { dense: 0, features: 1, wide: [false], weighted: [] };
  const encoder = new BlockEncoder(shape);
  for (const ids of [[1, 2, 3, 4, 5], [7], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]) {
    const sample = new Sample(shape);
    for (const id of ids) sample.push(0, id);
    encoder.append(sample);
  }
  const block = encoder.rest();
  const starts = [...(block?.subarray(0, 5) ?? [])];
  t.deepEqual(
    starts.map((start) => start < 0),
    [false, false, false, true, false],
  );
});
