// A Wukong, rows included, against central differences, and its parameters.

import test from "ava";
import { graphOf } from "../../src/model/model.ts";
import type { ModelOptions } from "../../src/model/options.ts";
import { modelOptions } from "../../src/model/options.ts";
import { modelHasGradients } from "../helpers/models/model-gradients.ts";

const tables = [
  { name: "a", rows: 5, dim: 3 },
  { name: "b", rows: 4, dim: 3, pooling: "mean" as const },
];
const layer = { interacted: 2, compressed: 1, rank: 2, hidden: [4] };
const small = {
  kind: "wukong" as const,
  dense: 2,
  bottom: [4, 3],
  tables,
  top: [5, 1],
};

const models: Readonly<Record<string, Extract<ModelOptions, { kind: "wukong" }>>> = {
  "whose layers keep the number of vectors": { ...small, layers: [layer, layer] },
  "whose layers change it": {
    ...small,
    layers: [
      { ...layer, interacted: 3 },
      { ...layer, compressed: 2 },
    ],
  },
  "whose Y follows from the sample": {
    ...small,
    layers: [layer, { ...layer, attentive: { vectors: 2, hidden: [5] } }],
  },
  "with all dot products": { ...small, layers: [{ ...layer, rank: "full" }] },
  "without dense features, with dropout": {
    ...small,
    dense: 0,
    bottom: [],
    dropout: 0.3,
    layers: [layer],
  },
  "with tables of several dims": {
    ...small,
    tables: [...tables, { name: "c", rows: 3, dim: 7 }],
    layers: [layer],
  },
};

for (const [title, options] of Object.entries(models)) {
  test(`every parameter and row of a Wukong ${title} has the gradient of the loss`, (t) => {
    modelHasGradients(t, options);
  });
}

test("a Wukong has the parameters of the paper's formula", (t) => {
  // 26 features of one vector each, and the vector of the bottom MLP.
  const [n, d, k, hidden, vectors] = [27, 16, 24, 64, 8];
  const layers = [0, 1].map(() => ({ interacted: 4, compressed: 4, rank: k, hidden: [hidden] }));
  const all = Array.from({ length: 26 }, (_, i) => ({ name: `T${i}`, rows: 10, dim: d }));
  const options = { kind: "wukong", dense: 13, bottom: [d], tables: all, layers, top: [1] };
  const { layout } = graphOf(modelOptions.parse(options));
  // Per layer: Y, layer norm and MLP of its products, linear compression, layer norm.
  const own = (inputs: number) =>
    inputs * k +
    2 * inputs * k +
    (inputs * k + 1) * hidden +
    (hidden + 1) * 4 * d +
    4 * inputs +
    2 * d;
  const residual = vectors * n;
  t.is(layout.length, 14 * d + own(n) + residual + own(vectors) + vectors * d + 1);
});

test("layers that keep the number of vectors have no residual projection", (t) => {
  const { layout } = graphOf(modelOptions.parse({ ...small, layers: [layer, layer] }));
  const names = layout.parameters.map(({ name }) => name);
  t.false(names.includes("layers.0.residual.weight"));
  const wide = graphOf(modelOptions.parse({ ...small, layers: [{ ...layer, interacted: 3 }] }));
  t.true(wide.layout.parameters.some(({ name }) => name === "layers.0.residual.weight"));
});
