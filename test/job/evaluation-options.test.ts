// Held-out data are read like the training data: omitted options are inherited, differing ones are
// refused, and jobs of earlier versions keep their identities.

import test, { type ExecutionContext } from "ava";
import {
  criteo,
  csv,
  type EvaluationData,
  InvalidOptionError,
  type JobOptions,
  parquet,
  synthetic,
} from "../../internal.ts";
import type { CsvOptions } from "../../src/data/options.ts";
import { jobIdentity, resolveJob } from "../../src/job/job.ts";

const training: CsvOptions = csv("train.tsv", {
  label: "clicked",
  dense: ["age", { column: "price", log: true }],
  categorical: [
    "user",
    { column: "genres", table: "item", ids: "integer", offset: 5, separator: "|" },
  ],
  delimiter: "\t",
  batchSize: 64,
  epochs: 3,
  shuffle: false,
  cache: "elsewhere",
});

function jobWith(data: EvaluationData, more: Partial<JobOptions["evaluation"]> = {}): JobOptions {
  return {
    model: {
      kind: "dlrm",
      dense: 2,
      tables: ["user", "item"].map((name) => ({ name, rows: 100, dim: 4 })),
      bottom: [4],
      top: [1],
    },
    data: training,
    evaluation: { data, ...more },
  };
}

function problemsOf(t: ExecutionContext, job: JobOptions): string[] {
  const error = t.throws(() => resolveJob(job), { instanceOf: InvalidOptionError });
  return error.problems.map(({ message }) => message);
}

test("evaluation data inherit omitted options, except how training iterates its data", (t) => {
  const { data, evaluation } = resolveJob(jobWith({ paths: ["valid.tsv"] }));
  t.deepEqual(evaluation?.data, { ...data, paths: ["valid.tsv"], passes: 1, shuffle: true });
});

test("predicates of training data are not inherited by evaluation data, and may differ", (t) => {
  const { kind: _, delimiter: _tab, ...columns } = training;
  const where = [{ column: "date", until: "2026-12-01" }];
  const genres = { column: "genres", table: "item", list: "plain" } as const;
  const data = parquet("train/", { ...columns, categorical: ["user", genres], where });
  const of = (held: EvaluationData) => resolveJob({ ...jobWith(held), data }).evaluation?.data;
  t.is((of({ paths: ["valid/"] }) as { where?: unknown }).where, undefined);
  const own = [{ column: "date", equals: "2026-12-01" }];
  t.like(of({ paths: ["train/"], where: own }), { where: own, kind: "parquet" });
});

test("evaluation data that repeat the columns have the identity of those that omit them", (t) => {
  const earlyStopping = { metric: "auc", patience: 1 } as const;
  const { epochs: _epochs, shuffle: _shuffle, ...repeated } = training;
  const [short, long, other] = [
    { paths: ["valid.tsv"] },
    { ...repeated, paths: ["valid.tsv"] },
    { paths: ["other.tsv"] },
  ].map((data) => jobIdentity(resolveJob(jobWith(data, { earlyStopping }))));
  t.is(short, long);
  t.not(short, other);
});

test("a resolved job, resolved again on another host, stays unchanged", (t) => {
  const job = resolveJob(jobWith({ paths: ["valid.tsv"] }));
  t.deepEqual(resolveJob(JSON.parse(JSON.stringify(job))), job);
});

const way =
  "(leave it out, and it is taken from there; `evaluation.dataDiffers: true` allows another)";
