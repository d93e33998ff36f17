// Partitioned directories, and the rows that `where` keeps: which files and row groups are read,
// and that the samples are exactly the rows that satisfy the predicate.

import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "ava";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import type { Predicate } from "../../../src/data/columnar/row-filter.ts";
import { partitionsOf, tableFilesOf } from "../../../src/data/files.ts";
import { dataOptions } from "../../../src/data/options.ts";
import { openParquet } from "../../../src/data/parquet/open-columns.ts";
import { csv, parquet } from "../../../src/data/sources.ts";
import { newReport, wantedRows } from "../../../src/data/tables/table-file.ts";
import { InputUnusableError, InvalidOptionError } from "../../../src/errors/errors.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { startDirectory } from "../data-files.ts";
import { fixtures } from "./parquet-files.ts";

const clicks = join(fixtures, "clicks.parquet");
const lines = readFileSync(join(fixtures, "clicks.csv"), "utf8").trimEnd().split("\n");
const names = (lines[0] ?? "").split(",");

function place(home: string, path: string): void {
  mkdirSync(dirname(join(home, path)), { recursive: true });
  copyFileSync(clicks, join(home, path));
}

test("a directory expands to the files below it by name; patterns match at any depth", (t) => {
  const home = startDirectory(t);
  const files = [
    "date=2026-11-01/hour=03/part-0.parquet",
    "date=2026-11-01/hour=10/part-0.parquet",
    "date=2026-11-02/hour=03/part-1.parquet",
    "date=2026-11-02/hour=03/part-10.parquet",
  ];
  for (const path of files) place(home, path);
  writeFileSync(join(home, "_SUCCESS"), "");
  mkdirSync(join(home, "_temporary"));
  writeFileSync(join(home, "_temporary", "part-9.parquet"), "");
  const found = (path: string) => tableFilesOf([join(home, path)]);
  const all = files.map((path) => join(home, path));
  t.deepEqual(found(""), all);
  t.deepEqual(found("date=2026-11-01"), all.slice(0, 2));
  t.deepEqual(found("date=*/hour=03"), [all[0], all[2], all[3]] as string[]);
  t.deepEqual(found("date=*/hour=*/part-?.parquet"), all.slice(0, 3));
  t.deepEqual(found("nowhere.parquet"), [join(home, "nowhere.parquet")], "fails when it is read");
  mkdirSync(join(home, "empty"));
  for (const path of ["date=2027*", "empty"]) {
    t.throws(() => found(path), { instanceOf: InputUnusableError });
  }
  t.deepEqual(
    [...partitionsOf("/a/b=1/c=x%3Ay/d=__HIVE_DEFAULT_PARTITION__/e=5.parquet")],
    [
      ["b", "1"],
      ["c", "x:y"],
      ["d", undefined],
    ],
  );
});

const features = {
  label: "label",
  positive: [1, 2],
  rejectedMax: 0.5,
  dense: ["weight"],
  categorical: ["colour"],
  batchSize: 8,
};
const tables = [{ name: "colour", rows: 100 }];

/** The digests of the rows of `clicks` that `where` keeps, and of the same lines as CSV. */
async function digests(home: string, where: Predicate[], isKept: (row: string[]) => boolean) {
  const cache = join(home, "cache");
  const kept = lines.slice(1).filter((line) => isKept(line.split(",")));
  const text = join(home, "kept.csv");
  writeFileSync(text, `${[lines[0], ...kept].join("\n")}\n`);
  const [one, other] = [
    await prepareCache(
      checkOptions(dataOptions, csv(text, { ...features, cache })),
      tables,
      realDisk,
    ),
    await prepareCache(
      checkOptions(dataOptions, parquet(clicks, { ...features, cache, where })),
      tables,
      realDisk,
    ),
  ];
  return { rows: kept.length, text: one, table: other };
}

const at = (name: string, row: string[]) => row[names.indexOf(name)] ?? "";
const number = (name: string, row: string[]) => {
  return at(name, row) === "" ? Number.NaN : Number(at(name, row));
};

