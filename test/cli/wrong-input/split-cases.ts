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
    title: "a split by time whose column has no times",
    set: { "evaluation.split": { kind: "time", column: "user" } },
    says: [
      /^clicks\.csv has no good line, and 100 bad ones; clicks\.csv, line 2: expected `user`, which splits the data by time, to be a number or an ISO date, got `u0`$/,
    ],
  },
  {
    title: "a test part behind the newest line",
    set: {
      "evaluation.split": { kind: "time", column: "price", from: 4, testFrom: 40 },
      "evaluation.test": {},
    },
    says: [
      "Expected `evaluation.split` to leave samples in each part of 100, got 40 for training, 60 for validation, 0 for the test; `price` goes from 0.5 to 9.5: change the shares, or where the parts begin",
    ],
  },
  {
    title: "a test part that begins before validation",
    set: {
      "evaluation.split": { kind: "time", column: "price", from: 4, testFrom: 3 },
      "evaluation.test": {},
    },
    says: [
      "job.json: Expected `evaluation.split.testFrom` to be later than `from`, 4, got `3` (number)",
    ],
  },
  {
    title: "a boundary of another form than the column",
    set: { "evaluation.split": { kind: "time", column: "price", from: "2024-01-01" } },
    says: [
      "Expected `evaluation.split.from` to be a number, as the column `price` has, got `2024-01-01` (string)",
    ],
  },
  {
    title: "a boundary that is no date",
    set: { "evaluation.split": { kind: "time", column: "price", from: "1/2/2024" } },
    says: [
      "job.json: Expected `evaluation.split.from` to be a number, or an ISO date: 2024-01-31, 2024-01-31T12:00:00Z, got `1/2/2024` (string)",
    ],
  },
  {
    title: "a split by the label",
    set: { "evaluation.split": { kind: "hash", column: "clicked" } },
    says: [
      "job.json: Expected `evaluation.split.column` to be another column than the label, which would give each part one class, got `clicked` (string)",
    ],
  },
  {
    title: "a split beside evaluation data",
    set: {
      "evaluation.data": { paths: ["clicks.csv"] },
      "evaluation.split": { kind: "hash", column: "user" },
    },
    says: [
      "job.json: Expected `evaluation.split` to be left out beside `evaluation.data`: it splits the training data, got `hash` (string)",
    ],
  },
  {
    title: "a test held out of the training data beside evaluation data",
    set: { "evaluation.data": { paths: ["clicks.csv"] }, "evaluation.test": {} },
    says: [
      "job.json: Expected `evaluation.test.data` to be named where `evaluation.data` is: then nothing is held out of the training data, got nothing",
    ],
  },
  {
    title: "shares of validation and test that leave nothing",
    set: { "evaluation.fraction": 0.5, "evaluation.test": { fraction: 0.5 } },
    says: [
      "job.json: Expected `evaluation.test.fraction` to be less than 0.5, as `evaluation.fraction` is 0.5, got `0.5` (number)",
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
