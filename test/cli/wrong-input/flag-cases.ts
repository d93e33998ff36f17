// Commands and flags that are misspelled, incomplete or contradict each other.

import type { WrongInput } from "./case.ts";

export const flagCases: readonly WrongInput[] = [
  {
    title: "a misspelled command",
    args: ["trian", "job.json"],
    says: [
      "unknown command 'trian'",
      "(Did you mean train?)",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "a misspelled flag",
    args: ["train", "job.json", "--device", "2"],
    says: [
      "unknown option '--device'",
      "(Did you mean --devices?)",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "no job",
    args: ["train"],
    says: ["missing required argument 'job'", "(`osiris help <command>` explains a command)"],
  },
  {
    title: "two jobs",
    args: ["train", "job.json", "job.json"],
    says: [
      "too many arguments for 'train'. Expected 1 argument but got 2.",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "a flag without its value",
    args: ["train", "job.json", "--devices"],
    says: [
      "option '--devices <N>' argument missing",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "no devices",
    args: ["train", "job.json", "--devices", "0"],
    says: [
      "option '--devices <N>' argument '0' is invalid. Expected an integer >= 1, or `auto`.",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "devices in words",
    args: ["train", "job.json", "--devices", "two"],
    says: [
      "option '--devices <N>' argument 'two' is invalid. Expected an integer >= 1, or `auto`.",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "devices with a fraction",
    args: ["train", "job.json", "--devices", "1.5"],
    says: [
      "option '--devices <N>' argument '1.5' is invalid. Expected an integer >= 1, or `auto`.",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "data for a job that generates its own",
    set: { data: { kind: "synthetic", samples: 100, dense: 1, batchSize: 20 } },
    args: ["train", "job.json", "--data", "clicks.csv"],
    says: ["job.json: `--data` is for jobs that read files"],
  },
  {
    title: "`--set` without a value",
    args: ["train", "job.json", "--set", "seed"],
    says: ["Expected `--set` to be an option and its value, as data.batchSize=512, got `seed`"],
  },
  {
    title: "`--set` of an option that there is not",
    args: ["train", "job.json", "--set", "sede=3"],
    says: ["job.json: Expected no option `sede`: did you mean `seed`?"],
  },
  {
    title: "`--set` of a wrong value",
    args: ["train", "job.json", "--set", "data.batchSize=many"],
    says: ["job.json: Expected `data.batchSize` to be a number, got `many` (string)"],
  },
  {
    title: "a seed in words",
    args: ["train", "job.json", "--seed", "lucky"],
    says: [
      "option '--seed <N>' argument 'lucky' is invalid. Expected an integer >= 0.",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "a port beyond all ports",
    args: ["metrics", "--port", "70000"],
    says: [
      "option '--port <P>' argument '70000' is invalid. Expected an integer >= 0, at most 65535.",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "a number with underscores, which YAML reads as text",
    args: ["train", "job.json", "--devices", "1", "--set", "data.batchSize=5_000"],
    says: ["job.json: Expected `data.batchSize` to be a number, got `5_000` (string); write 5000"],
  },
  {
    title: "no data to evaluate on",
    args: ["eval", "checkpoints"],
    says: [
      "Expected one of `--data FILE`, `--test` (the job's test samples) and `--held-out` (the samples that the job holds out for evaluations)",
    ],
  },
  {
    title: "hosts that do not divide the devices",
    args: ["plan", "job.json", "--devices", "3", "--hosts", "2"],
    says: ["Expected `--devices` to be a multiple of the 2 hosts, got `3` (number)"],
  },
  {
    title: "a scheme that there is not",
    args: ["plan", "job.json", "--schemes", "diagonal"],
    says: [
      "option '--schemes <LIST>' argument 'diagonal' is invalid. Expected `all` or any of table-wise, row-wise, column-wise, data-parallel, table-row-wise, table-column-wise, grid.",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "memory in words",
    args: ["plan", "job.json", "--memory", "much"],
    says: [
      "option '--memory <BYTES>' argument 'much' is invalid. Expected bytes > 0, as in 16000000000, 16GB or 16GiB.",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "a plan of no job",
    args: ["plan"],
    says: ["Expected a job file to plan, or `--calibrate`"],
  },
  {
    title: "an address that is none",
    args: ["ls", "--nats", "http://example.com"],
    says: [
      "Expected `servers` to be addresses like `nats://127.0.0.1:4222`, got `http://example.com` (string)",
    ],
  },
  {
    title: "a sweep over nothing",
    args: ["sweep", "job.json"],
    says: ["job.json: Expected `sweep.over` to be an object, got nothing"],
  },
  {
    title: "a job with a sweep for one run",
    set: { sweep: { over: { seed: [1, 2] } } },
    args: ["train", "job.json"],
    says: ["The job job.json has a `sweep`: `osiris sweep` trains it"],
  },
  {
    title: "completion for a shell that is not known",
    args: ["completion", "tcsh"],
    says: [
      "command-argument value 'tcsh' is invalid for argument 'shell'. Allowed choices are bash, zsh, fish.",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "samples in words",
    args: ["generate", "--samples", "many", "--out", "x.tsv"],
    says: [
      "option '--samples <N>' argument 'many' is invalid. Expected an integer >= 1.",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "all devices in words",
    args: ["train", "job.json", "--devices", "all"],
    says: [
      "option '--devices <N>' argument 'all' is invalid. Expected an integer >= 1, or `auto`.",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "caches to remove, and none named",
    args: ["cache", "rm"],
    says: ["Expected what to remove: names of caches, `--older-than` or `--all`"],
  },
  {
    title: "a cache that there is not",
    args: ["cache", "rm", "nix"],
    says: ["There is no cache `nix` in .osiris/cache: `osiris cache ls` lists them"],
  },
  {
    title: "an age that is none",
    args: ["cache", "rm", "--older-than", "3y"],
    says: [
      "option '--older-than <TIME>' argument '3y' is invalid. Expected a time, as in 30m, 12h, 30d or 2w.",
      "(`osiris help <command>` explains a command)",
    ],
  },
  {
    title: "a curve that cannot be written",
    args: ["train", "job.json", "--history", "no/where.csv"],
    says: [
      "Cannot write the curve no/where.csv: ENOENT: no such file or directory, open 'no/where.csv'",
    ],
  },
  {
    title: "a prediction without a file to write",
    args: ["predict", "checkpoints", "--data", "a"],
    says: [
      "required option '-o, --out <FILE>' not specified",
      "(`osiris help <command>` explains a command)",
    ],
  },
];
