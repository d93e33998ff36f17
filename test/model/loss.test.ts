// The loss of a batch against PyTorch 1.13.1 in float64: each case names the calls that gave its
// mean loss and gradient.

import test from "ava";
import {
  type CrossEntropyRule,
  type Kernels,
  type LossTerm,
  usualLossTerm,
} from "../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { valuesOf } from "../../src/kernels/reference/memory.ts";
import { createReference } from "../../src/kernels/reference/reference.ts";

const kernels: Kernels = createReference("float64");
const samples = 6;
/** The logits z (6,3). */
const logits = [0, 0.3, -2, 5, -1, 0.5, -30, 2, 1, 30, -0.25, -4, 1, 0.75, 0, -0.5, 8, -8];
/** Labels y, and regression targets r: (6,2). */
const labels = [1, 1.5, 0, -2, 1, 0.25, 0, 30, 1, 0, 1, 7];

const entropy = (options: Partial<CrossEntropyRule>): LossTerm => ({
  ...usualLossTerm,
  rule: { kind: "binaryCrossEntropy", positiveWeight: 1, labelSmoothing: 0, ...options },
});
/** Distillation: column `logit` learns from the prediction of column 0, which gets no gradient. */
const distilled = (logit: number, weight: number): LossTerm => ({
  ...usualLossTerm,
  logit,
  weight,
  target: { of: "prediction", column: 0 },
});

/** The labels with some missing: y in samples 2 and 5, r in samples 1 and 4. */
const gaps = labels.map((label, i) => ([3, 4, 9, 10].includes(i) ? Number.NaN : label));

interface Case {
  readonly terms: readonly LossTerm[];
  readonly loss: number;
  /** (6,2): labels if some are missing (NaN). */
  readonly labels?: readonly number[];
  /** (6): the weight of each sample. */
  readonly weights?: readonly number[];
  /** The gradient of the logits: (6,1) or (6,3). */
  readonly gradient: readonly number[];
}

const cases: Readonly<Record<string, Case>> = {
  "binary_cross_entropy_with_logits(z[:, 0], y)": {
    terms: [usualLossTerm],
    loss: 11.164533533457929,
    gradient: [
      -0.08333333333333333, 0.1655511915126192, -0.16666666666665106, 0.1666666666666511,
      -0.04482357022833252, -0.10374322186697577,
    ],
  },
  "BCEWithLogitsLoss(weight=[0.5, 2, 0, 1, 3.25, 0.125])": {
    terms: [usualLossTerm],
    weights: [0.5, 2, 0, 1, 3.25, 0.125],
    loss: 6.91664406578584,
    gradient: [
      -0.041666666666666664, 0.3311023830252384, 0, 0.1666666666666511, -0.14567660324208068,
      -0.01296790273337197,
    ],
  },
  "binary_cross_entropy_with_logits(z[:, 0], y, pos_weight=3)": {
    terms: [entropy({ positiveWeight: 3 })],
    loss: 21.82469548421072,
    gradient: [
      -0.25, 0.1655511915126192, -0.4999999999999532, 0.1666666666666511, -0.13447071068499752,
      -0.3112296656009273,
    ],
  },
  "the same of labels y * 0.9 + 0.05": {
    terms: [entropy({ labelSmoothing: 0.1 })],
    loss: 10.627033533457931,
    gradient: [
      -0.07500000000000001, 0.15721785817928588, -0.15833333333331776, 0.15833333333331776,
      -0.036490236894999195, -0.09540988853364245,
    ],
  },
  "the same of those labels with pos_weight 0.5": {
    terms: [entropy({ labelSmoothing: 0.1, positiveWeight: 0.5 })],
    loss: 8.095217089535437,
    gradient: [
      -0.03541666666666667, 0.15724574505813704, -0.07916666666665849, 0.15833333333331812,
      -0.015199041036541239, -0.04613185814682894,
    ],
  },
  "binary_cross_entropy_with_logits(z[k, 0], y[k], pos_weight=3), k = where y is known; and 0.5 times mse_loss(z[k, 1], r[k]), k = where r is":
    {
      terms: [
        entropy({ positiveWeight: 3 }),
        { logit: 1, target: { of: "label", column: 1 }, weight: 0.5, rule: { kind: "mse" } },
      ],
      labels: gaps,
      loss: 124.57711048818094,
      gradient: [
        -0.375, -0.3, 0.24832678726892882, 0, 0, 0.4375, 0.24999999999997663, -7.5625,
        -0.2017060660274963, 0, 0, 0.25,
      ],
    },
  "BCEWithLogitsLoss(weight=[0.5, 2, 0, 1, 3.25, 0.125][k]) of z[k, 0], k = where y is known": {
    terms: [usualLossTerm],
    labels: gaps,
    weights: [0.5, 2, 0, 1, 3.25, 0.125],
    loss: 10.34452619292313,
    gradient: [-0.0625, 0.49665357453785763, 0, 0.24999999999997663, -0.21851490486312103, 0],
  },
  "mse_loss(z[:, 0], r)": {
    terms: [{ ...usualLossTerm, target: { of: "label", column: 1 }, rule: { kind: "mse" } }],
    loss: 170.59375,
    gradient: [-0.5, 2.333333333333333, -10.083333333333332, 0, 0.3333333333333333, -2.5],
  },
  "the first, and 0.5 and 2 times that of z[:, 1], z[:, 2] and sigmoid(z[:, 0]).detach()": {
    terms: [usualLossTerm, distilled(1, 0.5), distilled(2, 2)],
    loss: 15.59208874461371,
    gradient: [
      -0.08333333333333333, 0.006203543067638252, -0.1269323593259608, 0.1655511915126192,
      -0.06036381064214335, -0.12361593929128689, -0.16666666666665106, 0.07339975649814906,
      0.2436861928766371, 0.1666666666666511, -0.04684804174047538, -0.32733793001260497,
      -0.04482357022833252, -0.004323323287884327, -0.07701952621000163, -0.10374322186697577,
      0.05184366508928235, -0.12573510622255965,
    ],
  },
};

