// The data section of a job: defaults that its check fills in, and what it refuses.

import test from "ava";
import { dataOptions } from "../../src/data/options.ts";
import { criteo, csv, synthetic } from "../../src/data/sources.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { checkOptions } from "../../src/ports/check-options.ts";

test("a Criteo section is completed by its check, and stays plain data", (t) => {
  const resolved = checkOptions(dataOptions, criteo.tsv("train.tsv", { batchSize: 2048 }));
  t.deepEqual(resolved, {
    kind: "criteo-tsv",
    paths: ["train.tsv"],
    batchSize: 2048,
    passes: 1,
    shuffle: true,
    cache: ".osiris/cache",
    quarantineMax: 1000,
    rejectedMax: 0.01,
  });
  t.deepEqual(checkOptions(dataOptions, JSON.parse(JSON.stringify(resolved))), resolved);
});

test("`epochs` and its old spelling `passes` are accepted, and stored as `passes`", (t) => {
  const section = synthetic({ samples: 10, batchSize: 5 });
  const passesOf = (spelling: object) =>
    checkOptions(dataOptions, { ...section, ...spelling }).passes;
  t.is(passesOf({}), 1);
  t.is(passesOf({ epochs: 3 }), 3);
  t.is(passesOf({ passes: 3 }), 3);
  t.is(passesOf({ epochs: 3, passes: 3 }), 3);
});

test("a CSV section names its columns in short or in full form", (t) => {
  const section = csv(["a.csv", "b.csv"], {
    label: "clicked",
    dense: ["age", { column: "price", log: true }],
    categorical: ["user", { column: "genre", table: "genres", ids: "integer", separator: "|" }],
    batchSize: 64,
  });
  const resolved = checkOptions(dataOptions, section);
  t.like(resolved, {
    paths: ["a.csv", "b.csv"],
    delimiter: ",",
    dense: [
      { column: "age", log: false },
      { column: "price", log: true },
    ],
    categorical: [
      { column: "user", table: "user", ids: "hash", offset: 0 },
      { column: "genre", table: "genres", ids: "integer", offset: 0, separator: "|" },
    ],
  });
  t.deepEqual(checkOptions(dataOptions, JSON.parse(JSON.stringify(resolved))), resolved);
});

test("a synthetic section takes one bag length or a range", (t) => {
  const one = checkOptions(dataOptions, synthetic({ samples: 10, batchSize: 5, idsPerBag: 3 }));
  t.like(one, { dense: 13, zipf: 1.05, seed: 1, idsPerBag: { min: 3, max: 3 } });
  const idsPerBag = { min: 0, max: 4 };
  const range = checkOptions(dataOptions, synthetic({ samples: 10, batchSize: 5, idsPerBag }));
  t.like(range, { idsPerBag });
});

test("criteo.tables gives 26 tables and passes other fields on", (t) => {
  const tables = criteo.tables({ dim: 16, pooling: "mean" });
  t.is(tables.length, 26);
  t.deepEqual(tables[0], { name: "C1", rows: 10_000, dim: 16, pooling: "mean" });
  t.deepEqual(tables[25], { name: "C26", rows: 10_000, dim: 16, pooling: "mean" });
  t.is(criteo.tables({ dim: 4, rows: 77 })[3]?.rows, 77);
});

const refusals: readonly [string, unknown, RegExp][] = [
  [
    "a batch of no samples",
    { batchSize: 0 },
    /Expected `data.batchSize` to be an? .* >= 1, got `0`/,
  ],
  ["half an epoch", { epochs: 0.5 }, /Expected `data.epochs` to be an integer/],
  ["half an epoch in its old spelling", { passes: 0.5 }, /Expected `data.passes` to be an integer/],
  [
    "two spellings that disagree",
    { epochs: 2, passes: 3 },
    /Expected `data.passes` to be left out, as `epochs` is 2 and `passes` is its old spelling, got `3`/,
  ],
  ["no files", { paths: [] }, /Expected `data.paths` to be a list of >= 1 entries/],
  [
    "a delimiter of two characters",
    { delimiter: "::" },
    /`data.delimiter` to be one ASCII character/,
  ],
  ["an unknown option", { batchsize: 3 }, /Expected no option `data.batchsize`/],
  ["another kind of ids", { categorical: [{ column: "a", ids: "md5" }] }, /`data.categorical\[0\]/],
  [
    "a list of another kind",
    { kind: "parquet", categorical: [{ column: "a", list: "pairs" }] },
    /`data.categorical\[0\]/,
  ],
  [
    "a list whose entries have weights in text",
    { kind: "parquet", categorical: [{ column: "a", list: "plain", weightSeparator: ":" }] },
    /`data.categorical\[0\].weightSeparator` to be left out beside `list`/,
  ],
  [
    "a predicate that says nothing",
    { kind: "parquet", where: [{ column: "a" }] },
    /`data.where\[0\]` to be a column with `equals`, `in`, `from` or `until`/,
  ],
  [
    "a predicate of nothing",
    { kind: "parquet", where: [{ column: "a", in: [] }] },
    /`data.where\[0\].in` to be a list of >= 1 entries/,
  ],
  ["predicates of CSV", { where: [{ column: "a", equals: 1 }] }, /no option `data.where`/],
  ["a delimiter of Parquet", { kind: "parquet", delimiter: "," }, /no option `data.delimiter`/],
  ["another kind of data", { kind: "avro" }, /`data.kind`/],
];
for (const [what, change, message] of refusals) {
  test(`the data section refuses ${what} by name`, (t) => {
    const good = csv("a.csv", { label: "y", batchSize: 8 });
    const check = () => checkOptions(dataOptions, Object.assign({}, good, change), "data");
    t.throws(check, { instanceOf: InvalidOptionError, message });
  });
}

test("a reversed range of bag lengths is refused", (t) => {
  const idsPerBag = { min: 5, max: 4 };
  const section = synthetic({ samples: 1, batchSize: 1, idsPerBag });
  t.throws(() => checkOptions(dataOptions, section), { instanceOf: InvalidOptionError });
});
