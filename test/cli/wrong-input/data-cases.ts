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
    title: "text that is said to be Parquet",
    set: { "data.kind": "parquet" },
    says: [
      "Cannot read the Parquet file clicks.csv: it does not end in PAR1: it is another format, or was cut short; write the file again, or leave it out",
    ],
  },
  {
    title: "text that is said to be Arrow",
    set: { "data.kind": "arrow" },
    says: [
      "Cannot read the Arrow file clicks.csv: it begins neither with ARROW1 nor as a stream: it is another format; write the file again, or leave it out",
    ],
  },
  {
    title: "rows that are wanted by a list",
    set: { "data.kind": "parquet", "data.where": [{ column: "user", equals: [1] }] },
    says: [
      "job.json: Expected `data.where[0].equals` to be a number, a text, true or false, got `[1]` (list)",
    ],
  },
  {
    title: "a list that is split, too",
    set: {
      "data.kind": "parquet",
      "data.categorical": ["user", { column: "item", list: "plain", separator: "|" }],
    },
    says: [
      "job.json: Expected `data.categorical[1].separator` to be left out beside `list`, whose entries are not text to be split, got `|` (string)",
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
    title: "labels between 0 and 1",
    lines: field(0, (_, at) => String(at / 100)),
    says: [
      "Expected at most 1 % of the lines of clicks.csv to be bad (`rejectedMax`), got 99 of 100, 99 %: 99 × expected the label to be 0 or 1 (clicks.csv, line 3: got `0.01`). To go on: name the label that counts as positive with `positive`; mend the lines; or raise `rejectedMax`",
    ],
  },
  {
    title: "labels that are missing",
    lines: field(0, () => ""),
    says: [
      "clicks.csv has no good line, and 100 bad ones; clicks.csv, line 2: expected the label to be 0 or 1, got ``; name the label that counts as positive with `positive`",
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
    title: "labels all 0",
    lines: field(0, () => "0"),
    says: [
      "Expected labels of both classes, and all 100 good lines of clicks.csv have the label 0; name the label that counts as positive with `data.positive`, or other files",
    ],
  },
  {
    title: "a positive label that there is not",
    set: { "data.positive": "click" },
    says: [
      'Expected labels of both classes, and all 100 good lines of clicks.csv have the label 0 (positive: "click"); name the label that counts as positive with `data.positive`, or other files',
    ],
  },
  {
    title: "text in half of a dense column, where that is refused",
    set: { "data.dense": [{ column: "price", unreadable: "reject" }] },
    lines: field(1, (value, at) => (at % 2 === 0 ? "n/a" : value)),
    says: [
      "Expected at most 1 % of the lines of clicks.csv to be bad (`rejectedMax`), got 50 of 100, 50 %: 50 × expected `price` to be a number (clicks.csv, line 2: got `n/a`). To go on: `unreadable: missing` of `price` takes such text for a missing value; mend the lines; or raise `rejectedMax`",
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
    title: "integer ids below their offset",
    set: { "data.categorical": ["user", { column: "item", ids: "integer", offset: 10 }] },
    says: [
      "Expected at most 1 % of the lines of clicks.csv to be bad (`rejectedMax`), got 50 of 100, 50 %: 50 × expected `item` to lie in 10..29 (clicks.csv, line 2: got `0`). To go on: give the table of `item` more `rows`, or `ids: clamp`, or `ids: hash`; mend the lines; or raise `rejectedMax`",
    ],
  },
  {
    title: "weights that are no numbers",
    set: { "data.categorical": [{ column: "user", separator: "|", weightSeparator: ":" }, "item"] },
    lines: field(2, (user) => `${user}:heavy`),
    says: [
      "clicks.csv has no good line, and 100 bad ones; clicks.csv, line 2: expected `user` to be an id, `:` and a number, got `u0:heavy`",
    ],
  },
  {
    title: "ids without the weights that the job names",
    set: { "data.categorical": [{ column: "user", separator: "|", weightSeparator: ":" }, "item"] },
    says: [
      "clicks.csv has no good line, and 100 bad ones; clicks.csv, line 2: expected `user` to be an id, `:` and a number, got `u0`",
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
    title: "lines with a field too many",
    lines: (lines) => lines.map((line, at) => (at === 0 ? line : `${line},x`)),
    says: [
      "clicks.csv has no good line, and 100 bad ones; clicks.csv, line 2: expected 4 fields, got 5",
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
    title: "quotes that are not closed",
    lines: (lines) => lines.map((line, at) => (at % 5 === 1 ? line.replace(",u", ',"u') : line)),
    says: [
      "Expected at most 1 % of the lines of clicks.csv to be bad (`rejectedMax`), got 20 of 100, 20 %: 20 × a quoted field is not closed, or has text around its quotes (clicks.csv, line 2). To go on: mend the lines; or raise `rejectedMax`",
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
  { title: "an empty file", lines: "", says: ["The data file clicks.csv is empty"] },
  {
    title: "a header of blank lines",
    lines: "\n\n\n",
    says: ["The data file clicks.csv is empty"],
  },
  {
    title: "two columns of one name",
    lines: (lines) => ["clicked,price,user,user", ...lines.slice(1)],
    says: [
      "The header of the data file clicks.csv is unusable: it has the column `user` more than once (fields 3, 4); give each column a name of its own",
    ],
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
    title: "a label column that the file does not have",
    set: { "data.label": "click" },
    says: [
      "`data.label` names the column `click`, which clicks.csv does not have; it has `clicked`, `price`, `user`, `item`",
    ],
  },
  {
    title: "a column in another case of letters",
    set: { "data.dense": ["Price"] },
    says: [
      "`data.dense[0]` names the column `Price`, which clicks.csv does not have; it has `clicked`, `price`, `user`, `item`; did you mean `price`?",
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
    title: "Criteo's logs with CSV in them",
    set: { data: { kind: "criteo-tsv", paths: ["clicks.csv"], batchSize: 20, cache: "cache" } },
    says: [
      "job.json: Table `user` has no column in the data: add one to `data.categorical`, or drop the table; the columns feed `C1`, `C2`, `C3`, `C4`, `C5`, `C6`, `C7`, `C8`, `C9`, `C10`, `C11`, `C12`, `C13`, `C14`, `C15`, `C16`, `C17`, `C18`, `C19`, `C20`, `C21`, `C22`, `C23`, `C24`, `C25`, `C26`",
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
    title: "labels of words where numbers are wanted",
    set: { loss: { kind: "mse" } },
    lines: field(0, (label) => (label === "1" ? "good" : "2.5")),
    says: [
      "Expected at most 1 % of the lines of clicks.csv to be bad (`rejectedMax`), got 34 of 100, 34 %: 34 × expected the label `clicked` to be a finite number (clicks.csv, line 2: got `good`). To go on: mend the lines; or raise `rejectedMax`",
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
    title: "evaluation data by another label",
    set: { evaluation: { data: { paths: ["held.csv"], label: "bought" } } },
    files: { "held.csv": "clicked,bought,price,user,item\n0,1,1.5,u1,1\n1,0,2.5,u2,2\n" },
    says: [
      'job.json: Expected `evaluation.data.label` to be "clicked", as in the training data (leave it out, and it is taken from there; `evaluation.dataDiffers: true` allows another), got `bought` (string)',
    ],
  },
  {
    title: "evaluation data with another column for a table",
    set: {
      evaluation: {
        data: {
          paths: ["clicks.csv"],
          categorical: [
            { column: "item", table: "user" },
            { column: "user", table: "item" },
          ],
        },
      },
    },
    says: [
      'job.json: Expected `evaluation.data.categorical[0].column` to be "user", as in the training data (leave it out, and it is taken from there; `evaluation.dataDiffers: true` allows another), got `item` (string)',
      'job.json: Expected `evaluation.data.categorical[1].column` to be "item", as in the training data (leave it out, and it is taken from there; `evaluation.dataDiffers: true` allows another), got `user` (string)',
    ],
  },
  {
    title: "evaluation data without the logarithm of training",
    set: {
      "data.dense": [{ column: "price", log: true }],
      evaluation: { data: { paths: ["clicks.csv"], dense: ["price"] } },
    },
    says: [
      "job.json: Expected `evaluation.data.dense[0].log` to be true, as in the training data (leave it out, and it is taken from there; `evaluation.dataDiffers: true` allows another), got `false` (boolean)",
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
    title: "CSV without a cache",
    set: { "data.cache": "none" },
    says: [
      "job.json: Expected `data.cache` to be a directory: only Parquet, Arrow and generated samples do without a cache, by `cache: none`, got `none` (string)",
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
    title: "evaluation data of one class, and early stopping by AUC",
    set: {
      evaluation: {
        data: { paths: ["held.csv"] },
        earlyStopping: { metric: "auc", patience: 2 },
      },
    },
    files: { "held.csv": "clicked,price,user,item\n0,1.5,u1,1\n0,2.5,u2,2\n" },
    says: [
      "Expected a metric that evaluation data of one class have, got auc: all 2 lines of the evaluation data (held.csv) have the label 0; watch logLoss, or name other files",
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
