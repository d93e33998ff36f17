// Jobs whose options do not fit their architecture: each is refused with the path of the option.

import test from "ava";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";

const tables = [
  { name: "a", rows: 10, dim: 4 },
  { name: "b", rows: 10, dim: 4 },
];
const seen = { column: "seen", table: "b", pooling: "none", maxLength: 3 };
const layers = [{ interacted: 2, compressed: 2, hidden: [] }];

const refusals: readonly (readonly [string, object, string, string])[] = [
  [
    "a logistic regression over vectors",
    { kind: "lr", tables },
    "model.tables[0].dim",
    "1: the weight of an id",
  ],
  [
    "a factorisation machine whose rows have no vector",
    { kind: "fm", tables: tables.map((table) => ({ ...table, dim: 1 })) },
    "model.tables[0].dim",
    "2 or more and that of all tables, as the last column of a row is the weight of its id",
  ],
  [
    "a DeepFM of two dims",
    { kind: "deepFm", tables: [tables[0], { name: "b", rows: 10, dim: 5 }], top: [1] },
    "model.tables[1].dim",
    "2 or more and that of all tables, as the last column of a row is the weight of its id",
  ],
  [
    "a factorisation machine of projected rows",
    { kind: "fm", tables, dim: 3 },
    "model.dim",
    "left out, as rows are not projected in this architecture",
  ],
  [
    "a factorisation machine with groups",
    { kind: "fm", tables, groups: [{ name: "g", features: ["a"] }] },
    "model.groups",
    "left out, as rows are not projected in this architecture",
  ],
  [
    "a Wide & Deep with several vectors a feature",
    {
      kind: "wideAndDeep",
      tables,
      features: [{ column: "a", vectors: 2 }, { column: "b" }],
      top: [1],
    },
    "model.features[0].vectors",
    "left out, as rows are not projected in this architecture",
  ],
  [
    "a deep part that ends in two numbers",
    { kind: "deepFm", tables, top: [4, 2] },
    "model.top[1]",
    "1: the logit",
  ],
  [
    "a cross network with a bottom MLP and no dense features",
    { kind: "dcnV2", dense: 0, tables, bottom: [4], crossLayers: 1, top: [1] },
    "model.bottom",
    "empty, as the model has no dense features",
  ],
  [
    "a cross network with groups of no width",
    { kind: "gdcn", tables, groups: [{ name: "g", features: ["a"] }], crossLayers: 1, top: [1] },
    "model.dim",
    "the width of the vectors that groups give",
  ],
  [
    "attention of columns that heads do not share",
    { kind: "autoInt", tables, attentionLayers: 1, heads: 3, width: 4 },
    "model.width",
    "a multiple of the heads, 3",
  ],
  [
    "a FinalMLP of widths that heads do not share",
    { kind: "finalMlp", tables, first: [4], second: [3], heads: 2 },
    "model.second[0]",
    "a multiple of the heads, 2",
  ],
  [
    "a FinalMLP with contexts and no gates",
    { kind: "finalMlp", tables, first: [4], second: [4], contexts: [["a"], ["b"]] },
    "model.contexts",
    "left out, as there are no `gates`",
  ],
  [
    "a FinalMLP with an unknown context",
    { kind: "finalMlp", tables, first: [4], second: [4], gates: [], contexts: [["a"], ["x"]] },
    "model.contexts[1][0]",
    "the name of a feature",
  ],
  [
    "a FinalMLP with nothing but contexts",
    { kind: "finalMlp", tables, first: [4], second: [4], gates: [], contexts: [["a"], ["b"]] },
    "model.contexts",
    "some of the features, not all of them",
  ],
  [
    "a Wukong with an attentive Y that it does not have",
    {
      kind: "wukong",
      tables,
      layers: [{ interacted: 2, compressed: 2, rank: "full", attentive: {} }],
      top: [1],
    },
    "model.layers[0].attentive",
    'left out where `rank` is "full": the products are not compressed',
  ],
  [
    "a FinalNet with a layer of no halves",
    { kind: "finalNet", tables, first: [4], second: [4, 3] },
    "model.second[1]",
    "an even number: half of a layer multiplies the other",
  ],
  [
    "a FinalNet that gates vectors of several widths",
    {
      kind: "finalNet",
      tables: [tables[0], { name: "b", rows: 10, dim: 5 }],
      first: [4],
      fieldGate: true,
    },
    "model.dim",
    "the width of the vectors that interact, as the tables have several",
  ],
  [
    "a FinalNet that gates no vectors",
    { kind: "finalNet", dense: 2, first: [4], fieldGate: true },
    "model.fieldGate",
    "false, as there are no vectors to gate",
  ],
  [
    "a MaskNet with groups of no width",
    {
      kind: "maskNet",
      tables,
      groups: [{ name: "g", features: ["a"] }],
      blocks: 1,
      width: 2,
      top: [1],
    },
    "model.dim",
    "the width of the vectors that groups give",
  ],
  ...(
    [
      ["a DIN of an unknown target", {}, "target", "x", "the name of a feature"],
      ["a DIN whose target is a sequence", {}, "target", "seen", "a feature that is pooled"],
      ["a DIN of an unknown sequence", {}, "sequence", "x", "the name of a feature"],
      ["a DIN whose sequence is pooled", {}, "sequence", "b", 'a feature with `pooling: "none"`'],
      [
        "a DIN whose target is grouped",
        { dim: 4, groups: [{ name: "g", features: ["a"] }] },
        "target",
        "a",
        "a feature that is in no group",
      ],
      [
        "a DIN whose target has several vectors",
        { features: [{ column: "a", vectors: 2 }, { column: "b" }, seen] },
        "target",
        "a",
        "a feature without `vectors` of its own",
      ],
      [
        "a DIN whose sequence has several vectors",
        { features: [{ column: "a" }, { column: "b" }, { ...seen, vectors: 2 }] },
        "sequence",
        "seen",
        "a feature without `vectors` of its own",
      ],
      [
        "a DIN whose sequence is wider than its target",
        { tables: [{ name: "a", rows: 10, dim: 2 }, tables[1]] },
        "sequence",
        "seen",
        "of a table as wide as that of its target, 2 columns; or `model.dim`",
      ],
    ] as const
  ).map(([title, own, part, name, expected]) => {
    const pair = { target: "a", sequence: "seen", [part]: name };
    const features = [{ column: "a" }, { column: "b" }, seen];
    const model = { kind: "din", tables, features, attention: [pair], top: [1], ...own };
    return [title, model, `model.attention[0].${part}`, expected] as const;
  }),
  [
    "a BST of an unknown target",
    {
      kind: "bst",
      tables,
      features: [{ column: "a" }, { column: "b" }, seen],
      transformers: [{ target: "x", sequence: "seen" }],
      top: [1],
    },
    "model.transformers[0].target",
    "the name of a feature",
  ],
  [
    "a BST whose heads do not share its columns",
    {
      kind: "bst",
      tables,
      features: [{ column: "a" }, { column: "b" }, seen],
      transformers: [{ target: "a", sequence: "seen", heads: 3 }],
      top: [1],
    },
    "model.transformers[0].heads",
    "a divisor of the columns of its vectors, 4",
  ],
  [
    "a pooled feature that keeps its last ids",
    { kind: "dlrm", tables, features: [{ column: "a", kept: "last" }, { column: "b" }], top: [1] },
    "model.features[0].kept",
    'left out, unless `pooling` is "none"',
  ],
  [
    "a DIN with groups of no width",
    {
      kind: "din",
      tables,
      features: [{ column: "a" }, { column: "b" }, seen],
      groups: [{ name: "g", features: ["b"] }],
      attention: [{ target: "a", sequence: "seen" }],
      top: [1],
    },
    "model.dim",
    "the width of the vectors that groups give",
  ],
  [
    "a Wukong of two dims and none for its vectors",
    { kind: "wukong", tables: [tables[0], { name: "b", rows: 9, dim: 5 }], layers, top: [1] },
    "model.dim",
    "the width of the vectors that interact, as the tables have several",
  ],
  [
    "a Wukong without layers",
    { kind: "wukong", tables, layers: [], top: [1] },
    "model.layers",
    "a list of >= 1 entries",
  ],
];

