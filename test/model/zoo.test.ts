// Every architecture but DLRM and Wukong, rows included, against central differences; and the
// parameters that each has.

import test from "ava";
import { graphOf } from "../../src/model/model.ts";
import { type ModelOptions, modelOptions } from "../../src/model/options.ts";
import { modelHasGradients } from "../helpers/models/model-gradients.ts";

const tables = [
  { name: "a", rows: 5, dim: 4 },
  { name: "b", rows: 4, dim: 4, pooling: "mean" as const },
  { name: "c", rows: 3, dim: 4 },
];
const weights = tables.map((table) => ({ ...table, dim: 1 }));
const several = tables.map((table, i) => ({ ...table, dim: [4, 2, 7][i] ?? 1 }));

const sessions = {
  tables,
  features: [
    { column: "a2", table: "a", pooling: "none", maxLength: 3 },
    { column: "a" },
    { column: "b" },
    { column: "c" },
  ],
} as const;
const pair = { target: "a", sequence: "a2" };

const models: Readonly<Record<string, ModelOptions>> = {
  "logistic regression": { kind: "lr", dense: 2, tables: weights },
  "logistic regression without dense features": { kind: "lr", tables: weights },
  "factorisation machine": { kind: "fm", dense: 2, tables },
  "Wide & Deep": { kind: "wideAndDeep", dense: 2, tables, top: [5, 1], dropout: 0.3 },
  "Wide & Deep without tables": { kind: "wideAndDeep", dense: 2, top: [5, 1] },
  DeepFM: { kind: "deepFm", tables, top: [5, 1] },
  "DeepFM of features that share a table": {
    kind: "deepFm",
    tables,
    features: [
      { column: "a" },
      { column: "a2", table: "a", pooling: "none", maxLength: 2 },
      { column: "b" },
      { column: "c" },
    ],
    top: [1],
  },
  "DCN v2": { kind: "dcnV2", dense: 2, tables: several, crossLayers: 2, top: [5, 1] },
  "DCN v2 of low rank, parallel": {
    kind: "dcnV2",
    dense: 2,
    bottom: [3],
    tables,
    crossLayers: 2,
    rank: 2,
    structure: "parallel",
    top: [5, 1],
    dropout: 0.3,
  },
  "DLRM with batch normalisation": {
    kind: "dlrm",
    dense: 2,
    bottom: [3, 4],
    tables,
    top: [5, 4, 1],
    batchNorm: true,
    dropout: 0.3,
  },
  "Wukong with batch normalisation": {
    kind: "wukong",
    tables,
    layers: [{ interacted: 2, compressed: 1, rank: 2, hidden: [4] }],
    top: [5, 1],
    batchNorm: true,
  },
  "DCN v2 of projected tables": {
    kind: "dcnV2",
    tables: several,
    dim: 3,
    crossLayers: 1,
    top: [1],
  },
  AutoInt: {
    kind: "autoInt",
    dense: 2,
    bottom: [4],
    tables,
    attentionLayers: 2,
    heads: 2,
    width: 6,
  },
  "AutoInt beside an MLP": {
    kind: "autoInt",
    tables,
    attentionLayers: 1,
    heads: 1,
    width: 3,
    top: [5, 1],
  },
  DIN: { kind: "din", dense: 2, ...sessions, attention: [{ ...pair, hidden: [5] }], top: [5, 1] },
  "DIN with softmax, of projected rows and two targets": {
    kind: "din",
    ...sessions,
    tables: several,
    dim: 3,
    attention: [
      { ...pair, hidden: [5], softmax: true },
      { target: "b", sequence: "a2", hidden: [] },
    ],
    top: [5, 1],
    batchNorm: true,
  },
  "DIN with Dice": {
    kind: "din",
    dense: 2,
    ...sessions,
    attention: [{ ...pair, hidden: [5] }],
    activation: "dice",
    top: [5, 3, 1],
    batchNorm: true,
    dropout: 0.3,
  },
  BST: {
    kind: "bst",
    dense: 2,
    ...sessions,
    tables: tables.map((table) => ({ ...table, dim: 4 })),
    transformers: [{ ...pair, blocks: 2, hidden: 3 }],
    top: [5, 1],
  },
  "BST of projected rows, two targets, and every pooling": {
    kind: "bst",
    ...sessions,
    tables: several,
    dim: 3,
    transformers: [
      { ...pair, heads: 3, pooling: "target" },
      { target: "b", sequence: "a2", heads: 1, pooling: "concat" },
    ],
    top: [5, 1],
    batchNorm: true,
    dropout: 0.3,
  },
  xDeepFM: { kind: "xDeepFm", tables, compressed: [3, 2], top: [5, 1] },
  "MaskNet, parallel": { kind: "maskNet", dense: 2, tables, blocks: 2, width: 4, top: [5, 1] },
  "MaskNet, serial": {
    kind: "maskNet",
    tables: several,
    blocks: 3,
    width: 4,
    reduction: 0.5,
    structure: "serial",
    top: [1],
  },
  FinalMLP: { kind: "finalMlp", dense: 2, tables, first: [6, 4], second: [2], heads: 2 },
  "FinalMLP with learned contexts": {
    kind: "finalMlp",
    tables,
    first: [4],
    second: [4],
    gates: [3],
    batchNorm: true,
  },
  "FinalMLP with features as contexts": {
    kind: "finalMlp",
    tables,
    first: [4],
    second: [4],
    heads: 2,
    gates: [3],
    contexts: [["a"], ["c"]],
  },
  "FinalNet of one block": { kind: "finalNet", dense: 2, tables: several, first: [6, 4] },
  "FinalNet of two blocks, with a field gate": {
    kind: "finalNet",
    dense: 2,
    tables,
    first: [6, 4],
    second: [4],
    fieldGate: true,
    batchNorm: true,
    dropout: 0.3,
  },
  "FinalNet of two blocks over projected tables": {
    kind: "finalNet",
    tables: several,
    dim: 3,
    first: [4],
    second: [4],
    fieldGate: true,
    dropout: 0.3,
  },
  GDCN: { kind: "gdcn", dense: 2, tables, crossLayers: 2, top: [5, 1] },
  "GDCN, parallel": {
    kind: "gdcn",
    tables,
    crossLayers: 3,
    rank: 2,
    structure: "parallel",
    top: [4, 1],
  },
};

