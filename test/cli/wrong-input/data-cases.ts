// Data on which no job, or not this job, can train.

import type { WrongInput } from "./case.ts";

/** Changes one field of every line below the header. */
function field(index: number, change: (value: string, line: number) => string) {
  return ([header = "", ...lines]: string[]): string[] => [
    header,
    ...lines.map((line, at) =>
      line
        .split(",")
        .map((value, i) => (i === index ? change(value, at) : value))
        .join(","),
    ),
  ];
}

export const dataCases: readonly WrongInput[] = [
  {
    title: "rows that are wanted by a list",
    set: { "data.kind": "parquet", "data.where": [{ column: "user", equals: [1] }] },
    says: [
      "job.json: Expected `data.where[0].equals` to be a number, a text, true or false, got `[1]` (list)",
    ],
  },
  {
    title: "labels of 1 and 2",
    lines: field(0, (label) => (label === "1" ? "2" : "1")),
    says: [
      "Expected at most 1 % of the lines of clicks.csv to be bad (`rejectedMax`), got 34 of 100, 34 %: 34 × expected the label to be 0 or 1 (clicks.csv, line 2: got `2`). To go on: name the label that counts as positive with `positive`; mend the lines; or raise `rejectedMax`",
    ],
  },
  {
    title: "labels of yes and no",
    lines: field(0, (label) => (label === "1" ? "yes" : "no")),
    says: [
      "clicks.csv has no good line, and 100 bad ones; clicks.csv, line 2: expected the label to be 0 or 1, got `yes`; name the label that counts as positive with `positive`",
    ],
  },
  {
    title: "labels all 1",
    lines: field(0, () => "1"),
    says: [
      "Expected labels of both classes, and all 100 good lines of clicks.csv have the label 1; name the label that counts as positive with `data.positive`, or other files",
    ],
  },
  {
    title: "empty dense fields, where they are refused",
    set: { "data.dense": [{ column: "price", missing: "reject" }] },
    lines: field(1, (value, at) => (at % 3 === 0 ? "" : value)),
    says: [
      "Expected at most 1 % of the lines of clicks.csv to be bad (`rejectedMax`), got 34 of 100, 34 %: 34 × `price` is missing (clicks.csv, line 2). To go on: mend the lines; or raise `rejectedMax`",
    ],
  },
  {
    title: "integer ids beyond the rows",
    set: {
      "data.categorical": ["user", { column: "item", ids: "integer" }],
      "model.tables.1.rows": 10,
    },
    says: [
      "Expected at most 1 % of the lines of clicks.csv to be bad (`rejectedMax`), got 50 of 100, 50 %: 50 × expected `item` to lie in 0..9 (clicks.csv, line 3: got `11`). To go on: give the table of `item` more `rows`, or `ids: clamp`, or `ids: hash`; mend the lines; or raise `rejectedMax`",
    ],
  },
  {
    title: "text where an integer id is expected",
    set: { "data.categorical": [{ column: "user", ids: "integer" }, "item"] },
    says: [
      "clicks.csv has no good line, and 100 bad ones; clicks.csv, line 2: expected `user` to be an integer, got `u0`; `ids: hash` of the column `user` takes any text",
    ],
  },
  {
    title: "lines with a field too few",
    lines: (lines) =>
      lines.map((line, at) => (at % 4 === 1 ? line.slice(0, line.lastIndexOf(",")) : line)),
    says: [
      "Expected at most 1 % of the lines of clicks.csv to be bad (`rejectedMax`), got 25 of 100, 25 %: 25 × expected 4 fields (clicks.csv, line 2: got 3). To go on: mend the lines; or raise `rejectedMax`",
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
    title: "two columns of one name that the job does not read",
    lines: (lines) => lines.map((line, at) => (at === 0 ? `${line},note,note` : `${line},a,b`)),
    says: [
      "The header of the data file clicks.csv is unusable: it has the column `note` more than once (fields 5, 6); give each column a name of its own",
    ],
  },
  {
    title: "a column that the file does not have",
    set: { "data.dense": ["prise"] },
    says: [
      "`data.dense[0]` names the column `prise`, which clicks.csv does not have; it has `clicked`, `price`, `user`, `item`; did you mean `price`?",
    ],
  },
  {
    title: "too few samples to hold some out",
    set: { "evaluation.fraction": 0.001 },
    says: [
      "Expected `evaluation.fraction` to be a share that leaves samples in both parts of 100, got `0.001` (number)",
    ],
  },
  {
    title: "evaluation data without a column",
    set: { evaluation: { data: { paths: ["held.csv"] } } },
    files: { "held.csv": "clicked,price,user\n0,1.5,u1\n1,2.5,u2\n" },
    says: [
      "`evaluation.data.categorical[1]` names the column `item`, which the evaluation's file held.csv does not have; it has `clicked`, `price`, `user`",
    ],
  },
  {
    title: "evaluation data that is not there",
    set: { evaluation: { data: { paths: ["held.csv"] } } },
    says: [
      /^Cannot read the data file held\.csv: ENOENT: no such file or directory, stat 'held\.csv'; a relative path begins in the current directory, \/\S+$/,
    ],
  },
  {
    title: "one number for a label in every line",
    set: { loss: { kind: "mse" } },
    lines: field(0, () => "2.5"),
    says: [
      "Expected labels that differ, and all 100 good lines of clicks.csv have the label 2.5; name another label, or other files",
    ],
  },
  {
    title: "text in half of a dense column",
    lines: field(1, (value, at) => (at % 2 === 0 ? "n/a" : value)),
    says: [
      "Expected at most 1 % of the lines of clicks.csv to be bad (`rejectedMax`), got 50 of 100, 50 %: 50 × expected `price` to be a number (clicks.csv, line 2: got `n/a`). To go on: `unreadable: missing` of `price` takes such text for a missing value; mend the lines; or raise `rejectedMax`",
    ],
  },
  {
    title: "a share of bad lines above one",
    set: { "data.rejectedMax": 2 },
    says: ["job.json: Expected `data.rejectedMax` to be a number <= 1, got `2` (number)"],
  },
  {
    title: "any order of samples without a cache",
    set: { "data.kind": "parquet", "data.streamed": true, "data.order": "global" },
    says: [
      "job.json: Expected `data.order` to be `split` or left out, as samples without a cache are read piece by piece, got `global` (string)",
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
    title: "the best evaluation kept beside early stopping",
    set: {
      "evaluation.keepBest": "auc",
      "evaluation.earlyStopping": { metric: "auc", patience: 2 },
    },
    says: [
      "job.json: Expected `evaluation.keepBest` to be left out beside `earlyStopping`, which keeps the best checkpoint by its own metric, got `auc` (string)",
    ],
  },
];
