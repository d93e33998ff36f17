// Every architecture except DLRM and Wukong, rows included, against central differences; and the
// parameter count of each.

import test from "ava";
import { graphOf } from "../../src/model/model.ts";
import { type ModelOptions, modelOptions } from "../../src/model/options.ts";
import { modelHasGradients } from "../helpers/models/model-gradients.ts";
import { zoo } from "../helpers/models/zoo.ts";

for (const [title, options] of Object.entries(zoo)) {
  test(`every parameter and row has the gradient of the loss: ${title}`, (t) => {
    modelHasGradients(t, options);
  });
}

/** Ten tables, one per feature, as for Frappe. */
const frappe = (dim: number) =>
  Array.from({ length: 10 }, (_, i) => ({ name: `f${i}`, rows: 3, dim }));

// The parameter counts in the zoo's run logs on Frappe.
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
  test(`the dense parameter count equals that of the published model: ${title}`, (t) => {
    t.is(graphOf(modelOptions.parse(options)).layout.trained, expected);
  });
}

test("FinalMLP's heads are initialised like one layer over the products of both streams", (t) => {
  const streams = { first: [400], second: [100], heads: 5 };
  const { layout } = graphOf(
    modelOptions.parse({ kind: "finalMlp", tables: frappe(10), ...streams }),
  );
  const heads = layout.parameters.filter(({ name }) => name.startsWith("fusion.heads."));
  t.is(heads.length, 5);
  // Glorot's scale for the 5 · 80 · 20 inputs and the one output of that layer.
  for (const { scale } of heads) t.is(scale, Math.sqrt(6 / 8001));
});
