// Job files, data files and directories that are missing, unreadable or of another kind.

import type { WrongInput } from "./case.ts";

const trained = ["train", "job.json"];

export const fileCases: readonly WrongInput[] = [
  {
    title: "a job file that is not there",
    args: ["train", "nowhere.yaml"],
    says: [
      "Cannot read the job nowhere.yaml: ENOENT: no such file or directory, open 'nowhere.yaml'",
    ],
  },
  {
    title: "a directory as the job",
    args: ["train", "."],
    says: ["Cannot read the job .: expected a file ending in .yaml, .json, .js, .mjs or .ts"],
  },
  {
    title: "the proof of a directory that is not there",
    args: ["verify", "runs/nowhere"],
    says: [
      "There is no directory runs/nowhere here: expected the checkpoint directory of a run, or a run of a cluster",
    ],
  },
  {
    title: "a job file of an unknown kind",
    args: ["train", "job.toml"],
    files: { "job.toml": "name = 1" },
    says: [
      "Cannot read the job job.toml: expected a file ending in .yaml, .json, .js, .mjs or .ts",
    ],
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
    title: "a list as the job",
    args: ["train", "list.yaml"],
    files: { "list.yaml": "- model\n- data\n" },
    says: ["Cannot read the job list.yaml: expected an object with `model` and `data`, got a list"],
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
    title: "YAML with a key twice",
    args: ["train", "twice.yaml"],
    files: { "twice.yaml": "seed: 1\nseed: 2\n" },
    says: ["Cannot read the job twice.yaml: Map keys must be unique at line 2, column 1"],
  },
  {
    title: "YAML with an anchor that there is not",
    args: ["train", "anchor.yaml"],
    files: { "anchor.yaml": "model: *base\n" },
    says: [
      "Cannot read the job anchor.yaml: Unresolved alias (the anchor must be set before the alias): base",
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
    title: "a module that exports no job",
    args: ["train", "job.mjs"],
    files: { "job.mjs": "export const work = 1;" },
    says: ["Cannot read the job job.mjs: expected it to export the job as `job` or as its default"],
  },
  {
    title: "a module that throws",
    args: ["train", "job.mjs"],
    files: { "job.mjs": 'throw new Error("no such day")' },
    says: ["Cannot read the job job.mjs: no such day"],
  },
  {
    title: "data that is not there",
    set: { "data.paths": ["nowhere.csv"] },
    says: [
      /^Cannot read the data file nowhere\.csv: ENOENT: no such file or directory, stat 'nowhere\.csv'; a relative path begins in the current directory, \/\S+$/,
    ],
  },
  {
    title: "a directory without a file in it as data",
    set: { "data.paths": ["empty"] },
    files: { "empty/inner/x": "" },
    says: ["Cannot read the data: empty has no file in it"],
  },
  {
    title: "a pattern that no file matches",
    set: { "data.paths": ["day-*.csv"] },
    says: ["Cannot read the data: No file matches day-*.csv"],
  },
  {
    title: "a file in the place of the cache",
    set: { "data.cache": "clicks.csv" },
    says: [
      "Cannot make the data cache in clicks.csv: a file is in the place of a directory; name another directory with `data.cache`",
    ],
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
    title: "a cache where nothing can be made",
    set: { "data.cache": "/proc/cache" },
    says: [
      "Cannot make the data cache in /proc/cache: the directory above it refuses new directories; name another directory with `data.cache`",
    ],
  },
  {
    title: "a table larger than an array can be",
    set: {
      sharding: "as-written",
      "model.tables.0.rows": 2147483647,
      "model.tables.0.dim": 8,
      "model.tables.1.dim": 8,
      "model.bottom": [8],
    },
    says: [
      /^The tables need 77\.3 GB of memory on host:0, which has [0-9.]+ GB: `user` 77\.3 GB \(2,147,483,647 rows of 8\), and 1 more; give the largest ones `tier: "cached"`, fewer `rows` or a smaller `dim`, or train on more hosts$/,
    ],
  },
  {
    title: "a table larger than the memory",
    set: {
      sharding: "as-written",
      "model.tables.0.rows": 1000000000,
      "model.tables.0.dim": 64,
      "model.tables.1.dim": 64,
      "model.bottom": [64],
    },
    says: [
      /^The tables need 260 GB of memory on host:0, which has [0-9.]+ GB: `user` 260 GB \(1,000,000,000 rows of 64\), and 1 more; give the largest ones `tier: "cached"`, fewer `rows` or a smaller `dim`, or train on more hosts$/,
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
    title: "other data under a finished run",
    before: [trained],
    args: ["train", "job.json", "--data", "more.csv"],
    files: { "more.csv": "clicked,price,user,item\n0,1.5,u1,1\n1,2.5,u2,2\n" },
    says: [
      "checkpoints holds a run of another job (other `data`); name another directory, or delete that one",
    ],
  },
  {
    title: "a data file as a checkpoint",
    args: ["eval", "clicks.csv", "--data", "clicks.csv"],
    says: ["There is no checkpoint in clicks.csv: that is a file, expected a checkpoint directory"],
  },
  {
    title: "an empty directory as a checkpoint",
    args: ["eval", "empty", "--data", "clicks.csv"],
    files: { "empty/inner/x": "" },
    says: ["There is no checkpoint in empty: the directory has no job.json; it holds other files"],
  },
  {
    title: "a checkpoint that is not there",
    args: ["eval", "nowhere", "--data", "clicks.csv"],
    says: ["There is no checkpoint in nowhere: there is no such directory"],
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
    title: "verification of what is no run",
    args: ["checkpoint", "verify", "empty"],
    files: { "empty/inner/x": "" },
    says: ["There is no checkpoint in empty: the directory has no job.json; it holds other files"],
  },
  {
    title: "an export of a table that there is not",
    before: [trained],
    args: ["table", "export", "checkpoints", "users", "--out", "users.csv"],
    says: ["Expected a table of the model, `user`, `item`, got `users`"],
  },
  {
    title: "a plan that is no plan",
    args: ["train", "job.json", "--plan", "clicks.csv"],
    says: [
      "Cannot use the plan clicks.csv: Unexpected token 'c', \"clicked,pr\"... is not valid JSON",
    ],
  },
  {
    title: "constants that are none",
    args: ["plan", "job.json", "--constants", "clicks.csv"],
    says: ["Cannot use the constants clicks.csv: it is not valid JSON"],
  },
  {
    title: "a warm start from nowhere",
    args: ["train", "job.json", "--warm-start", "monday"],
    says: ["There is no checkpoint in monday: there is no such directory"],
  },
  {
    title: "a warm start from the run's own directory",
    before: [trained],
    args: ["train", "job.json", "--warm-start", "checkpoints"],
    says: [
      "Expected `warmStart.from` to be another directory than checkpoints, which is `checkpoint.directory`: a warm start is a new run",
    ],
  },
  {
    title: "a warm start for another model",
    before: [trained],
    args: [
      ...["train", "job.json", "--warm-start", "checkpoints", "--set", "checkpoint.directory=b"],
      ...["--set", "model.tables[0].rows=60"],
    ],
    says: [
      "Expected `model.tables[0].rows` to be as in the job of checkpoints, which this one begins with, 50, got `60` (number)",
    ],
  },
  {
    title: "a prediction of a file without a column",
    before: [trained],
    args: ["predict", "checkpoints", "--data", "short.csv", "--out", "out.csv"],
    files: { "short.csv": "clicked,price,usr,item\n1,2,a,3\n" },
    says: [
      "`data.categorical[0]` names the column `user`, which short.csv does not have; it has `clicked`, `price`, `usr`, `item`; did you mean `usr`?",
    ],
  },
  {
    title: "a prediction into a directory that is not there",
    before: [trained],
    args: ["predict", "checkpoints", "--data", "clicks.csv", "--out", "no/where.csv"],
    says: ["Cannot write no/where.csv: ENOENT: no such file or directory"],
  },
  {
    title: "a prediction under a name that the file has",
    before: [trained],
    args: [
      ...["predict", "checkpoints", "--data", "clicks.csv", "--out", "o.csv"],
      ...["--column", "price"],
    ],
    says: ["clicks.csv has a column `price` already: name another for the result"],
  },
  {
    title: "the best checkpoint of a run that keeps none",
    before: [trained],
    args: ["eval", "checkpoints", "--data", "clicks.csv", "--manifest", "best"],
    says: [
      "There is no checkpoint in checkpoints that is the best: `evaluation.keepBest` or `evaluation.earlyStopping` keeps one",
    ],
  },
  {
    title: "a job.json of another program in the place of a checkpoint",
    args: ["eval", "odd", "--data", "clicks.csv"],
    files: { "odd/job.json": "{}" },
    says: [
      "Expected a checkpoint directory, but odd/job.json is no record of a checkpoint; name another directory",
    ],
  },
  {
    title: "a checkpoint's parent in its place",
    before: [["train", "job.json", "--devices", "1", "--set", "checkpoint.directory=runs/day1"]],
    args: ["eval", "runs", "--data", "clicks.csv"],
    says: ["There is no checkpoint in runs: did you mean runs/day1?"],
  },
];
