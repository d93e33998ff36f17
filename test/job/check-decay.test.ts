// Options that cannot be combined with tables whose rows decay together (`l2Scope: decayed`).

import test from "ava";
import { synthetic } from "../../src/data/sources.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { type JobOptions, jobIdentity, resolveJob } from "../../src/job/job.ts";
import { checkFit } from "../../src/job/warm-start-fit.ts";

const table = { name: "a", rows: 20, dim: 4, l2: 0.1, l2Scope: "decayed" } as const;

function jobOf(change: Partial<JobOptions> = {}, own: object = {}): JobOptions {
  return {
    model: { kind: "dlrm", dense: 2, tables: [{ ...table, ...own }], bottom: [4], top: [1] },
    data: synthetic({ samples: 100, batchSize: 10, dense: 2 }),
    ...change,
  };
}

const sparse = (options: NonNullable<JobOptions["optimizer"]>["sparse"] & object) => ({
  optimizer: { sparse: options },
});
const evaluation = { fraction: 0.2, reduceOnPlateau: { metric: "auc" as const } };

const wrong: readonly [Partial<JobOptions>, object, option: string, sentence: RegExp][] = [
  [sparse({ kind: "ftrl" }), {}, "optimizer.sparse.kind", /to be one of sgd,.*decay together/],
  [sparse({ kind: "lamb" }), {}, "optimizer.sparse.kind", /got `lamb`/],
  [
    sparse({ kind: "adam", weightDecay: 0.1 }),
    {},
    "optimizer.sparse.weightDecay",
    /to be 0, as `l2`/,
  ],
  [
    sparse({ kind: "sgd", learningRate: 10 }),
    {},
    "model.tables[0].l2",
    /less than 1 \/ learningRate/,
  ],
  [{}, { precision: "float16" }, "model.tables[0].precision", /one of a wider range/],
  [sparse({ kind: "sgd", ema: {} }), {}, "optimizer.sparse.ema", /left out where rows decay/],
  [{ mode: "bounded" }, { staleness: 1 }, "model.tables[0].staleness", /to be 0 where rows decay/],
  [{}, { dynamic: {}, idBits: 64 }, "model.tables[0].dynamic", /new ids need new rows/],
  [{ exchange: { forward: "float16" } }, {}, "exchange.forward", /one of a wider range/],
  [{ evaluation }, {}, "evaluation.reduceOnPlateau", /rates must follow from the step/],
  [{ warmStart: { from: "there" } }, {}, "warmStart", /left out where rows decay together/],
];

for (const [change, own, option, sentence] of wrong) {
  test(`refused with shared row decay: ${option}, ${sentence.source}`, (t) => {
    const error = t.throws(() => resolveJob(jobOf(change, own)), {
      instanceOf: InvalidOptionError,
    });
    t.is(error?.option, option);
    t.regex(error?.message ?? "", sentence);
  });
}

test("a run with shared row decay cannot warm-start another", (t) => {
  const source = resolveJob(jobOf());
  const job = resolveJob(jobOf({ warmStart: { from: "there" } }, { l2Scope: "touched" }));
  const error = t.throws(() => checkFit(source, job), { instanceOf: InvalidOptionError });
  t.regex(error?.message ?? "", /`warmStart.from` to be another run: the rows of `a` decay/);
});

test("the L2 scope is part of a job's identity", (t) => {
  const identities = ["touched", "decayed"].map((l2Scope) =>
    jobIdentity(resolveJob(jobOf({}, { l2Scope }))),
  );
  t.is(new Set(identities).size, 2);
});
