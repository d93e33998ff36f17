// Data that changed under the same name are detected, and the error names the changed part.

import test from "ava";
import { DataChangedError, type JobOptions } from "../../internal.ts";
import { type DataContents, haveSameSamples } from "../../src/data/contents.ts";
import { checkContents } from "../../src/job/check-contents.ts";
import { resolveJob } from "../../src/job/job.ts";

const job = (data: object, evaluation?: JobOptions["evaluation"]) =>
  resolveJob({
    model: { kind: "dlrm", tables: [{ name: "user", rows: 9, dim: 2 }], top: [1] },
    data: { batchSize: 8, ...data } as JobOptions["data"],
    evaluation,
  });
const files = { kind: "csv", paths: ["a.csv", "b.csv"], label: "y", categorical: ["user"] };
const csvJob = job(files, { data: { paths: ["valid.csv"] } });

const contents = (text: string, hashes: readonly string[] = []): DataContents => ({
  ...{ samples: 100, digest: `digest of ${text}`, version: 3, text },
  files: hashes.map((sha256, i) => ({ path: `/data/${i}`, sha256 })),
});
const training = contents("old", ["1", "2"]);
const held = contents("held", ["5"]);

test("same data, data of unrecorded contents, and new evaluation data are accepted", (t) => {
  const now = { training, evaluation: held };
  for (const then of [undefined, now, { training }]) {
    t.notThrows(() => checkContents(csvJob, then, now, "runs"));
  }
});

test("a changed training file is named, with the directory and both remedies", (t) => {
  const then = { training, evaluation: held };
  const now = { training: { ...contents("new", ["1", "3"]), samples: 90 }, evaluation: held };
  const error = t.throws(() => checkContents(csvJob, then, now, "runs/7"), {
    instanceOf: DataChangedError,
    message:
      "The training file b.csv has other contents (100 samples then, 90 now) since the " +
      "checkpoints in runs/7 were trained: train on it as it is now, as a new job in another " +
      "`checkpoint.directory`, or put the old contents back",
  });
  t.like(error, { data: "b.csv", directory: "runs/7" });
});

test("further changed files are counted", (t) => {
  const now = { training: contents("new", ["0", "3"]) };
  t.throws(() => checkContents(csvJob, { training }, now, "runs"), {
    message: /^The training file a\.csv and 1 more has other contents /,
  });
});

test("a changed evaluation file is named, with the remedies", (t) => {
  const then = { training, evaluation: held };
  const now = { training, evaluation: contents("other", ["6"]) };
  t.throws(() => checkContents(csvJob, then, now, "runs"), {
    instanceOf: DataChangedError,
    message:
      "The evaluation file valid.csv has other contents (100 samples then, 100 now) since the run " +
      "in runs was evaluated: name another `checkpoint.directory` for a new run, or the old " +
      "contents for this one; `osiris eval runs --data FILE` evaluates the model on any file",
  });
  const moved = { ...contents("other"), files: [{ path: "/data/new", sha256: "6" }] };
  t.throws(() => checkContents(csvJob, then, { training, evaluation: moved }, "runs"), {
    message: /^The evaluation file valid\.csv took the place of \/data\/0, with other samples \(/,
  });
});

test("text read with other options has an error that says so", (t) => {
  const now = { training: { ...training, digest: "other" } };
  t.throws(() => checkContents(csvJob, { training }, now, "runs"), {
    message: /^The training file a\.csv is read in another way \(/,
  });
});

test("the error about changed synthetic data names no file", (t) => {
  const generated = job({ kind: "synthetic", samples: 100, dense: 0 });
  const now = { training: contents("new") };
  t.throws(() => checkContents(generated, { training: contents("old") }, now, "runs"), {
    message: /^The generated training data have changed \(/,
  });
});

test("caches of two versions are compared by text hash, or else by number of samples", (t) => {
  const newer = { ...training, version: 4, digest: "digest of version 4" };
  t.true(haveSameSamples(training, newer));
  t.false(haveSameSamples(training, { ...newer, text: "other" }));
  const { text: _text, ...unknown } = training;
  t.true(haveSameSamples(unknown, newer));
  t.false(haveSameSamples(unknown, { ...newer, samples: 99 }));
});
