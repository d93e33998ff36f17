// Jobs with a wrong option, or with options that contradict each other.

import type { WrongInput } from "./case.ts";

const sampleTables = (table: object) => [{ name: "user", rows: 50, dim: 4, ...table }];

export const jobCases: readonly WrongInput[] = [
  {
    title: "a misspelled option",
    set: { "checkpoint.everyStep": 10 },
    says: ["job.json: Expected no option `checkpoint.everyStep`: did you mean `everySteps`?"],
  },
  {
    title: "rows clipped by the norm of all of them",
    set: { optimizer: { sparse: { kind: "sgd", clip: { norm: 1 } } } },
    says: [
      "job.json: Expected `optimizer.sparse.clip.value` to be a number, got nothing",
      "job.json: Expected no option `optimizer.sparse.clip.norm`: there is none of that name; the options here are `value`",
    ],
  },
  {
    title: "a feature of a table that there is not",
    set: { "model.features": [{ column: "user" }, { column: "item", table: "items" }] },
    says: [
      "job.json: Expected `model.features[1].table` to be the name of a table of the model, or `table` beside it, got `items` (string)",
      "job.json: Expected `model.tables[1].name` to be a table that a feature looks up, got `item` (string)",
    ],
  },
  {
    title: "an unpooled feature without a longest sequence",
    set: {
      "model.features": [{ column: "user" }, { column: "item", pooling: "none" }],
    },
    says: [
      'job.json: Expected `model.features[1].maxLength` to be the longest sequence, as `pooling` is "none", got nothing',
    ],
  },
  {
    title: "a feature of a column that there is not",
    set: { "model.features": [{ column: "user" }, { column: "items", table: "item" }] },
    says: [
      "job.json: Feature `items` has no column `items` in the data: the columns of `data.categorical` are `user`, `item`; did you mean `item`?",
    ],
  },
  {
    title: "a column that no feature reads",
    set: {
      "model.features": [{ column: "user" }, { column: "user", name: "again", table: "item" }],
    },
    says: [
      "job.json: Column `item` feeds no feature: add one to `model.features`, or drop the column",
    ],
  },
  {
    title: "a table of more rows than 31 bits can number",
    set: { "model.tables.0.rows": 5_000_000_000 },
    says: [
      "job.json: Expected `model.tables[0].rows` to be at most 2147483647, as a row number has 31 bits: hash ids into fewer rows (`ids`), give ids rows of their own under a budget (`dynamic`), or split the column over several tables, got `5000000000` (number)",
    ],
  },
  {
    title: "early stopping without an end",
    set: { "evaluation.earlyStopping": { metric: "auc" } },
    says: [
      "job.json: Expected `evaluation.earlyStopping.patience` to be an integer >= 1 where there is no `target`, got nothing",
    ],
  },
  {
    title: "a placement that there is not",
    set: { sharding: "greedy" },
    says: [
      'job.json: Expected `sharding` to be one of "auto", "as-written", got `greedy` (string)',
    ],
  },
  {
    title: "a cached table on every device",
    set: { "model.tables.0.tier": "cached", "model.tables.0.sharding": "data-parallel" },
    says: [
      'job.json: Expected `model.tables[0].tier` to be "memory" where `sharding` is "data-parallel": a copy is in memory, got `cached` (string)',
    ],
  },
  {
    title: "four wrong options at once",
    set: { seed: -1, slices: 3, "data.batchSize": 0, "model.dropout": 2 },
    says: [
      "job.json: Expected `model.dropout` to be a number <= 0.95, got `2` (number)",
      "job.json: Expected `data.batchSize` to be a number >= 1, got `0` (number)",
      "job.json: Expected `seed` to be a number >= 0, got `-1` (number)",
      'job.json: Expected `slices` to be one of 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, or "auto", got `3` (number)',
    ],
  },
  {
    title: "rows clipped to nothing",
    set: { optimizer: { sparse: { kind: "ftrl", clip: { value: 0 } } } },
    says: ["job.json: Expected `optimizer.sparse.clip.value` to be a number > 0, got `0` (number)"],
  },
  {
    title: "two features of one name",
    set: { "model.features": [{ column: "user" }, { column: "item" }, { column: "user" }] },
    says: [
      "job.json: Expected `model.features[2].name` to be a name that no other feature has, got nothing",
    ],
  },
  {
    title: "a table's name with a control character",
    set: { "model.tables": sampleTables({ name: "us\u001ber" }) },
    says: [
      "job.json: Expected `model.tables[0].name` to be a name without control characters, got `us\\x1ber` (string)",
    ],
  },
];
