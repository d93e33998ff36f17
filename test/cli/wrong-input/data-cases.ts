// Data, splits and tests with which no job, or not this job, can train.

import type { WrongInput } from "./case.ts";

export const dataCases: readonly WrongInput[] = [
  {
    title: "rows that are wanted by a list",
    set: { "data.kind": "parquet", "data.where": [{ column: "user", equals: [1] }] },
    says: [
      "job.json: Expected `data.where[0].equals` to be a number, a text, true or false, got `[1]` (list)",
    ],
  },
  {
    title: "lines with a field too few",
    lines: (lines) =>
      lines.map((line, at) => (at % 4 === 1 ? line.slice(0, line.lastIndexOf(",")) : line)),
    says: [
      "Expected at most 1 % of the lines of clicks.csv to be bad (`rejectedMax`), got 25 of 100, 25 %: 25 × expected 4 fields (clicks.csv, line 2: got 3). To go on: correct the lines; or raise `rejectedMax`",
    ],
  },
  {
    title: "another delimiter than the file has",
    lines: (lines) => lines.map((line) => line.replaceAll(",", ";")),
    says: [
      'Expected the columns of clicks.csv to be separated by ",", and its header is one column, `clicked;price;user;item`: did you mean `delimiter: ";"`?',
    ],
  },
  {
    title: "a file without a header",
    lines: (lines) => lines.slice(1),
    says: [
      "Expected the first line of clicks.csv to name the columns `clicked`, `price`, `user`, `item`, got `1`, `0.5`, `u0`, `0`: does the file have a header?",
    ],
  },
  {
    title: "a header and no line",
    lines: (lines) => lines.slice(0, 1),
    says: ["clicks.csv has a header, and no line below it"],
  },
  {
    title: "a column that the file does not have",
    set: { "data.dense": ["prise"] },
    says: [
      "`data.dense[0]` names the column `prise`, which clicks.csv does not have; it has `clicked`, `price`, `user`, `item`; did you mean `price`?",
    ],
  },
  {
    title: "workers for data with a cache",
    set: { preprocessing: {} },
    says: [
      /^job\.json: Expected `preprocessing` to be left out where the samples lie in a cache; workers make those of data with `cache: none`, got `/,
    ],
  },
  {
    title: "fewer workers at most than at least",
    set: { preprocessing: { workersMin: 3, workersMax: 2 } },
    says: [
      "job.json: Expected `preprocessing.workersMax` to be at least `workersMin`, 3, got `2` (number)",
    ],
  },
  {
    title: "a way for missing values that there is not",
    set: { "data.missing": "median" },
    says: [
      'job.json: Expected `data.missing` to be one of 0, "mean", "indicator", "reject", got `median` (string); did you mean `mean`?',
    ],
  },
  {
    title: "any order of samples without a cache",
    set: { "data.kind": "parquet", "data.streamed": true, "data.order": "global" },
    says: [
      "job.json: Expected `data.order` to be `split` or left out, as samples without a cache are read piece by piece, got `global` (string)",
    ],
  },
  {
    title: "the best evaluation kept beside early stopping",
    set: {
      "evaluation.keepBest": "auc",
      "evaluation.earlyStopping": { metric: "auc", patience: 2 },
    },
    says: [
      "job.json: Expected `evaluation.keepBest` to be left out beside `earlyStopping`, which keeps the best checkpoint by its own metric, got `auc` (string)",
    ],
  },
  {
    title: "a split by a column that there is not",
    set: { "evaluation.split": { kind: "time", column: "when" } },
    says: [
      "`evaluation.split.column` names the column `when`, which clicks.csv does not have; it has `clicked`, `price`, `user`, `item`",
    ],
  },
  {
    title: "a test file without a column of the training data",
    set: { "evaluation.test": { data: { paths: ["final.csv"] } } },
    files: { "final.csv": "clicked,price,item\n1,2,3\n" },
    says: [
      "`evaluation.test.data.categorical[0]` names the column `user`, which the test's file final.csv does not have; it has `clicked`, `price`, `item`",
    ],
  },
  {
    title: "a test of a job that has none",
    before: [["train", "job.json", "--devices", "1"]],
    args: ["eval", "checkpoints", "--test"],
    says: ["Expected `data` to be named, as the job has no `evaluation.test`, got nothing"],
  },
];
