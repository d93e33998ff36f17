// The complete DLRM, rows included, against central differences: forward and backward as the step
// calls them, on one device, in float64.

import test from "ava";
import { graphOf } from "../../src/model/model.ts";
import { type ModelOptions, modelOptions } from "../../src/model/options.ts";
import { modelHasGradients } from "../helpers/models/model-gradients.ts";

const tables = [
  { name: "a", rows: 5, dim: 3 },
  { name: "b", rows: 4, dim: 3, pooling: "mean" as const, rowBlocks: 2 as const },
];
const small = { kind: "dlrm" as const, top: [5, 1] };

/** Tables of dims 2, 3 and 6. */
const widths = [
  { name: "n", rows: 4, dim: 2 },
  { name: "a", rows: 5, dim: 3 },
  { name: "c", rows: 3, dim: 6 },
];
const wide = { ...small, dense: 2, bottom: [4, 3], tables: widths };
const shared = [
  { column: "a", pooling: "mean" as const },
  { column: "n", pooling: "none" as const, maxLength: 3 },
  { column: "a2", table: "a" },
  { column: "c", vectors: 2 },
  { column: "a3", table: "a", pooling: "none" as const, maxLength: 2, vectors: 2 },
];

const models: Readonly<Record<string, ModelOptions>> = {
  "with dots": { ...small, dense: 2, bottom: [4, 3], tables },
  "with vectors side by side": { ...small, dense: 2, bottom: [4, 3], tables, interaction: "cat" },
  "with both": { ...small, dense: 2, bottom: [4, 3], tables, interaction: "dot+cat" },
  "without dense features": { ...small, tables },
  "without tables": { ...small, dense: 3, bottom: [4] },
  "with one vector alone": { ...small, tables: tables.slice(0, 1), interaction: "dot" },
  "with tables of three dims": { ...small, dense: 2, bottom: [4, 3], tables: widths },
  "of three dims side by side": { ...wide, interaction: "cat" },
  "of three dims, with both": { ...wide, interaction: "dot+cat" },
  "without dense features, of three dims": { ...small, tables: widths, dim: 4 },
  "with features that share tables": { ...wide, features: shared },
  "with shared tables in a group": {
    ...wide,
    features: shared,
    groups: [{ name: "rare", features: ["a2", "a"], vectors: 2 }],
  },
  "with dropout": { ...small, dense: 2, bottom: [3], tables, top: [6, 5, 1], dropout: 0.3 },
};

for (const [title, options] of Object.entries(models)) {
  test(`every parameter and row of a DLRM ${title} has the gradient of the loss`, (t) => {
    modelHasGradients(t, options);
  });
}

test("the input of the top MLP has the width that the interaction gives it", (t) => {
  const width = (interaction: "dot" | "cat" | "dot+cat") =>
    graphOf(
      modelOptions.parse({ ...small, dense: 2, bottom: [3], tables, interaction }),
    ).layout.parameters.find(({ name }) => name === "top.0.weight")?.shape[1];
  t.is(width("dot"), 3 + 3);
  t.is(width("cat"), 9);
  t.is(width("dot+cat"), 9 + 3);
});
