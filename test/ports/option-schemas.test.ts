// The options of a job that name files: each is marked as a path in its schema.

import test from "ava";
import { z } from "zod";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { jobSchema } from "../../src/job/job-schema.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { freeTexts, pathOption, withPaths } from "../../src/ports/option-schemas.ts";

/**
 * Text options that may be anything and name no file: names within the job, characters, column
 * values, and hashes that are compared. An option of several sections is listed at the first.
 */
const noPaths = [
  ...["data.categorical[].separator", "data.categorical[].weightSeparator", "data.delimiter"],
  ...["data.positive", "data.transforms[].input.separator", "data.where[].equals"],
  ...["data.transforms[].input.weightSeparator", "evaluation.earlyStopping.task"],
  ...["evaluation.split.from", "model.attention[].sequence"],
  ...["model.attention[].target", "model.contexts[]", "model.transformers[].sequence"],
  ...["model.transformers[].target", "plan.sha256", "plan.shards[].table"],
  ...["planner.costs[].sha256", "warmStart.checkpoint", "warmStart.digest"],
];

test("each text option is marked as a path, or listed in this test as none", (t) => {
  const texts = freeTexts(jobSchema);
  const unmarked = [...texts].flatMap(([option, kind]) => (kind === undefined ? option : []));
  t.deepEqual(unmarked.sort(), [...noPaths].sort());
  const paths = [...texts].filter(([, kind]) => kind !== undefined);
  t.deepEqual(Object.fromEntries(paths), {
    "model.path": "module",
    "data.cache": "data",
    "data.paths[]": "data",
    "data.transforms[].vocabulary": "data",
    "checkpoint.directory": "kept",
    "warmStart.from": "kept",
    "tiers.directory": "kept",
    "planner.costs": "data",
    "planner.costs[].file": "data",
  });
});

test("paths are found through defaults, lists, records, unions and transforms", (t) => {
  const schema = z.strictObject({
    one: pathOption("data", z.string().min(1)).default("d"),
    many: z.array(pathOption("kept", z.string().min(1))).transform((all) => all),
    named: z.record(z.string(), pathOption("data", z.string().min(1)).optional()),
    either: z.union([z.literal("none"), pathOption("kept", z.string().min(1))]),
    kind: z.discriminatedUnion("op", [
      z.strictObject({ op: z.literal("a"), file: pathOption("module", z.string().min(1)) }),
      z.strictObject({ op: z.literal("b"), file: z.string() }),
    ]),
    other: z.string(),
  });
  const value = schema.parse({
    ...{ many: ["x", "y"], named: { n: "z" }, either: "e" },
    ...{ kind: { op: "b", file: "no" }, other: "no" },
  });
  const told: string[] = [];
  const change = (path: string, kind: string, option: string) => {
    told.push(`${option}: ${kind}`);
    return `/${path}`;
  };
  t.deepEqual(withPaths(schema, value, change), {
    ...{ one: "/d", many: ["/x", "/y"], named: { n: "/z" }, either: "/e" },
    ...{ kind: { op: "b", file: "no" }, other: "no" },
  });
  t.deepEqual(told, [
    "one: data",
    "many[0]: kept",
    "many[1]: kept",
    "named.n: data",
    "either: kept",
  ]);
  t.is(value.one, "d", "the argument is not changed");
  const other = { ...value, kind: { op: "a" as const, file: "m" } };
  t.is(withPaths(schema, other, change).kind.file, "/m");
});

test("an invalid value with integers beyond 2^53 is reported like any other", (t) => {
  const given = () => checkOptions(z.number(), { of: [2n ** 60n] }, "seed");
  const message = /^Expected `seed` to be a number, got `\{"of":\["1152921504606846976"\]\}`/;
  t.throws(given, { instanceOf: InvalidOptionError, message });
});

test("s3:// alone is an address, and only of checkpoints", (t) => {
  const model = { dense: 2, tables: [{ name: "a", rows: 9, dim: 4 }], bottom: [4], top: [1] };
  const data = { kind: "synthetic", samples: 9, batchSize: 3, dense: 2 } as const;
  const job: JobOptions = { model: { kind: "dlrm", ...model }, data };
  const refused = (options: Partial<JobOptions>, message: RegExp) =>
    t.throws(() => resolveJob({ ...job, ...options }), { message });
  const directory = "gs://bucket/a";
  refused({ checkpoint: { directory } }, /a directory, or `s3:\/\/bucket\/prefix`, got `gs:/);
  refused({ tiers: { directory: "s3://bucket/a" } }, /`tiers.directory` to be a directory of the/);
});