const cases: readonly [string, Predicate[], (row: string[]) => boolean][] = [
  ["a number", [{ column: "user", equals: -4 }], (row) => number("user", row) === -4],
  [
    "a range",
    [{ column: "age", from: 10, until: 30 }],
    (row) => number("age", row) >= 10 && number("age", row) < 30,
  ],
  [
    "texts",
    [{ column: "colour", in: ["red", "Grün"] }],
    (row) => ["red", "Grün"].includes(at("colour", row)),
  ],
  ["a boolean", [{ column: "bought", equals: true }], (row) => at("bought", row) === "true"],
  [
    "a time and a fraction",
    [
      { column: "when", from: "2026-11-01T02:00:00Z" },
      { column: "price", until: 8 },
    ],
    (row) => at("when", row) >= "2026-11-01T02:00:00+00:00" && number("price", row) < 8,
  ],
  [
    "large integers",
    [{ column: "session", from: "-9000000000000000000", until: 0 }],
    (row) => number("session", row) < 0 && number("session", row) >= -9e18,
  ],
];

for (const [title, where, isKept] of cases) {
  test(`the samples are the rows that satisfy where: ${title}`, async (t) => {
    const { rows, text, table } = await digests(startDirectory(t), where, isKept);
    t.true(rows > 5 && rows < 390, `${rows} rows`);
    t.is(table.samples, text.samples);
    t.is(table.digest, text.digest);
  });
}

test("row groups that cannot satisfy `where` are not read, and samples stay the same", async (t) => {
  const data = checkOptions(
    dataOptions,
    parquet(clicks, { ...features, where: [{ column: "when", until: "2026-11-01T01:00:00Z" }] }),
  );
  if (data.kind !== "parquet") throw new Error("of Parquet");
  const opened = await openParquet(clicks, data, tables);
  const [some, whole] = [newReport(), newReport()];
  let groups = 0;
  for await (const { batch } of wantedRows(opened, { report: some }))
    groups = Math.max(groups, 1 + (batch.rowGroup ?? 0));
  for await (const _ of wantedRows({ ...opened, tests: [] }, { report: whole }));
  await opened.close();
  t.is(groups, 1, "only the first row group has rows that hold");
  t.true(some.read < 0.6 * whole.read);
});

test("partition keys are columns, and files of other partitions are not read", async (t) => {
  const home = startDirectory(t);
  for (const day of ["01", "02", "03"]) place(home, `date=2026-11-${day}/hour=${day}/part.parquet`);
  // A file that cannot be read.
  const broken = "date=2026-11-04/hour=04/part.parquet";
  place(home, broken);
  const bytes = readFileSync(join(home, broken));
  writeFileSync(join(home, broken), bytes.fill(0, 4, bytes.length - 4));
  const cache = join(home, ".cache");
  const of = (paths: string[], where?: Predicate[]) =>
    prepareCache(
      checkOptions(
        dataOptions,
        parquet(paths, {
          ...features,
          dense: ["hour"],
          categorical: ["colour", "date"],
          cache,
          ...(where && { where }),
        }),
      ),
      [...tables, { name: "date", rows: 50 }],
      realDisk,
      undefined,
      { kind: "time", column: "date" },
    );
  const days = tableFilesOf([home]);
  const wanted = await of(days, [{ column: "date", from: "2026-11-02", until: "2026-11-04" }]);
  const named = await of(days.slice(1, 3));
  t.is(wanted.digest, named.digest);
  t.is(wanted.samples, 2 * (await of(days.slice(0, 1))).samples);
  await t.throwsAsync(of(days), { instanceOf: InputUnusableError, message: /date=2026-11-04/ });
  t.is(wanted.sources?.length, 4);
  t.is(wanted.sources?.[3]?.sha256, undefined);
  await t.throwsAsync(of(days.slice(1), [{ column: "dat", equals: 1 }]), {
    instanceOf: InvalidOptionError,
    message: /`data\.where\[0\]\.column` names the column `dat`, .*did you mean `date`/,
  });
});