for (const [title, { terms, loss, weights, gradient, labels: own = labels }] of Object.entries(
  cases,
)) {
  test(`the loss and its gradient equal PyTorch's: ${title}`, (t) => {
    const width = gradient.length / samples;
    const z = kernels.tensor([samples, width]);
    valuesOf(z).set(logits.filter((_, i) => i % 3 < width));
    const y = kernels.tensor([samples, 2]);
    valuesOf(y).set(own);
    const known = (column: number) => own.filter((y, i) => i % 2 === column && !Number.isNaN(y));
    const labelled = own === labels ? undefined : [known(0).length, known(1).length];
    const dLogits = kernels.tensor([samples, width]);
    valuesOf(dLogits).fill(Number.NaN);
    const losses = new Float64Array(4).fill(Number.NaN);
    const w = weights && kernels.tensor([samples]);
    if (w !== undefined) valuesOf(w).set(weights ?? []);
    kernels.loss(losses, dLogits, z, y, terms, samples, slicesOf(0, 4, 4, samples), w, labelled);
    const found = losses.reduce((sum, one) => sum + one, 0) / samples;
    t.true(Math.abs(found - loss) < 1e-13 * loss, `a loss of ${found}`);
    for (const [i, expected] of gradient.entries()) {
      const own = valuesOf(dLogits)[i] ?? Number.NaN;
      t.true(Math.abs(own - expected) < 1e-13, `gradient ${i} is ${own}, not ${expected}`);
    }
  });
}

test("a batch in which no sample has a label has no loss and no gradient", (t) => {
  const z = kernels.tensor([samples, 1]);
  valuesOf(z).fill(3);
  const y = kernels.tensor([samples, 1]);
  valuesOf(y).fill(Number.NaN);
  const dLogits = kernels.tensor([samples, 1]);
  valuesOf(dLogits).fill(Number.NaN);
  const losses = new Float64Array(4).fill(Number.NaN);
  const slices = slicesOf(0, 4, 4, samples);
  kernels.loss(losses, dLogits, z, y, [usualLossTerm], samples, slices, undefined, [0]);
  t.deepEqual([...losses, ...valuesOf(dLogits)], new Array(10).fill(0));
});

test("a logit without a term has no gradient", (t) => {
  const z = kernels.tensor([samples, 3]);
  const dLogits = kernels.tensor([samples, 3]);
  valuesOf(dLogits).fill(Number.NaN);
  const slices = slicesOf(0, 4, 4, samples);
  const y = kernels.tensor([samples, 1]);
  kernels.loss(new Float64Array(4), dLogits, z, y, [usualLossTerm], samples, slices);
  t.deepEqual([...valuesOf(dLogits)].slice(0, 3), [1 / 12, 0, 0]);
});
