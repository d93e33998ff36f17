// Job files, data files and directories that are missing, unreadable or of another kind.

import type { WrongInput } from "./case.ts";

const trained = ["train", "job.json"];

export const fileCases: readonly WrongInput[] = [
  {
    title: "a directory as the job",
    args: ["train", "."],
    says: ["Cannot read the job .: expected a file ending in .yaml, .json, .js, .mjs or .ts"],
  },
  {
    title: "an empty job file",
    args: ["train", "empty.yaml"],
    files: { "empty.yaml": "" },
    says: [
      "Cannot read the job empty.yaml: expected an object with `model` and `data`, got nothing",
    ],
  },
  {
    title: "YAML with a wrong indent",
    args: ["train", "broken.yaml"],
    files: { "broken.yaml": "model:\n  kind: dlrm\n dense: 3\n" },
    says: [
      "Cannot read the job broken.yaml: All mapping items must start at the same column at line 3, column 1",
    ],
  },
  {
    title: "YAML with two documents",
    args: ["train", "two.yaml"],
    files: { "two.yaml": "seed: 1\n---\nseed: 2\n" },
    says: [
      "Cannot read the job two.yaml: Source contains multiple documents, expected one job at line 2, column 1",
    ],
  },
  {
    title: "JSON with a comma too many",
    args: ["train", "broken.json"],
    files: { "broken.json": '{"seed": 1,}' },
    says: [
      "Cannot read the job broken.json: Expected double-quoted property name in JSON at position 11",
    ],
  },
  {
    title: "a module that throws",
    args: ["train", "job.mjs"],
    files: { "job.mjs": 'throw new Error("no such day")' },
    says: ["Cannot read the job job.mjs: no such day"],
  },
  {
    title: "a file in the place of the checkpoint directory",
    set: { "checkpoint.directory": "clicks.csv" },
    says: [
      "Cannot write checkpoints to clicks.csv: a file is in the place of a directory; name another `checkpoint.directory`",
    ],
  },
  {
    title: "checkpoints where nothing can be made",
    set: { "checkpoint.directory": "/proc/checkpoints" },
    says: [
      "Cannot write checkpoints to /proc/checkpoints: the directory above it refuses new directories; name another `checkpoint.directory`",
    ],
  },
  {
    title: "the directory of another job",
    before: [trained],
    args: ["train", "job.json", "--set", "slices=4"],
    files: { "other.json": "JOB" },
    says: [
      "checkpoints holds a run of another job (other `slices`); name another directory, or delete that one",
    ],
  },
  {
    title: "evaluation of a file without a column",
    before: [trained],
    args: ["eval", "checkpoints", "--data", "short.csv"],
    files: { "short.csv": "clicked,price\n1,2\n0,3\n" },
    says: [
      "`data.categorical[0]` names the column `user`, which short.csv does not have; it has `clicked`, `price`",
      "`data.categorical[1]` names the column `item`, which short.csv does not have; it has `clicked`, `price`",
    ],
  },
  {
    title: "a prediction into a directory that is not there",
    before: [trained],
    args: ["predict", "checkpoints", "--data", "clicks.csv", "--out", "no/where.csv"],
    says: ["Cannot write no/where.csv: ENOENT: no such file or directory"],
  },
  {
    title: "a checkpoint's parent in its place",
    before: [["train", "job.json", "--devices", "1", "--set", "checkpoint.directory=runs/day1"]],
    args: ["eval", "runs", "--data", "clicks.csv"],
    says: ["There is no checkpoint in runs: did you mean runs/day1?"],
  },
];