for (const [title, options] of Object.entries(models)) {
  test(`every parameter and row has the gradient of the loss: ${title}`, (t) => {
    modelHasGradients(t, options);
  });
}

/** Ten features of ten columns, as Frappe has. */
const frappe = (dim: number) =>
  Array.from({ length: 10 }, (_, i) => ({ name: `f${i}`, rows: 3, dim }));

// The counts of the zoo's run logs on Frappe.
const counts: readonly (readonly [string, ModelOptions, number])[] = [
  ["logistic regression", { kind: "lr", tables: frappe(1) }, 1],
  ["factorisation machine", { kind: "fm", tables: frappe(11) }, 1],
  [
    "DLRM over vectors side by side",
    {
      kind: "dlrm",
      tables: frappe(10),
      interaction: "cat",
      top: [400, 400, 400, 1],
      batchNorm: true,
    },
    364_001,
  ],
  [
    "FinalMLP with contexts",
    {
      kind: "finalMlp",
      tables: [
        ...frappe(10),
        { name: "user2", rows: 3, dim: 10 },
        { name: "item2", rows: 3, dim: 10 },
      ],
      first: [400],
      second: [100],
      heads: 5,
      gates: [400],
      contexts: [["user2"], ["item2"]],
      batchNorm: true,
    },
    149_002,
  ],
  [
    "FinalNet of two blocks",
    {
      kind: "finalNet",
      tables: frappe(10),
      first: [400, 400],
      second: [400],
      fieldGate: true,
      batchNorm: true,
    },
    284_512,
  ],
  [
    "FinalNet of one block",
    { kind: "finalNet", tables: frappe(10), first: [400, 400], batchNorm: true },
    202_801,
  ],
  [
    "DCN v2 of four whole cross layers, parallel",
    {
      kind: "dcnV2",
      tables: frappe(10),
      crossLayers: 4,
      structure: "parallel",
      top: [400, 400, 400, 1],
      batchNorm: true,
    },
    404_501,
  ],
  [
    // By hand: positions 16·4; attention 4·(16·16 + 16); norms 2·2·16; layers 16·8 + 8 + 8·16 + 16;
    // top 2·16 + 1.
    "BST of one block",
    {
      kind: "bst",
      tables: [{ name: "item", rows: 3, dim: 16 }],
      features: [
        { column: "item" },
        { column: "seen", table: "item", pooling: "none", maxLength: 3 },
      ],
      transformers: [{ target: "item", sequence: "seen", heads: 4, hidden: 8 }],
      top: [1],
    },
    64 + 1088 + 64 + 280 + 33,
  ],
];

for (const [title, options, expected] of counts) {
  test(`the number of dense parameters is that of the published model: ${title}`, (t) => {
    t.is(graphOf(modelOptions.parse(options)).layout.trained, expected);
  });
}
