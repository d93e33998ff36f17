// Omitted options of a job follow from the others; options stated twice must agree.

import test from "ava";
import { csv, synthetic } from "../../src/data/sources.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { type JobOptions, jobIdentity, resolveJob } from "../../src/job/job.ts";
import { dlrm } from "../../src/model/model-builders.ts";

const columns = { label: "clicked", dense: ["age", "price"], batchSize: 10 } as const;
const clicks = csv("clicks.csv", { ...columns, categorical: ["user", "item"] });
const layers = { bottom: [8, 4], top: [8, 1] } as const;
const shape = { rows: 100, dim: 4 } as const;
const user = { name: "user", ...shape } as const;
const item = { name: "item", ...shape } as const;

const whole: JobOptions = {
  model: dlrm({ dense: 2, tables: [user, item], ...layers }),
  data: clicks,
};

function refusalOf(job: unknown): string[] {
  try {
    resolveJob(job);
  } catch (error) {
    if (error instanceof InvalidOptionError) return error.problems.map(({ message }) => message);
    throw error;
  }
  return [];
}

test("tables, columns and the number of dense features are derived from each other", (t) => {
  const shorter: JobOptions[] = [
    { model: dlrm({ tables: [user, item], ...layers }), data: clicks },
    { model: dlrm({ tables: [user, item], ...layers }), data: csv("clicks.csv", columns) },
    { model: dlrm({ table: shape, ...layers }), data: clicks },
    { model: dlrm({ table: { dim: 4, rows: 7 }, tables: [item, user], ...layers }), data: clicks },
  ];
  for (const job of shorter) {
    t.deepEqual(resolveJob(job), resolveJob(whole));
    t.is(jobIdentity(resolveJob(job)), jobIdentity(resolveJob(whole)));
  }
});

test("a table's own options take precedence over those of every table", (t) => {
  const table = { rows: 100, dim: 4, pooling: "mean" } as const;
  const { tables } = resolveJob({
    model: dlrm({ table, tables: [{ name: "item", rows: 5, pooling: "sum" }], ...layers }),
    data: clicks,
  }).model;
  t.deepEqual(
    tables.map(({ name, rows, dim, pooling }) => [name, rows, dim, pooling]),
    [
      ["user", 100, 4, "mean"],
      ["item", 5, 4, "sum"],
    ],
  );
});

test("a resolved job resolves to itself", (t) => {
  const job = resolveJob({ model: dlrm({ table: shape, ...layers }), data: clicks });
  t.deepEqual(resolveJob(job), job);
});

test("a job on Criteo's logs has 26 tables and 13 dense features by default", (t) => {
  const { model } = resolveJob({
    model: dlrm({ table: shape, ...layers }),
    data: { kind: "criteo-tsv", paths: ["day_0"], batchSize: 10 },
  });
  t.is(model.dense, 13);
  t.deepEqual(
    model.tables.map(({ name }) => name),
    Array.from({ length: 26 }, (_, i) => `C${i + 1}`),
  );
});

test("synthetic data take the model's count of dense features, and vice versa", (t) => {
  const tables = [user];
  const generated = (dense?: number) =>
    synthetic({ samples: 10, batchSize: 10, ...(dense === undefined ? {} : { dense }) });
  const given = resolveJob({ model: dlrm({ dense: 3, tables, ...layers }), data: generated() });
  const found = resolveJob({ model: dlrm({ tables, ...layers }), data: generated(3) });
  t.deepEqual(found, given);
});

test("options that a job states twice must agree, before anything starts", (t) => {
  const model = (options: object) => ({ ...whole, model: { ...whole.model, ...options } });
  const data = (options: object) => ({ ...whole, data: { ...whole.data, ...options } });
  t.deepEqual(refusalOf(model({ dense: 3 })), [
    "Expected `model.dense` to be left out, or that of the data, 2, got `3` (number)",
  ]);
  t.deepEqual(refusalOf(data({ categorical: ["user"] })), [
    "Table `item` has no column in the data: add one to `data.categorical`, or drop the table; " +
      "the columns feed `user`",
  ]);
  t.deepEqual(refusalOf(data({ categorical: ["user", "item", "shop"] })), [
    "Column `shop` has no table `shop` in the model: add the table, or drop the column; " +
      "the tables are `user`, `item`",
  ]);
  t.deepEqual(refusalOf({ model: dlrm(layers), data: clicks }), [
    "Expected `model.table` to have `rows` and `dim`, the shape of each table that is not in " +
      "`model.tables`, as the column of `user` has no table there",
  ]);
  t.deepEqual(refusalOf(model({ tables: undefined, table: "all" })), [
    "Expected `model.table` to be an object, got `all` (string)",
  ]);
  const misspelled = model({ tables: undefined, table: { ...shape, row: 3 } });
  t.regex(refusalOf(misspelled).join("\n"), /^[^\n]*`model\.table\.row`[^\n]*$/);
});
