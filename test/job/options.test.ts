// One case for each rule of a job: an invalid value, and the exact error message.

import test from "ava";
import { criteo, csv, synthetic } from "../../src/data/sources.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { type JobOptions, jobIdentity, resolveJob } from "../../src/job/job.ts";
import { sliceCounts } from "../../src/job/job-schema.ts";
import { adagrad, adam, rowWiseAdagrad, sgd } from "../../src/model/options.ts";
import { schemes } from "../../src/planner/shards.ts";

const table = { name: "T0", rows: 10, dim: 4 };
const model = { dense: 2, tables: [table, { ...table, name: "T1" }], bottom: [4], top: [3, 1] };
const job: JobOptions = {
  model: { kind: "dlrm", ...model },
  data: synthetic({ samples: 100, batchSize: 10, dense: 2 }),
};
const held = { evaluation: { data: synthetic({ samples: 10, batchSize: 10, dense: 2 }) } };

/** The job with `value` at a path such as `model.tables.0.dim`. */
function withOption(path: string, value: unknown, base: JobOptions = job): unknown {
  const copy = structuredClone(base) as unknown as Record<string, unknown>;
  const keys = path.split(".");
  const last = keys.pop() ?? "";
  let at = copy;
  for (const key of keys) {
    at[key] ??= {};
    at = at[key] as Record<string, unknown>;
  }
  at[last] = value;
  return copy;
}

/** Path, an invalid value, the option as the error names it, the expected and the given value. */
type Rule = readonly [path: string, value: unknown, option: string, expected: string, got: string];