for (const [title, model, option, expected] of refusals) {
  test(`${title} is refused`, (t) => {
    const data = { kind: "synthetic", dense: 0, samples: 10, batchSize: 2 };
    const job = { model, data } as unknown as JobOptions; // Invalid on purpose.
    const error = t.throws(() => resolveJob(job), { instanceOf: InvalidOptionError });
    t.true(error?.message.includes(`Expected \`${option}\` to be ${expected}`), error?.message);
  });
}

test("an unknown architecture is refused, with a list of all architectures", (t) => {
  const data = { kind: "synthetic", dense: 0, samples: 10, batchSize: 2 };
  // Invalid on purpose.
  const job = { model: { kind: "gpt", tables }, data } as unknown as JobOptions;
  const kinds =
    '"dlrm", "lr", "fm", "wideAndDeep", "deepFm", "dcnV2", "gdcn", "autoInt", "xDeepFm", "maskNet", ' +
    '"finalMlp", "finalNet", "din", "bst", "wukong", "sharedBottom", "mmoe", "ple", "esmm", "custom"';
  t.throws(() => resolveJob(job), {
    instanceOf: InvalidOptionError,
    message: `Expected \`model.kind\` to be one of ${kinds}, got \`gpt\` (string)`,
  });
});

test("an option of another architecture is refused by its name", (t) => {
  const model = { kind: "fm", tables, interaction: "dot" };
  const data = { kind: "synthetic", samples: 10, batchSize: 2 };
  const error = t.throws(() => resolveJob({ model, data }), { instanceOf: InvalidOptionError });
  t.regex(error?.message ?? "", /interaction/);
});
