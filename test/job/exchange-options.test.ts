// The options of the exchange: scales, and tables with `dedup` in fewer bits.

import test from "ava";
import { synthetic } from "../../src/data/sources.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { type JobOptions, jobIdentity, resolveJob } from "../../src/job/job.ts";
import { workloadOf } from "../../src/training/planning/workload.ts";

function jobOf(exchange: JobOptions["exchange"], table: object = {}): JobOptions {
  const tables = ["T0", "T1"].map((name) => ({ name, rows: 10, dim: 4, ...table }));
  return {
    model: { kind: "dlrm", dense: 2, tables, bottom: [4], top: [3, 1] },
    data: synthetic({ samples: 100, batchSize: 10, dense: 2 }),
    ...(exchange && { exchange }),
  };
}

for (const [exchange, message] of [
  [
    { forward: "float16", forwardScale: 3 },
    "Expected `exchange.forwardScale` to be a power of two, got `3` (number)",
  ],
  [
    { backward: "bfloat16", backwardScale: 2 },
    "Expected `exchange.backwardScale` to be left out where `backward` is bfloat16, " +
      "which has the range of float32, got `2` (number)",
  ],
] as const) {
  test(`a job refuses ${JSON.stringify(exchange)} in one sentence`, (t) => {
    const error = { instanceOf: InvalidOptionError, message };
    t.throws(() => resolveJob(jobOf(exchange)), error);
  });
}

for (const exchange of [{ forward: "float16" }, { backward: "int8" }] as const) {
  test(`a rounded exchange makes dedup decide bits: ${JSON.stringify(exchange)}`, (t) => {
    const identity = (options: JobOptions) => jobIdentity(resolveJob(options));
    const dedup = { dedup: true };
    t.not(identity(jobOf(exchange, dedup)), identity(jobOf(exchange)));
    t.is(identity(jobOf(undefined, dedup)), identity(jobOf(undefined)));
    const copied = jobOf(exchange, { ...dedup, sharding: "data-parallel" });
    t.throws(() => resolveJob(copied), {
      instanceOf: InvalidOptionError,
      message:
        "Expected `model.tables[0].dedup` to be false for a data-parallel table where `exchange` " +
        "sends fewer bits, as copies send no rows, got `true` (boolean)",
    });
    const schemesOf = (options: JobOptions) => {
      const { tables } = workloadOf(resolveJob({ ...options, sharding: "auto" }));
      return tables.flatMap(({ schemes }) => schemes);
    };
    t.true(schemesOf(jobOf(exchange)).includes("data-parallel"));
    t.false(schemesOf(jobOf(exchange, dedup)).includes("data-parallel"));
  });
}