const rules: readonly Rule[] = [
  ["name", "a b", "name", "letters, digits, - and _, at most 64", "`a b` (string)"],
  ["model", undefined, "model", "an object", "nothing"],
  ["data", undefined, "data", "an object", "nothing"],
  ["model.dense", -1, "model.dense", "a number >= 0", "`-1` (number)"],
  ["model.dense", 1.5, "model.dense", "an integer", "`1.5` (number)"],
  ["model.tables", {}, "model.tables", "an array", "`{}` (object)"],
  ["model.tables.0.name", "", "model.tables[0].name", "a string of >= 1 characters", "`` (string)"],
  ["model.tables.0.rows", 0, "model.tables[0].rows", "a number >= 1", "`0` (number)"],
  ["model.dim", 5, "model.dim", "left out, or the bottom's last width, 4", "`5` (number)"],
  [
    "model.tables.1.name",
    "T0",
    "model.tables[1].name",
    "a name that no other table has",
    "`T0` (string)",
  ],
  [
    "model.tables.0.pooling",
    "max",
    "model.tables[0].pooling",
    'one of "sum", "mean"',
    "`max` (string)",
  ],
  [
    "model.tables.0.rowBlocks",
    3,
    "model.tables[0].rowBlocks",
    'one of 1, 2, 4, 8, 16, 32, 64, or "auto"',
    "`3` (number)",
  ],
  ["model.tables.0.l2", -0.1, "model.tables[0].l2", "a number >= 0", "`-0.1` (number)"],
  ["model.tables.0.initScale", "big", "model.tables[0].initScale", "a number", "`big` (string)"],
  [
    "model.tables.0.sharding",
    "row",
    "model.tables[0].sharding",
    `one of "auto", ${schemes.map((scheme) => `"${scheme}"`).join(", ")}`,
    "`row` (string)",
  ],
  ["model.tables.0.staleness", 2, "model.tables[0].staleness", "one of 0, 1", "`2` (number)"],
  ["mode", "fast", "mode", 'one of "exact", "bounded", "async"', "`fast` (string)"],
  ["model.tables.0.dedup", 1, "model.tables[0].dedup", "a boolean", "`1` (number)"],
  [
    "model.tables.0.l2Scope",
    "table",
    "model.tables[0].l2Scope",
    '"touched" or "decayed", unless the table\'s sharding is "data-parallel"',
    "`table` (string)",
  ],
  [
    "model.bottom",
    [],
    "model.bottom",
    "at least one layer, as the model has dense features",
    "`[]` (list)",
  ],
  ["model.bottom", [8, 5], "model.bottom[1]", "the dim of the tables, 4", "`5` (number)"],
  ["model.bottom", [0, 4], "model.bottom[0]", "a number >= 1", "`0` (number)"],
  ["model.dense", 0, "model.bottom", "empty, as the model has no dense features", "`[4]` (list)"],
  ["model.top", [], "model.top", "a list of >= 1 entries", "`[]` (list)"],
  ["model.top", [3, 2], "model.top[1]", "1: the logit", "`2` (number)"],
  [
    "model.interaction",
    "sum",
    "model.interaction",
    'one of "dot", "cat", "dot+cat"',
    "`sum` (string)",
  ],
  ["model.dropout", 0.99, "model.dropout", "a number <= 0.95", "`0.99` (number)"],
  [
    "data.kind",
    "avro",
    "data.kind",
    'one of "arrow", "criteo-tsv", "csv", "jsonl", "parquet", "synthetic"',
    "`avro` (string)",
  ],
  ["data.batchSize", 0, "data.batchSize", "a number >= 1", "`0` (number)"],
  ["data.epochs", 0.5, "data.epochs", "an integer", "`0.5` (number)"],
  ["data.order", 1, "data.order", 'one of "global", "split", "sessions"', "`1` (number)"],
  ["data.shuffle", "yes", "data.shuffle", "a boolean", "`yes` (string)"],
  ["data.samples", 0, "data.samples", "a number >= 1", "`0` (number)"],
  ["data.idsPerBag", "x", "data.idsPerBag", "a number, or an object", "`x` (string)"],
  ["data.zipf", Number.NaN, "data.zipf", "a number", "`NaN` (number)"],
  ["data.zipf", -1, "data.zipf", "a number >= 0", "`-1` (number)"],
  ["data.dense", 7, "data.dense", "the model's, 2", "`7` (number)"],
  [
    "optimizer.dense",
    { kind: "lion" },
    "optimizer.dense.kind",
    'one of "sgd", "adagrad", "adam", "lamb"',
    "`lion` (string)",
  ],
  [
    "optimizer.dense",
    { kind: "sgd", learningRate: 0 },
    "optimizer.dense.learningRate",
    "a number > 0",
    "`0` (number)",
  ],
  [
    "optimizer.dense",
    { kind: "adam", beta1: 1 },
    "optimizer.dense.beta1",
    "a number <= 0.999999",
    "`1` (number)",
  ],
  [
    "optimizer.dense",
    { kind: "adam", beta2: -1 },
    "optimizer.dense.beta2",
    "a number >= 0",
    "`-1` (number)",
  ],
  [
    "optimizer.sparse",
    { kind: "adagrad", epsilon: -1 },
    "optimizer.sparse.epsilon",
    "a number > 0",
    "`-1` (number)",
  ],
  [
    "optimizer.sparse",
    { kind: "lion" },
    "optimizer.sparse.kind",
    'one of "sgd", "adagrad", "rowWiseAdagrad", "adam", "partialRowWiseAdam", "lamb", ' +
      '"partialRowWiseLamb", "ftrl"',
    "`lion` (string)",
  ],
  [
    "optimizer.sparse",
    { kind: "rowWiseAdagrad", initialAccumulator: -1 },
    "optimizer.sparse.initialAccumulator",
    "a number >= 0",
    "`-1` (number)",
  ],
  ["evaluation.fraction", 1, "evaluation.fraction", "a number < 1", "`1` (number)"],
  ["evaluation.fraction", 0, "evaluation.fraction", "a number > 0", "`0` (number)"],
  ["evaluation.everySteps", -1, "evaluation.everySteps", "a number >= 0", "`-1` (number)"],
  [
    "evaluation.earlyStopping",
    { metric: "f1", patience: 1 },
    "evaluation.earlyStopping.metric",
    'one of "auc", "gauc", "logLoss", "normalizedEntropy", "mse", "rmse", "mae", "r2"',
    "`f1` (string)",
  ],
  [
    "evaluation.earlyStopping",
    { metric: "auc", patience: 0 },
    "evaluation.earlyStopping.patience",
    "a number >= 1",
    "`0` (number)",
  ],
  [
    "evaluation.earlyStopping",
    { metric: "auc", patience: 1, minDelta: -1 },
    "evaluation.earlyStopping.minDelta",
    "a number >= 0",
    "`-1` (number)",
  ],
  ["checkpoint.everySteps", 0, "checkpoint.everySteps", "a number >= 1", "`0` (number)"],
  [
    "checkpoint.directory",
    "",
    "checkpoint.directory",
    "a string of >= 1 characters",
    "`` (string)",
  ],
  ["checkpoint.keep", 0, "checkpoint.keep", "a number >= 1", "`0` (number)"],
  ["seed", -1, "seed", "a number >= 0", "`-1` (number)"],
  ["slices", 12, "slices", `one of ${sliceCounts.join(", ")}, or "auto"`, "`12` (number)"],
  ["devices", 1025, "devices", "a number <= 1024", "`1025` (number)"],
  ["readers", 0, "readers", "a number >= 1", "`0` (number)"],
  ["arithmetic", "gpu", "arithmetic", 'one of "auto", "native", "reference"', "`gpu` (string)"],
  ["stepDeadlineMs", 99, "stepDeadlineMs", "a number >= 100", "`99` (number)"],
  ["restarts.restartsMax", -1, "restarts.restartsMax", "a number >= 0", "`-1` (number)"],
  ["restarts.windowMs", "1 min", "restarts.windowMs", "a number", "`1 min` (string)"],
];

