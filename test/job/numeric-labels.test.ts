// Numeric labels as options of a job: what follows from the loss, what contradicts it, and what is
// part of the identity.

import test from "ava";
import { csv, synthetic } from "../../src/data/sources.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { evaluationDataOf } from "../../src/job/evaluation-options.ts";
import { type JobOptions, jobIdentity, resolveJob } from "../../src/job/job.ts";

const table = { name: "item", rows: 50, dim: 4 };
const mse = { kind: "mse" } as const;
const job: JobOptions = {
  model: { kind: "dlrm", dense: 1, tables: [table], bottom: [4], top: [4, 1] },
  data: csv("ratings.csv", { label: "stars", dense: ["price"], batchSize: 10 }),
  loss: mse,
};
const tasks = [
  { name: "click", tower: [4] },
  { name: "seconds", loss: mse },
];
const two: JobOptions = {
  model: { kind: "sharedBottom", dense: 1, tables: [table], shared: [4], tasks },
  data: csv("clicks.csv", { label: ["click", "seconds"], dense: ["price"], batchSize: 10 }),
};

function numericIn(options: unknown): readonly string[] | undefined {
  const { data } = resolveJob(options);
  return data.kind === "criteo-tsv" ? undefined : data.numericLabels;
}

test("the labels trained by `mse` are numeric, in all parts of the data", (t) => {
  const held = { data: { paths: ["other.csv"] } };
  const resolved = resolveJob({ ...job, evaluation: held });
  t.deepEqual(numericIn(job), ["stars"]);
  t.like(resolved.evaluation?.data, { numericLabels: ["stars"] });
  t.deepEqual(numericIn(two), ["seconds"]);
  t.deepEqual(numericIn({ ...two, loss: mse }), ["click", "seconds"]);
  const usual = { kind: "binaryCrossEntropy" } as const;
  const first = { ...two.model, tasks: [{ ...tasks[0], loss: usual }, { name: "seconds" }] };
  t.deepEqual(numericIn({ ...two, model: first, loss: mse }), ["seconds"], "a task's own loss");
  const generated = synthetic({ samples: 100, batchSize: 10, dense: 1, labels: 2 });
  const named = { ...two.model, tasks: [{ name: "label" }, { name: "label2", loss: mse }] };
  t.deepEqual(numericIn({ model: named, data: generated }), ["label2"]);
  t.is(numericIn({ ...job, loss: usual }), undefined);
  t.deepEqual(numericIn(JSON.parse(JSON.stringify(resolved))), ["stars"], "resolved again");
});

test("the kinds of loss and label are part of the identity", (t) => {
  const losses = [undefined, mse, { kind: "binaryCrossEntropy", positiveWeight: 2 }] as const;
  const all = losses.map((loss) => jobIdentity(resolveJob({ ...job, loss })));
  t.is(new Set(all).size, 3);
  const own = { ...two.model, tasks: [tasks[0], { ...tasks[1], weight: 2 }] };
  const models = [two.model, own, { ...own, tasks: tasks.map(({ name }) => ({ name })) }];
  t.is(new Set(models.map((model) => jobIdentity(resolveJob({ ...two, model })))).size, 3);
});

