// First jobs for columns that share values, such as an item and a list of items; and for
// directories.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as arrow from "apache-arrow";
import { Field, Int32, List, tableFromArrays, tableToIPC } from "apache-arrow";
import test from "ava";
import { parse } from "yaml";
import { resolveJob } from "../../../../src/job/job.ts";
import { shapesOf } from "../../../../src/model/features.ts";
import { purposes, RandomStream } from "../../../../src/ports/random.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { fixtures } from "../../../../test/data/parquet/parquet-files.ts";
import { firstJob } from "../../first-job/write-first-job.ts";
import { assignRoles, firstJobOf, profileColumns } from "../../index.ts";
import { rowsOf } from "./made-jobs.ts";

/** A CSV whose rows have an item, and the last items of the same user. */
function withLists(items: number): string {
  const stream = new RandomStream(items, purposes.sampleOrder);
  const item = () => `i${stream.below(items)}`;
  const rows = rowsOf(6000, (i) => {
    return `${i % 2},${item()},${item()}|${item()}|${item()},t${i % 5}|t${i % 3}`;
  });
  return `click,item_id,last_items,tags\n${rows}\n`;
}

for (const [title, items] of Object.entries({ "few items": 200, "many items": 3000 })) {
  test(`a list of items shares the table of the item column: ${title}`, async (t) => {
    const directory = startDirectory(t);
    const path = join(directory, "log.csv");
    writeFileSync(path, withLists(items));
    const data = await profileColumns([path]);
    const home = join(directory, "words");
    const { job, vocabularies, reasons } = firstJobOf(data, assignRoles(data), {
      vocabularies: home,
    });
    mkdirSync(home);
    for (const { path: file, bytes } of vocabularies) writeFileSync(file, bytes);
    t.is(vocabularies.length, items === 200 ? 2 : 1, "vocabularies of items and tags, or of tags");
    const { model } = resolveJob(job);
    t.deepEqual(
      shapesOf(model).map(({ name }) => name.replace(/_id$/, "")),
      items === 200 ? ["item_id", "last_items", "tags"] : ["item", "last_items", "tags"],
    );
    t.deepEqual(
      model.features?.map(({ table }) => table),
      ["item_id", "item_id", "tags"],
    );
    t.deepEqual(
      model.tables.map(({ name }) => name),
      ["item_id", "tags"],
    );
    const why = reasons.get(items === 200 ? "last_items_id" : "last_items") ?? "";
    t.regex(why, /in the table of `item_id`, whose values it lists$/);
  });
}

test("an outcome with missing values is proposed as a task with masked labels", async (t) => {
  const path = join(startDirectory(t), "log.csv");
  const rows = rowsOf(300, (i) => `${i % 2},${i % 2 === 0 ? "" : i % 3 === 0 ? 1 : 0},${i % 7}`);
  writeFileSync(path, `click,purchase,item_id\n${rows}\n`);
  const [, purchase] = assignRoles(await profileColumns([path]));
  t.is(purchase?.role, "ignored");
  t.regex(
    purchase?.why ?? "",
    /`label: \[LABEL, purchase\]` learns it as another task, with `missing: mask` for the 150 of 300 rows without it;/,
  );
});

test("integers that fill their range are ids, and infinite numbers are not text", async (t) => {
  const path = join(startDirectory(t), "log.csv");
  const rows = rowsOf(3000, (i) => {
    return `${i % 2},${1 + ((i * 7) % 100)},${i % 50 === 0 ? "inf" : (i % 97) / 8}`;
  });
  writeFileSync(path, `click,shelf,score\n${rows}\n`);
  const [, shelf, score] = assignRoles(await profileColumns([path]));
  t.is(
    `${shelf?.role}: ${shelf?.why}`,
    "categorical: integers that fill their range, 100 different",
  );
  t.is(score?.role, "dense");
  t.is(score?.profile.max, 12);
});

test("columns that no job can read are left out, and the others are proposed", async (t) => {
  const parquet = join(fixtures, "nested", "deep.parquet");
  const [label, item, deep] = assignRoles(await profileColumns([parquet]));
  t.deepEqual([label?.role, item?.role, deep?.role], ["label", "categorical", "ignored"]);
  t.regex(deep?.why ?? "", /^it is list<list<INT64>>; expected a value, a struct, /);
  const column = (of: (i: number) => unknown, type: arrow.DataType) => {
    return arrow.vectorFromArray(
      Array.from({ length: 60 }, (_, i) => of(i)),
      type,
    );
  };
  const lists = new List(Field.new("item", new List(Field.new("item", new Int32()))));
  const columns = {
    deep: column((i) => [[i]], lists),
    click: column((i) => i % 2, new Int32()),
    item: column((i) => i % 3, new Int32()),
  };
  const path = join(startDirectory(t), "log.arrow");
  writeFileSync(path, tableToIPC(new arrow.Table(columns), "file"));
  const roles = assignRoles(await profileColumns([path])).map(({ role }) => role);
  t.deepEqual(roles, ["label", "categorical", "ignored"]);
  const struct = await profileColumns([join(fixtures, "dotted.parquet")]);
  const found = assignRoles(struct).find(({ profile }) => profile.name === "a");
  t.is(`${found?.role}: ${found?.why}`, "ignored: a struct: a job names its members, `a.…`");
});

test("unsigned 64-bit integers are reported without a sign", async (t) => {
  const path = join(startDirectory(t), "log.arrow");
  const values = Array.from({ length: 300 }, (_, i) => 2n ** 64n - 1n - BigInt(i % 50));
  const columns = {
    click: Int32Array.from({ length: 300 }, (_, i) => i % 2),
    amount: BigUint64Array.from(values),
  };
  writeFileSync(path, tableToIPC(tableFromArrays(columns), "file"));
  const [, amount] = assignRoles(await profileColumns([path]));
  t.is(`${amount?.role}: ${amount?.why}`, "categorical: integers beyond 2^53, 50");
  t.is(amount?.profile.min, Number(2n ** 64n - 50n));
});

test("a job keeps a directory as its path, so that later files are read, and takes its name", async (t) => {
  const directory = join(startDirectory(t), "clicks");
  mkdirSync(directory);
  for (const part of [0, 1]) {
    const rows = rowsOf(200, (i) => `${i % 2},${(i + part) % 7}`);
    writeFileSync(join(directory, `part-${part}.csv`), `click,item_id\n${rows}\n`);
  }
  const data = await profileColumns([directory]);
  t.is(data.rows, 400);
  const job = parse(firstJob(data, assignRoles(data), {})) as {
    readonly name: string;
    readonly data: { readonly paths: readonly string[] };
  };
  t.is(job.name, "clicks");
  t.deepEqual(job.data.paths, [directory]);
});
