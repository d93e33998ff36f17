// Invalid splits and tests of a job, and the messages about them.

import type { WrongInput } from "./case.ts";

export const splitCases: readonly WrongInput[] = [
  {
    title: "a split by a column that there is not",
    set: { "evaluation.split": { kind: "time", column: "when" } },
    says: [
      "`evaluation.split.column` names the column `when`, which clicks.csv does not have; it has `clicked`, `price`, `user`, `item`",
    ],
  },
  {
    title: "a split by a kind that there is not",
    set: { "evaluation.split": { kind: "date", column: "price" } },
    says: [
      'job.json: Expected `evaluation.split.kind` to be one of "order", "time", "hash", got `date` (string)',
    ],
  },
  {
    title: "a test file that is not there",
    set: { "evaluation.test": { data: { paths: ["none.csv"] } } },
    says: [/none\.csv/],
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
