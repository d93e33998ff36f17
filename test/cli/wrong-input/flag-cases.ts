// Commands and flags that are misspelled, incomplete or contradict each other.

import type { WrongInput } from "./case.ts";

export const flagCases: readonly WrongInput[] = [
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
    title: "a number with underscores, which YAML reads as text",
    args: ["train", "job.json", "--devices", "1", "--set", "data.batchSize=5_000"],
    says: ["job.json: Expected `data.batchSize` to be a number, got `5_000` (string); write 5000"],
  },
  {
    title: "an address that is none",
    args: ["ls", "--nats", "http://example.com"],
    says: [
      "Expected `servers` to be addresses like `nats://127.0.0.1:4222`, got `http://example.com` (string)",
    ],
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
    title: "a curve that cannot be written",
    args: ["train", "job.json", "--history", "no/where.csv"],
    says: [
      "Cannot write the curve no/where.csv: ENOENT: no such file or directory, open 'no/where.csv'",
    ],
  },
];