for (const [path, value, option, expected, got] of rules) {
  test(`a job refuses ${path} = ${JSON.stringify(value)} in one sentence`, (t) => {
    const error = t.throws(() => resolveJob(withOption(path, value)), {
      instanceOf: InvalidOptionError,
      message: `Expected \`${option}\` to be ${expected}, got ${got}`,
    });
    t.is(error?.option, option);
    t.is(error?.code, "INVALID_OPTION");
  });
}

test("an exact job refuses stale tables; a bounded job has them in its identity", (t) => {
  const stale = withOption("model.tables.1.staleness", 1) as JobOptions;
  t.throws(() => resolveJob(stale), {
    instanceOf: InvalidOptionError,
    message:
      "Expected `model.tables[1].staleness` to be 0 in an exact job, whose steps read the rows of the " +
      'step before; set `mode: "bounded"` to allow it, got `1` (number)',
  });
  const identity = (options: unknown) => jobIdentity(resolveJob(options));
  const bounded = withOption("mode", "bounded", stale);
  t.throws(() => resolveJob(withOption("model.tables.1.tier", "cached", bounded as JobOptions)), {
    message:
      'Expected `model.tables[1].tier` to be "memory" where the table has `staleness`, ' +
      "got `cached` (string)",
  });
  const identities = [
    job,
    withOption("mode", "bounded"),
    bounded,
    // Rows are fresh after every cut, so cuts are part of the identity.
    withOption("checkpoint.everySteps", 7, bounded as JobOptions),
    withOption("evaluation.everySteps", 7, bounded as JobOptions),
  ].map(identity);
  t.is(new Set(identities).size, identities.length);
});

test("a job in file order refuses any other order", (t) => {
  const sorted = withOption("data.shuffle", false, withOption("data.order", "split") as JobOptions);
  t.throws(() => resolveJob(sorted), {
    instanceOf: InvalidOptionError,
    message:
      "Expected `data.order` to be left out, as `data.shuffle` is false: samples come as in the " +
      "file, got `split` (string)",
  });
});

test("an evaluation's batch size equals that of the training data, or is left out", (t) => {
  t.is(resolveJob({ ...job, ...held }).evaluation?.data?.batchSize, 10);
  const other = withOption("evaluation.data.batchSize", 20, { ...job, ...held });
  t.throws(() => resolveJob(other), {
    message:
      "Expected `evaluation.data.batchSize` to be left out, or that of the training data, 10, got `20` (number)",
  });
});

for (const [path, why] of [
  ["name2", "did you mean `name`?"],
  ["model.layers", "there is none of that name"],
  ["model.tables.0.size", "there is none of that name"],
  ["data.bachSize", "did you mean `batchSize`?"],
  ["checkpoint.dirctory", "did you mean `directory`?"],
] as const) {
  const option = path.replace(/\.(\d+)/, "[$1]");
  test(`a job refuses an unknown option: ${option}`, (t) => {
    t.throws(() => resolveJob(withOption(path, 1)), {
      instanceOf: InvalidOptionError,
      message: `Expected no option \`${option}\`: ${why}`,
    });
  });
}

for (const nothing of [undefined, null, 7, "job.ts", []]) {
  test(`a job that is ${JSON.stringify(nothing)} is refused`, (t) => {
    const error = t.throws(() => resolveJob(nothing), { instanceOf: InvalidOptionError });
    t.regex(error?.message ?? "", /^Expected `options` to be an object, got /);
  });
}

test("a long value is shortened in the error", (t) => {
  const error = t.throws(() => resolveJob(withOption("name", "x".repeat(500))));
  t.true((error?.message.length ?? 999) < 160, error?.message);
});

test("a checked job is complete and frozen, and checking it again changes nothing", (t) => {
  const resolved = resolveJob(job);
  t.like(resolved, { name: "job", slices: 8, seed: 1, devices: 0, arithmetic: "auto" });
  t.like(resolved.optimizer, { dense: { kind: "adagrad" }, sparse: { kind: "rowWiseAdagrad" } });
  t.true(Object.isFrozen(resolved) && Object.isFrozen(resolved.model.tables[0]));
  t.deepEqual(resolveJob(JSON.parse(JSON.stringify(resolved))), resolved);
});