const differing: readonly [name: string, data: EvaluationData, message: string][] = [
  [
    "another label",
    { label: "bought" },
    `Expected \`evaluation.data.label\` to be "clicked", as in the training data ${way}, got \`bought\` (string)`,
  ],
  [
    "a dense feature without its logarithm",
    { dense: ["age", "price"] },
    `Expected \`evaluation.data.dense[1].log\` to be true, as in the training data ${way}, got \`false\` (boolean)`,
  ],
  [
    "fewer dense features",
    { dense: ["age"] },
    `Expected \`evaluation.data.dense\` to be [{"column":"age","log":false},{"column":"price","log":true}], as in the training data ${way}, got \`[{"column":"age","log":false}]\` (list)`,
  ],
  [
    "another column for a table",
    { categorical: [{ column: "item", table: "user" }, (training.categorical ?? [])[1] ?? ""] },
    `Expected \`evaluation.data.categorical[0].column\` to be "user", as in the training data ${way}, got \`item\` (string)`,
  ],
  [
    "other ids",
    {
      categorical: [
        "user",
        { column: "genres", table: "item", ids: "hash", offset: 5, separator: "|" },
      ],
    },
    `Expected \`evaluation.data.categorical[1].ids\` to be "integer", as in the training data ${way}, got \`hash\` (string)`,
  ],
  [
    "another offset",
    {
      categorical: [
        "user",
        { column: "genres", table: "item", ids: "integer", offset: 4, separator: "|" },
      ],
    },
    `Expected \`evaluation.data.categorical[1].offset\` to be 5, as in the training data ${way}, got \`4\` (number)`,
  ],
  [
    "one id where training has several",
    {
      categorical: ["user", { column: "genres", table: "item", ids: "integer", offset: 5 }],
    },
    `Expected \`evaluation.data.categorical[1].separator\` to be "|", as in the training data ${way}, got nothing`,
  ],
];

for (const [name, data, message] of differing) {
  test(`evaluation data with ${name} are refused, unless the job allows it`, (t) => {
    const full = { ...data, paths: ["valid.tsv"] };
    t.deepEqual(problemsOf(t, jobWith(full)), [message]);
    t.notThrows(() => resolveJob(jobWith(full, { dataDiffers: true })));
  });
}

test("files, delimiters, separators, caches and bad lines may differ in evaluation data", (t) => {
  const categorical = [
    { column: "genres", table: "item", ids: "integer", offset: 5, separator: ";" } as const,
    "user",
  ];
  const own = { paths: ["a.csv", "b.csv"], delimiter: ";", cache: "c", quarantineMax: 1 };
  t.notThrows(() => resolveJob(jobWith({ ...own, categorical })));
});

test("all differing options are reported at once", (t) => {
  const data = { label: "bought", dense: ["age", "price"], paths: ["valid.tsv"] };
  t.is(problemsOf(t, jobWith(data)).length, 2);
});

test("evaluation data of another kind are refused, unless the job allows it", (t) => {
  const tables = criteo.tables({ dim: 4 });
  const { batchSize: _batchSize, ...held } = criteo.tsv("valid.tsv", { batchSize: 64 });
  const job: JobOptions = {
    model: { kind: "dlrm", dense: 13, tables, bottom: [4], top: [1] },
    data: synthetic({ samples: 1000, batchSize: 64 }),
    evaluation: { data: held },
  };
  t.regex(problemsOf(t, job)[0] ?? "", /^Expected `evaluation\.data\.kind` to be "synthetic", as /);
  const { evaluation } = resolveJob({ ...job, evaluation: { data: held, dataDiffers: true } });
  t.like(evaluation?.data, { kind: "criteo-tsv", batchSize: 64 });
});

test("synthetic evaluation data of another true model are refused", (t) => {
  const job: JobOptions = {
    model: { kind: "dlrm", dense: 2, tables: [], bottom: [4], top: [1] },
    data: synthetic({ samples: 1000, dense: 2, seed: 7, batchSize: 64 }),
  };
  const held = resolveJob({ ...job, evaluation: { data: { samples: 100 } } }).evaluation?.data;
  t.like(held, { kind: "synthetic", samples: 100, seed: 7, dense: 2 });
  t.regex(
    problemsOf(t, { ...job, evaluation: { data: { samples: 100, seed: 8 } } })[0] ?? "",
    /^Expected `evaluation\.data\.seed` to be 7, as in the training data/,
  );
});

test("thresholds must be distinct probabilities, and do not change the identity", (t) => {
  const paths = ["valid.tsv"];
  const problemsWith = (thresholds: number[]) => problemsOf(t, jobWith({ paths }, { thresholds }));
  t.deepEqual(problemsWith([0.5, 0.5]), [
    "Expected `evaluation.thresholds` to be different numbers, got `[0.5,0.5]` (list)",
  ]);
  t.regex(
    problemsWith([1])[0] ?? "",
    /^Expected `evaluation.thresholds\[0\]` to be a number < 1, got `1`/,
  );
  t.is(
    jobIdentity(resolveJob(jobWith({ paths }, { thresholds: [0.5] }))),
    jobIdentity(resolveJob(jobWith({ paths }))),
  );
});