/** Refused jobs: the job, the changed options, and the expected error. */
const refused: readonly (readonly [JobOptions, object, string])[] = [
  [
    job,
    { loss: { kind: "mse", positiveWeight: 2 } },
    "no option `loss.positiveWeight`: there is none of that name; the options here are `kind`",
  ],
  [
    job,
    { loss: { kind: "mse", labelSmoothing: 0.1 } },
    "no option `loss.labelSmoothing`: there is none of that name; the options here are `kind`",
  ],
  [job, { loss: "mse" }, "`loss` to be an object, got `mse` (string)"],
  [
    job,
    { data: { ...job.data, positive: 5 } },
    "`data.positive` to be left out where each label is a number, got `5` (number)",
  ],
  [
    job,
    { data: { ...job.data, group: "user" } },
    "`data.group` to be left out where each label is a number, as groups are for GAUC, which ranks classes, got `user` (string)",
  ],
  [
    job,
    { data: synthetic({ samples: 100, batchSize: 10, dense: 1, groups: 7 }) },
    "`data.groups` to be left out where each label is a number, as groups are for GAUC, which ranks classes, got `7` (number)",
  ],
  [
    job,
    { evaluation: { thresholds: [0.5] } },
    "`evaluation.thresholds` to be left out where each label is a number, which has no probability, got `[0.5]` (list)",
  ],
  [
    job,
    { evaluation: { keepBest: "auc" } },
    '`evaluation.keepBest` to be one of "mse", "rmse", "mae", "r2", as the label `stars` is a number, got `auc` (string)',
  ],
  [
    job,
    { evaluation: { earlyStopping: { metric: "gauc", patience: 1 } } },
    '`evaluation.earlyStopping.metric` to be one of "mse", "rmse", "mae", "r2", as the label `stars` is a number, got `gauc` (string)',
  ],
  [
    { ...job, loss: { kind: "binaryCrossEntropy" } },
    { evaluation: { reduceOnPlateau: { metric: "rmse" } } },
    '`evaluation.reduceOnPlateau.metric` to be one of "auc", "gauc", "logLoss", "normalizedEntropy", as the label `stars` is a class, got `rmse` (string)',
  ],
  [
    two,
    { evaluation: { earlyStopping: { metric: "auc", task: "seconds", patience: 1 } } },
    '`evaluation.earlyStopping.metric` to be one of "mse", "rmse", "mae", "r2", as the label `seconds` is a number, got `auc` (string)',
  ],
  [
    two,
    { evaluation: { earlyStopping: { metric: "auc", task: "buy", patience: 1 } } },
    "`evaluation.earlyStopping.task` to be one of the tasks, `click`, `seconds`, got `buy` (string)",
  ],
  [
    two,
    { evaluation: { reduceOnPlateau: { metric: "auc", task: "buy" } } },
    "`evaluation.reduceOnPlateau.task` to be one of the tasks, `click`, `seconds`, got `buy` (string)",
  ],
  [
    job,
    { data: { ...job.data, numericLabels: ["price"] } },
    "`data.numericLabels[0]` to be one of the labels, `stars`, got `price` (string)",
  ],
  [
    { ...job, loss: { kind: "binaryCrossEntropy" } },
    { data: { ...job.data, numericLabels: ["stars"] } },
    '`loss.kind` to be "mse", as `data.numericLabels` names `stars`, got `binaryCrossEntropy` (string)',
  ],
  [
    two,
    { data: { ...two.data, numericLabels: ["click", "seconds"] } },
    '`loss.kind` to be "mse", as `data.numericLabels` names `click`, got `binaryCrossEntropy` (string)',
  ],
  [
    two,
    { data: { ...two.data, numericLabels: ["click"] }, loss: mse },
    '`model.tasks[1].loss.kind` to be "binaryCrossEntropy", as `data.numericLabels` does not name `seconds`, got `mse` (string)',
  ],
  [
    job,
    { model: { kind: "finalNet", tables: [table], first: [4], second: [4] } },
    '`loss.kind` to be "binaryCrossEntropy" where `model.second` is named, as both blocks of a FinalNet learn from the probability that they predict, got `mse` (string)',
  ],
];

for (const [base, own, expected] of refused) {
  test(`a contradictory job is refused: ${expected}`, (t) => {
    const { message } = t.throws(() => resolveJob({ ...base, ...own }), {
      instanceOf: InvalidOptionError,
    });
    t.true(message.split("\n").includes(`Expected ${expected}`), message);
  });
}

test("Parquet files have the same numeric label rules, and the same errors", (t) => {
  const data = { ...job.data, kind: "parquet", paths: ["ratings.parquet"] };
  t.deepEqual(numericIn({ ...job, data }), ["stars"]);
  for (const [own, message] of [
    [{ positive: 5 }, /^Expected `data.positive` to be left out where each label is a number/],
    [{ group: "user" }, /^Expected `data.group` to be left out where each label is a number, as/],
  ] as const) {
    t.throws(() => resolveJob({ ...job, data: { ...data, ...own } }), { message });
  }
});

test("the label of Criteo's logs cannot be numeric", (t) => {
  const tables = Array.from({ length: 26 }, (_, i) => ({ name: `C${i + 1}`, rows: 10, dim: 4 }));
  const model = { kind: "dlrm", dense: 13, tables, bottom: [4], top: [4, 1] };
  const data = { kind: "criteo-tsv", paths: ["a.tsv"], batchSize: 10 };
  t.throws(() => resolveJob({ model, data, loss: mse }), {
    message:
      'Expected `loss.kind` to be "binaryCrossEntropy", as the label of Criteo\'s logs is a class, got `mse` (string)',
  });
});

test("a FinalNet of one block may have a numeric label", (t) => {
  const model = { kind: "finalNet", tables: [table], first: [4] };
  t.notThrows(() => resolveJob({ ...job, model }));
});

test("data without a model's numeric labels are refused, naming the option", (t) => {
  const { data } = resolveJob({ ...job, data: { ...job.data, categorical: ["item"] } });
  const other = synthetic({ samples: 10, batchSize: 10, dense: 1 });
  t.throws(() => evaluationDataOf(other, data, [table], true), {
    message:
      /Expected `data.numericLabels` to be \["label"\], as in the training data, got nothing/,
  });
});