test("the builders return plain data that a job accepts", (t) => {
  for (const dense of [sgd(), adagrad({ epsilon: 1e-4 }), adam({ learningRate: 1 })]) {
    for (const sparse of [sgd(), adagrad(), rowWiseAdagrad(), adam()]) {
      const given = { ...job, optimizer: { dense, sparse } };
      const { optimizer } = resolveJob(JSON.parse(JSON.stringify(given)));
      t.like(optimizer, { dense, sparse });
    }
  }
  const tables = criteo.tables({ dim: 4 });
  const data = criteo.tsv("train.tsv", { batchSize: 8 });
  const model13 = { kind: "dlrm", dense: 13, tables, bottom: [4], top: [1] } as const;
  t.like(resolveJob({ model: model13, data }).data, data);
});

test("the identity of a job covers exactly the options that decide bits", (t) => {
  const identity = (path: string, value: unknown) =>
    jobIdentity(resolveJob(withOption(path, value)));
  const before = jobIdentity(resolveJob(job));
  for (const [path, value] of [
    ["name", "other"],
    ["devices", 3],
    ["readers", 2],
    ["stepDeadlineMs", 1000],
    ["data.epochs", 3],
    ["data.cache", "elsewhere"],
    ["data.cacheBytesMax", 1e9],
    ["checkpoint.everySteps", 7],
    ["model.tables.0.dedup", true],
    ["tiers.ssd", "file"],
    ["tiers.ssd", "rocksdb"],
    ["tiers.ssd", "none"],
    ["placement", { kind: "host" }],
    ["placement", { kind: "servers", servers: 2 }],
    ["restarts.restartsMax", 1],
  ] as const) {
    t.is(identity(path, value), before, path);
  }
  for (const [path, value] of [
    ["seed", 2],
    ["slices", 4],
    ["data.batchSize", 20],
    ["data.shuffle", false],
    ["data.order", "split"],
    ["data.order", "global"],
    ["model.dropout", 0.1],
    ["model.tables.0.rows", 11],
    ["optimizer.dense", { kind: "sgd" }],
    ["evaluation.fraction", 0.3],
  ] as const) {
    t.not(identity(path, value), before, path);
  }
});

test("all errors of a job are reported at once", (t) => {
  const shape = withOption("model.tables.1.rows", 0, withOption("seed", -1) as JobOptions);
  const given = { ...(shape as JobOptions), speed: 9, haste: 1 };
  const error = t.throws(() => resolveJob(given), { instanceOf: InvalidOptionError });
  const wrong = ["model.tables[1].rows", "seed", "speed", "haste"];
  t.deepEqual(new Set(error?.problems.map(({ option }) => option)), new Set(wrong));
  t.true(wrong.includes(error?.option ?? ""));
  const sentences = error?.problems.map(({ message }) => message) ?? [];
  t.deepEqual(sentences.join("; ").split("; "), error?.message.split("; "));

  // Each option is valid alone, but the combination is not allowed.
  const stale = withOption("model.tables.0.staleness", 1) as JobOptions;
  const apart = withOption("data.dense", 3, stale);
  const second = t.throws(() => resolveJob(apart), { instanceOf: InvalidOptionError });
  const options = second?.problems.map(({ option }) => option);
  t.deepEqual(options, ["data.dense", "model.tables[0].staleness"]);
});

test("a CSV job with invalid columns is refused", (t) => {
  const data = csv("a.csv", { label: "y", batchSize: 8, dense: [7 as never] });
  const error = t.throws(() => resolveJob({ ...job, data }), { instanceOf: InvalidOptionError });
  t.regex(
    error?.message ?? "",
    /^Expected `data\.dense\[0\]` to be the name of a column, or an object/,
  );
});

test("quantised checkpoints are for bounded jobs only", (t) => {
  const stored = (mode: string) => ({ ...job, mode, checkpoint: { bits: 4 } });
  const error = t.throws(() => resolveJob(stored("exact")), { instanceOf: InvalidOptionError });
  t.regex(error.message, /checkpoint\.bits` to be 32 in an exact job, .* set `mode: "bounded"`/);
  t.is(resolveJob(stored("bounded")).checkpoint.bits, 4);
  const identities = [stored("bounded"), { ...job, mode: "bounded" }].map((one) =>
    jobIdentity(resolveJob(one)),
  );
  t.not(identities[0], identities[1], "the job of a directory says how its weights are stored");
});
