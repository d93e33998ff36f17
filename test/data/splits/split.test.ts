// The random split into training and evaluation data: disjoint and complete.

import test from "ava";
import type { Dataset } from "../../../src/data/dataset.ts";
import { planSplit, splitDataset } from "../../../src/data/split.ts";
import { oneLabel } from "../../../src/data/targets.ts";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import { readPlain } from "../data-files.ts";

/** A dataset of samples whose one dense feature is their index. */
function startDataset(samples: number, onClose = () => {}): Dataset {
  return {
    samples,
    dense: 1,
    features: 0,
    wide: [],
    weighted: [],
    idsMax: [],
    targets: oneLabel,
    read(indices, batch) {
      for (const [b, index] of indices.entries()) batch.dense[b] = index;
      return 0;
    },
    hold: async () => {},
    bytesRead: { file: 0, samples: 0 },
    close: onClose,
  };
}

const samplesOf = (view: Dataset) => readPlain(view).map(({ dense }) => dense[0] ?? -1);

test("the two parts are disjoint, complete together, and in the dataset's order", (t) => {
  const dataset = startDataset(1000);
  const split = { seed: 4, fraction: 0.2 };
  const train = samplesOf(splitDataset(dataset, { ...split, part: "train" }));
  const heldOut = samplesOf(splitDataset(dataset, { ...split, part: "heldOut" }));
  t.is(heldOut.length, 200);
  t.deepEqual(
    [...train, ...heldOut].sort((a, b) => a - b),
    Array.from({ length: 1000 }, (_, i) => i),
  );
  for (const part of [train, heldOut])
    t.deepEqual(
      part,
      [...part].sort((a, b) => a - b),
    );
});

test("the choice depends on the seed, and is spread over the whole dataset", (t) => {
  const dataset = startDataset(1000);
  const heldOut = (seed: number) =>
    samplesOf(splitDataset(dataset, { seed, fraction: 0.2, part: "heldOut" }));
  t.deepEqual(heldOut(1), heldOut(1));
  t.notDeepEqual(heldOut(1), heldOut(2));
  const inFirstHalf = heldOut(1).filter((sample) => sample < 500).length;
  t.true(Math.abs(inFirstHalf - 100) < 30);
});

test("any samples of a part can be read, in any order", (t) => {
  const view = splitDataset(startDataset(50), { seed: 1, fraction: 0.5, part: "train" });
  const all = samplesOf(view);
  t.deepEqual(
    readPlain(view, [24, 3, 3]).map(({ dense }) => dense[0]),
    [all[24], all[3], all[3]],
  );
});

test("closing a part closes the dataset", (t) => {
  t.plan(1);
  const dataset = startDataset(10, () => t.pass());
  splitDataset(dataset, { seed: 1, fraction: 0.5, part: "train" }).close();
});

test("a share that leaves a part empty is refused", (t) => {
  for (const fraction of [0, 1, -0.1, 1.5, 0.001, Number.NaN]) {
    const split = () => splitDataset(startDataset(100), { seed: 1, fraction, part: "train" });
    t.throws(split, {
      instanceOf: InvalidOptionError,
      message: /Expected `fraction` to be a share/,
    });
  }
});

test("a part that is a range has the numbers of its samples beyond 2^32", (t) => {
  const dataset = { ...startDataset(2 ** 33), pieces: Float64Array.of(0, 2 ** 32, 2 ** 33) };
  const [seed, from] = [1, 2 ** 32 + 5];
  const view = splitDataset(dataset, { seed, by: "place", from });
  t.is(view.samples, 2 ** 32 - 5);
  t.deepEqual(view.pieces, Float64Array.of(0, 2 ** 32 - 5));
  const read: number[] = [];
  const spied = splitDataset(
    { ...dataset, read: (indices) => read.push(...indices) },
    { seed, by: "place", from },
  );
  const none = new Float32Array();
  const memory = { dense: none, labels: none, lengths: new Int32Array(), ids: new Int32Array() };
  spied.read(Float64Array.of(0, 2 ** 32 - 6, 2 ** 32 - 5), memory);
  // The last index lies beyond the part and, as 2^33, beyond the dataset, which would refuse it.
  t.deepEqual(read, [2 ** 32 + 5, 2 ** 33 - 1, 2 ** 33]);
});

test("a part that is no range is refused for more samples than 32 bits number", (t) => {
  const keys = () => ({ form: "number" as const, values: new Float64Array() });
  t.throws(() => planSplit(2 ** 32 + 1, { fraction: 0.1 }, keys), {
    instanceOf: InvalidOptionError,
    message:
      "Expected at most 4294967296 samples that are drawn, got 4294967297: set " +
      '`evaluation.split` to `{ kind: "order" }`, which evaluates on the last samples',
  });
  const { evaluation } = planSplit(10 ** 12, { fraction: 0.1, split: { kind: "order" } }, keys);
  t.deepEqual(evaluation, { samples: 10 ** 11, split: { by: "place", from: 9 * 10 ** 11 } });
});
