// The option of a moving average (EMA) of rows: its values, and what it can be combined with.

import test from "ava";
import { synthetic } from "../../src/data/sources.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { type JobOptions, jobIdentity, resolveJob } from "../../src/job/job.ts";
import { checkFit } from "../../src/job/warm-start-fit.ts";

type Optimizer = NonNullable<JobOptions["optimizer"]>;

function jobOf(optimizer: Optimizer, change: Partial<JobOptions> = {}): JobOptions {
  return {
    model: {
      ...{ kind: "dlrm", dense: 2, bottom: [4], top: [1] },
      tables: [{ name: "a", rows: 20, dim: 4 }],
    },
    data: synthetic({ samples: 100, batchSize: 10, dense: 2 }),
    optimizer,
    ...change,
  };
}

const averaged = (ema: unknown) => ({ sparse: { kind: "sgd", ema } }) as Optimizer;

for (const [ema, option, sentence] of [
  [{ decay: 1 }, "optimizer.sparse.ema.decay", /a number < 1, got `1`/],
  [{ decay: 0 }, "optimizer.sparse.ema.decay", /a number > 0, got `0`/],
  [{ decay: "0.9" }, "optimizer.sparse.ema.decay", /a number, got `0.9`/],
  [{ decays: 0.9 }, "optimizer.sparse.ema.decays", /no option/],
  [0.9, "optimizer.sparse.ema", /an object, got `0.9`/],
] as const) {
  test(`refused: ${JSON.stringify(ema)}`, (t) => {
    const error = t.throws(() => resolveJob(jobOf(averaged(ema))), {
      instanceOf: InvalidOptionError,
    });
    t.is(error?.option, option);
    t.regex(error?.message ?? "", sentence);
  });
}

test("the EMA decay is 0.999 by default, and part of the job's identity", (t) => {
  const job = resolveJob(jobOf(averaged({})));
  t.deepEqual(job.optimizer.sparse.ema, { decay: 0.999 });
  t.is(resolveJob(jobOf({ sparse: { kind: "sgd" } })).optimizer.sparse.ema, undefined);
  const identities = [undefined, {}, { decay: 0.9 }].map((ema) =>
    jobIdentity(resolveJob(jobOf(averaged(ema)))),
  );
  t.is(new Set(identities).size, 3);
});

test("a warm start continues averages, and cannot add them", (t) => {
  const warm = { warmStart: { from: "there" } };
  const dense = (ema?: object) => ({ dense: { kind: "sgd", ema } }) as Optimizer;
  const checked = (source: Optimizer, mine: Optimizer) =>
    checkFit(resolveJob(jobOf(source)), resolveJob(jobOf(mine, warm)));
  t.notThrows(() => checked(averaged({ decay: 0.9 }), averaged({ decay: 0.99 })));
  for (const [part, of] of [
    ["sparse", averaged],
    ["dense", dense],
  ] as const) {
    const begun = t.throws(() => checked(of(undefined), of({})), {
      instanceOf: InvalidOptionError,
    });
    t.is(begun?.option, `optimizer.${part}.ema`);
    t.regex(begun?.message ?? "", /which this one begins with, left out, got/);
    const lost = t.throws(() => checked(of({}), of(undefined)), { instanceOf: InvalidOptionError });
    t.regex(lost?.message ?? "", /which this one begins with, "given", got/);
  }
});

test("a warm start with other momentum is refused, as the average would become the momentum", (t) => {
  const warm = { warmStart: { from: "there" } };
  const sgd = (momentum: number) => ({ dense: { kind: "sgd", momentum, ema: {} } }) as Optimizer;
  const checked = (source: number, mine: number) =>
    checkFit(resolveJob(jobOf(sgd(source))), resolveJob(jobOf(sgd(mine), warm)));
  t.notThrows(() => checked(0.9, 0.5));
  for (const [source, mine] of [
    [0, 0.9],
    [0.9, 0],
  ] as const) {
    const error = t.throws(() => checked(source, mine), { instanceOf: InvalidOptionError });
    t.is(error?.option, "optimizer.dense.momentum");
  }
});

test("a warm start with residuals of top-k gradients has the slices and groups of these residuals", (t) => {
  const jobWith = (slices: 8 | 16, topk: object | undefined, change = {}) =>
    resolveJob(jobOf({}, { mode: "bounded", slices, exchange: { topk }, ...change } as object));
  const checked = (slices: 8 | 16, topk?: object) =>
    checkFit(jobWith(8, { share: 0.1 }), jobWith(slices, topk, { warmStart: { from: "there" } }));
  t.notThrows(() => checked(8, { share: 0.2 }));
  t.notThrows(() => checked(16));
  t.regex(t.throws(() => checked(16, { share: 0.1 })).message, /^Expected `slices` to be as in/);
  const groups = t.throws(() => checked(8, { share: 0.1, groups: 2 }));
  t.regex(groups.message, /^Expected `exchange.topk.groups` to be as in/);
});
