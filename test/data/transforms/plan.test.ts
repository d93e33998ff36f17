// Transforms that do not fit together, or do not fit the features: each is refused with its path
// before any file is read. A job's identity covers all options that decide its bits.

import { join } from "node:path";
import test from "ava";
import { csv } from "../../../src/data/sources.ts";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import { jobIdentity, resolveJob } from "../../../src/job/job.ts";
import { withFiles } from "../../../src/job/job-files.ts";
import { startDirectory, writeText } from "../data-files.ts";

const tables = [{ name: "bucket", rows: 9, dim: 4 }];
const bucket = { op: "bucketize", input: "logged", output: "bucket", borders: [1, 2] };
const logged = { op: "log", input: "price", output: "logged" };

function jobOf(
  transforms: readonly unknown[],
  own: object = {},
  paths: string | string[] = "x.csv",
) {
  const features = { dense: ["logged"], categorical: [{ column: "bucket", ids: "integer" }] };
  const options = { label: "y", batchSize: 8, transforms, ...features, ...own };
  const data = csv(paths, options as never);
  return resolveJob({ model: { kind: "dlrm", tables, bottom: [4], top: [4, 1] }, data });
}

function problemsOf(transforms: readonly unknown[], own: object = {}): string[] {
  try {
    jobOf(transforms, own);
    return [];
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    return error.problems.map(({ message }) => message);
  }
}

test("valid transforms are accepted in any order", (t) => {
  t.deepEqual(problemsOf([logged, bucket]), []);
  t.deepEqual(problemsOf([bucket, logged]), []);
});

const refusals: readonly (readonly [string, readonly unknown[], object, string])[] = [
  [
    "two outputs of one name",
    [logged, bucket, { ...logged, input: "other" }],
    {},
    "Expected `data.transforms[2].output` to be the name of no other output, and transforms[0] makes `logged`, got `logged` (string)",
  ],
  [
    "an element of a unit vector that is an output, too",
    [
      logged,
      bucket,
      { ...logged, output: "u.1" },
      { op: "onehot", input: "price", output: "u", low: 0, high: 4, buckets: 2 },
    ],
    {},
    "Expected `data.transforms[3].output` to be the name of no other output, and transforms[2] makes `u.1`, got `u` (string)",
  ],
  [
    "a circle of one",
    [bucket, { ...logged, input: "logged" }],
    {},
    "Expected `data.transforms[1].input` to be no output that is made of the transform itself (logged from logged), got `logged` (string)",
  ],
  [
    "a circle of three",
    [
      bucket,
      { ...logged, input: "a" },
      { op: "fill", input: "b", output: "a", value: 1 },
      { op: "scale", input: "logged", output: "b", over: 2 },
    ],
    {},
    "Expected `data.transforms[1].input` to be no output that is made of the transform itself (logged from a from b from logged), got `a` (string)",
  ],
  [
    "ids where numbers are read",
    [logged, bucket, { op: "log", input: "bucket", output: "again" }],
    {},
    "Expected `data.transforms[2].input` to be a column of numbers or lists, as `log` reads them, and `bucket` has ids, got `bucket` (string)",
  ],
  [
    "numbers where ids are read",
    [logged, bucket, { op: "jaccard", inputs: ["bucket", "logged"], output: "near" }],
    {},
    "Expected `data.transforms[2].inputs[1]` to be a column of ids, as `jaccard` reads them, and `logged` has numbers, got `logged` (string)",
  ],
  [
    "an output that is to be split",
    [
      logged,
      bucket,
      { op: "firstX", input: { column: "bucket", separator: "|" }, output: "f", x: 2 },
    ],
    {},
    "Expected `data.transforms[2].input.separator` to be left out, as `bucket` is made by a transform and is no text to split, got `|` (string)",
  ],
  [
    "a list for what reads one number",
    [
      logged,
      bucket,
      { op: "getLocalHour", input: { column: "time", separator: "|" }, output: "hour" },
    ],
    {},
    "Expected `data.transforms[2].input.separator` to be left out, as `getLocalHour` reads one number a row, got `|` (string)",
  ],
  [
    "weights of numbers",
    [logged, { ...bucket, input: { column: "x", separator: "|", weightSeparator: ":" } }],
    {},
    "Expected `data.transforms[1].input.weightSeparator` to be left out, as `bucketize` reads numbers, got `:` (string)",
  ],
  [
    "one separator for two things",
    [logged, { ...bucket, input: { column: "x", separator: ":", weightSeparator: ":" } }],
    {},
    "Expected `data.transforms[1].input.weightSeparator` to be another character than `separator`, got `:` (string)",
  ],
  [
    "ids as a dense feature",
    [logged, bucket],
    { dense: ["bucket"] },
    "Expected `data.dense[0]` to be a column of numbers, and the transform `bucket` makes ids, got `bucket` (string)",
  ],
  [
    "numbers as a categorical feature",
    [logged, bucket],
    { categorical: [{ column: "logged", table: "bucket" }] },
    'Expected `data.categorical[0]` to be a column of ids or texts, and the transform `logged` makes numbers, got `{"column":"logged","table":"bucket"}` (object)',
  ],
  [
    "an output that a feature is to split",
    [logged, bucket],
    { categorical: [{ column: "bucket", separator: "|" }] },
    "Expected `data.categorical[0].separator` to be left out, as a transform makes `bucket`, which is no text to split, got `|` (string)",
  ],
  [
    "the label as an input",
    [{ ...logged, input: "y" }, bucket],
    {},
    'Expected `data.transforms` to be made of other columns than the label, `y`: a model that reads the label predicts nothing (say `labelAsFeature: true` where it is meant), got `[{"op":"log","input":"y","output":"logged"},{"op":"bucket...` (list)',
  ],
  [
    "the label as an output",
    [logged, bucket, { ...logged, output: "y" }],
    {},
    "Expected `data.label` to be a column of the file, and a transform makes it, got `y` (string)",
  ],
];

