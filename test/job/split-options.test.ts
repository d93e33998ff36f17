// The options that split data: contradictions are refused, split options are part of the job's
// identity, and separate test data are not.

import test, { type ExecutionContext } from "ava";
import { csv, InvalidOptionError, type JobOptions, synthetic } from "../../internal.ts";
import { jobIdentity, resolveJob } from "../../src/job/job.ts";

type Evaluation = NonNullable<JobOptions["evaluation"]>;

function jobWith(evaluation: Evaluation): JobOptions {
  const columns = { dense: ["price"], categorical: ["user"] };
  return {
    model: {
      kind: "dlrm",
      dense: 1,
      tables: [{ name: "user", rows: 50, dim: 4 }],
      bottom: [4],
      top: [1],
    },
    data: csv("clicks.csv", { label: "clicked", ...columns, batchSize: 10 }),
    evaluation,
  };
}

const identityOf = (evaluation: Evaluation) => jobIdentity(resolveJob(jobWith(evaluation)));

function refused(t: ExecutionContext, evaluation: Evaluation, message: RegExp | string): void {
  const error = t.throws(() => resolveJob(jobWith(evaluation)), { instanceOf: InvalidOptionError });
  if (typeof message === "string") t.is(error.message, message);
  else t.regex(error.message, message);
}

test("known jobs keep their identities, as a changed one could not continue a run", (t) => {
  t.is(identityOf({ fraction: 0.2 }).slice(0, 16), "5d268b6634f3fb89");
  t.is(identityOf({ data: { paths: ["v.csv"] } }).slice(0, 16), "74d0b6d5033ea2d1");
});

test("split options change the identity; separate test data do not", (t) => {
  const time = { kind: "time", column: "day" } as const;
  const hash = { kind: "hash", column: "user" } as const;
  const splits: Evaluation[] = [
    {},
    { test: {} },
    { test: { fraction: 0.2 } },
    { split: { kind: "order" } },
    { split: time },
    { split: { ...time, column: "hour" } },
    { split: { ...time, from: 7 } },
    { split: { ...time, from: 7, testFrom: 8 }, test: {} },
    { split: hash },
    { split: { ...hash, salt: 1 } },
    { split: hash, test: {} },
  ];
  t.is(new Set(splits.map(identityOf)).size, splits.length);
  t.is(identityOf({ test: { data: { paths: ["t.csv"] } } }), identityOf({}));
  t.is(identityOf({ split: { ...hash, salt: 0 } }), identityOf({ split: hash }));
});

test("test data inherit omitted options, and are read like the training data", (t) => {
  const job = resolveJob(jobWith({ test: { data: { paths: ["t.csv"] } } }));
  t.deepEqual(job.evaluation?.test?.data, { ...job.data, paths: ["t.csv"] });
  const other: Evaluation = { test: { data: { paths: ["t.csv"], label: "bought" } as never } };
  refused(t, other, /`evaluation\.test\.data\.label` to be "clicked", as in the training data/);
  refused(
    t,
    { test: { data: { paths: ["t.csv"], batchSize: 7 } as never } },
    /`evaluation\.test\.data\.batchSize` to be left out, or that of the training data, 10/,
  );
});

test("contradictory parts are refused in one sentence", (t) => {
  const data = { paths: ["valid.csv"] };
  const time = (more: object) => ({ kind: "time" as const, column: "day", ...more });
  refused(
    t,
    { data, split: { kind: "order" } },
    "Expected `evaluation.split` to be left out beside `evaluation.data`: it splits the training " +
      "data, got `order` (string)",
  );
  refused(
    t,
    { data, test: {} },
    /^Expected `evaluation\.test\.data` to be named where `evaluation/,
  );
  refused(
    t,
    { fraction: 0.5, test: { fraction: 0.5 } },
    /`evaluation\.test\.fraction` to be less than/,
  );
  refused(
    t,
    { split: { kind: "hash", column: "clicked" } },
    /`evaluation\.split\.column` to be another column than the label/,
  );
  refused(
    t,
    { split: time({ from: "soon" }) },
    /`evaluation\.split\.from` to be a number, or an ISO/,
  );
  refused(t, { split: time({ from: 3 }), test: {} }, /split\.testFrom` to be named beside `from`/);
  refused(t, { split: time({ testFrom: 3 }), test: {} }, /split\.from` to be named beside `testF/);
  refused(t, { split: time({ from: 3, testFrom: 4 }) }, /testFrom` to be left out where no/);
  for (const testFrom of [3, 2, "2024-01-01"]) {
    refused(
      t,
      { split: time({ from: 3, testFrom }), test: {} },
      /testFrom` to be later than `from`/,
    );
  }
  const generated = jobWith({ split: { kind: "hash", column: "user" } });
  const job = { ...generated, data: synthetic({ samples: 100, dense: 1, batchSize: 10 }) };
  t.throws(() => resolveJob(job), {
    message: /`evaluation\.split\.kind` to be "order" where `data\.kind` is "synthetic"/,
  });
});