for (const [what, transforms, own, message] of refusals) {
  test(`transforms are refused: ${what}`, (t) => {
    t.deepEqual(problemsOf(transforms, own), [message]);
  });
}

test("a wrong argument is refused with its path, and an omitted one has its default", (t) => {
  t.deepEqual(problemsOf([{ ...logged, plus: "1" }, bucket]), [
    "Expected `data.transforms[0].plus` to be a number, got `1` (string)",
  ]);
  const { data } = jobOf([logged, bucket]);
  t.deepEqual("transforms" in data ? data.transforms?.[0] : undefined, {
    op: "log",
    version: 1,
    output: "logged",
    input: { column: "price" },
    plus: 0,
  });
});

test("the label may be a transform input where the job allows it", (t) => {
  t.deepEqual(problemsOf([{ ...logged, input: "y" }, bucket], { labelAsFeature: true }), []);
});

test("a unit vector is as many dense features as it has elements", (t) => {
  const onehot = { op: "onehot", input: "price", output: "u", low: 0, high: 4, buckets: 3 };
  const job = jobOf([logged, bucket, onehot], { dense: [{ column: "u" }, "logged", "u.1"] });
  t.is(job.model.dense, 5);
  t.is(resolveJob(structuredClone(job)).model.dense, 5);
});

test("the identity of a job covers its transforms, and not their order", (t) => {
  const identity = (...transforms: unknown[]) => jobIdentity(jobOf(transforms));
  const before = identity(logged, bucket);
  t.is(identity(bucket, logged), before);
  t.is(identity({ ...logged, plus: 0, version: 1 }, bucket), before);
  t.not(identity({ ...logged, plus: 1 }, bucket), before);
  t.not(identity(logged, { ...bucket, borders: [1, 3] }), before);
  t.not(identity(logged, bucket, { op: "sampling", rate: 0.5 }), before);
});

test("the identity of a job covers a vocabulary's contents, fixed when first read", async (t) => {
  const directory = startDirectory(t);
  const write = (name: string, text: string) => writeText(directory, { name, text });
  const paths = [write("x.csv", "y,price,brand\n1,2,a\n")];
  const jobWith = (vocabulary: string) => {
    const mapId = { op: "mapId", input: "brand", output: "bucket", vocabulary };
    return withFiles(jobOf([logged, mapId], {}, paths));
  };
  const first = await jobWith(write("a.txt", "a\nb\n"));
  t.is(jobIdentity(await jobWith(write("b.txt", "a\nb\n"))), jobIdentity(first));
  t.not(jobIdentity(await jobWith(write("c.txt", "b\na\n"))), jobIdentity(first));
  write("a.txt", "a\nc\n");
  t.is(jobIdentity(await withFiles(first)), jobIdentity(first));
  await t.throwsAsync(jobWith(join(directory, "none.txt")), { code: "INPUT_UNUSABLE" });
});
