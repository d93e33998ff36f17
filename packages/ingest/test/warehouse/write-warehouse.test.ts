// Tables written from text and from Parquet: the same samples as their source, the columns in the
// requested order, and never a partial table.

import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { parquetMetadata } from "hyparquet";
import { prepareCache } from "../../../../src/data/cache/prepare-cache.ts";
import { dataOptions } from "../../../../src/data/options.ts";
import { InputUnusableError, InvalidOptionError } from "../../../../src/errors/errors.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { checkOptions } from "../../../../src/ports/check-options.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { startDirectory, writeText } from "../../../../test/data/data-files.ts";
import { expectedOf, fixtures, readColumns } from "../../../../test/data/parquet/parquet-files.ts";
import { codecs } from "../../warehouse/codecs.ts";
import { inspectWarehouse } from "../../warehouse/inspect-warehouse.ts";
import { openParquetTable } from "../../warehouse/parquet-table.ts";
import { openGroupWriter } from "../../warehouse/parquet-writer.ts";
import { writeWarehouse } from "../../warehouse/write-warehouse.ts";
import { allFiles, contentsOf, mortalDisk } from "./tables.ts";

const clicks = join(fixtures, "clicks.csv");
const clicksTable = join(fixtures, "clicks.parquet");
const split = { separator: "|" };
/** The columns as a text file has them: lists have separators. */
const asText = {
  batchSize: 32,
  rejectedMax: 0.5,
  label: ["label"],
  weight: "weight",
  group: "user",
  dense: ["age", { column: "price", log: true, missing: "mean" }, { column: "shop", missing: 0 }],
  categorical: [
    "item",
    "colour",
    { column: "session", ids: "integer" },
    { column: "tags", ...split },
    { column: "words", ...split },
  ],
};
const tables = ["item", "colour", "session", "tags", "words"].map((name) => {
  return { name, rows: 1000, ...(name === "session" ? { idBits: 64 as const } : {}) };
});

async function samplesOf(options: object, cache: string) {
  const data = checkOptions(dataOptions, { ...options, cache } as never);
  const { digest, samples, quarantine } = await prepareCache(data, tables, realDisk);
  return { digest, samples, bad: quarantine.count };
}

test("a table of CSV has the samples of the CSV, whatever its row groups", async (t) => {
  const home = startDirectory(t);
  const cache = join(home, "cache");
  const expected = await samplesOf({ kind: "csv", paths: [clicks], ...asText }, cache);
  t.true(expected.samples > 200);
  for (const groupRows of [7, 10_000]) {
    const out = join(home, `table-${groupRows}`);
    const report = await writeWarehouse([clicks], out, { groupRows });
    t.is(report.rowGroups, Math.ceil(report.rows / groupRows));
    const found = await samplesOf(
      { kind: "parquet", paths: [join(out, "part-0.parquet")], ...asText },
      cache,
    );
    t.deepEqual(found, expected);
  }
});

test("a table of Parquet has every stored value again, lists, maps and timestamps included", async (t) => {
  const home = startDirectory(t);
  for (const name of ["flat/plain", "flat/encodings-lz4", "lists/plain", "lists/required"]) {
    const out = join(home, name.replace("/", "-"));
    const from = join(fixtures, `${name}.parquet`);
    await writeWarehouse([from], out, { groupRows: 10, codec: "gzip" });
    t.deepEqual(await contentsOf(out), await contentsOf(from), name);
    // Checked by another reader as well, and against pyarrow's values.
    const { columns } = expectedOf(name);
    const scalars = Object.keys(columns).filter((column) => !column.includes("."));
    const path = join(out, "part-0.parquet");
    for (const column of scalars) {
      const ours = await readColumns(path, [column]).catch(() => undefined);
      const theirs = await readColumns(from, [column]).catch(() => undefined);
      t.deepEqual(ours, theirs, `${name} ${column}`);
    }
    const { schema } = footerOf(path);
    t.false(schema.some((one) => one.logical_type?.type === "INTEGER")); // Unreadable elsewhere.
    const typesOf = (nodes: typeof schema) => nodes.map((node) => node.converted_type);
    t.deepEqual(typesOf(schema), typesOf(footerOf(from).schema), name);
  }
});

function footerOf(path: string) {
  return parquetMetadata(new Uint8Array(readFileSync(path)).buffer);
}

test("decimals have no bounds, or exact ones", (t) => {
  const path = join(startDirectory(t), "prices.parquet");
  const file = realDisk.open(path, "write");
  const decimal = { converted_type: "DECIMAL", precision: 9, scale: 2 } as const;
  const columns = (["INT32", "INT64"] as const).map((type) => {
    return {
      name: type,
      elements: [{ name: type, repetition_type: "REQUIRED", type, ...decimal }],
    };
  });
  const writer = openGroupWriter(file, columns as never, "none");
  writer.write(
    new Map<string, unknown[]>([
      ["INT32", [150, 250]],
      ["INT64", [150n, 250n]],
    ]),
  );
  writer.finish();
  file.close();
  const bounds = footerOf(path).row_groups[0]?.columns.map(({ meta_data: { statistics } = {} }) => {
    return [statistics?.min_value, statistics?.max_value];
  });
  t.deepEqual(bounds, [
    [undefined, undefined],
    [1.5, 2.5],
  ]);
});

test("numbers whose text would change stay text, so that their hash is that of the CSV", async (t) => {
  const home = startDirectory(t);
  const text =
    "label,version,price,id,tiny\n0,1.10,0.5,1,1e-7\n1,1.1,12,2,0.25\n0,713752e1,-3.25,-7,3\n";
  const path = writeText(home, { name: "x.csv", text });
  const out = join(home, "table");
  await writeWarehouse([path], out);
  const { columns } = await inspectWarehouse([out]);
  const typeOf = Object.fromEntries(columns.map(({ name, type }) => [name, type]));
  t.like(typeOf, { version: "UTF8", price: "DOUBLE", id: "INT64", tiny: "DOUBLE" });
  const features = {
    label: "label",
    dense: ["price", "tiny"],
    categorical: ["version"],
    batchSize: 4,
  };
  const digestOf = async (options: object) => {
    const data = checkOptions(dataOptions, { ...options, ...features, cache: home } as never);
    return (await prepareCache(data, [{ name: "version", rows: 1000 }], realDisk)).digest;
  };
  const table = { kind: "parquet", paths: [join(out, "part-0.parquet")] };
  t.is(await digestOf(table), await digestOf({ kind: "csv", paths: [path] }));
});

test("types are the narrowest that hold all values, in JSON as in CSV", async (t) => {
  const home = startDirectory(t);
  const long = "9007199254740993";
  const text = [
    `{"int": 1, "long": ${long}, "half": 0.5, "is": true, "text": "ä", "mixed": 1, "zip": "007"}`,
    `{"int": null, "long": -5, "half": 3, "is": false, "mixed": "x", "list": [1, ${long}]}`,
    `{"words": ["a", "ä"], "map": {"7": 0.5, "8": 1}, "pairs": [["x", 2]], "list": []}`,
  ].join("\n");
  const path = writeText(home, { name: "rows.jsonl.gz", text, gzip: true });
  const out = join(home, "table");
  await writeWarehouse([path], out);
  const { columns } = await inspectWarehouse([out]);
  t.deepEqual(Object.fromEntries(columns.map(({ name, type }) => [name, type])), {
    int: "INT64",
    long: "INT64",
    half: "DOUBLE",
    is: "BOOLEAN",
    text: "UTF8",
    mixed: "UTF8",
    zip: "UTF8",
    list: "list<INT64>",
    words: "list<UTF8>",
    map: "map<INT64, DOUBLE>",
    pairs: "map<UTF8, DOUBLE>",
  });
  const part = join(out, "part-0.parquet");
  const found = await readColumns(part, ["long", "list", "mixed"], true);
  t.deepEqual(found.long, [long, "-5", null]);
  t.deepEqual(found.list, [null, ["1", long], []]);
  const csv = writeText(home, {
    name: "rows.csv",
    text: "a,b,c,d\n1,01,1.5,\n2,2,0.5,\n,3,1000,\n",
  });
  await writeWarehouse([csv], join(home, "csv"));
  const types = (await inspectWarehouse([join(home, "csv")])).columns.map(({ type }) => type);
  t.deepEqual(types, ["INT64", "UTF8", "DOUBLE", "UTF8"]);
});

test("each value has a partition whose files lack the column; popular columns come first", async (t) => {
  const home = startDirectory(t);
  const lines = Array.from({ length: 300 }, (_, i) => `${i},d ${i % 3},${i * 2},${i % 2}`);
  const text = `${["a,day,b,label", ...lines, "300,,1,1"].join("\n")}\n`;
  const path = writeText(home, { name: "rows.csv", text });
  const out = join(home, "table");
  const job = (dense: readonly string[]) =>
    resolveJob({
      model: { kind: "dlrm", table: { rows: 9, dim: 4 }, bottom: [4], top: [4, 1] },
      data: {
        kind: "csv",
        paths: [path],
        batchSize: 8,
        label: "label",
        dense: [...dense],
        categorical: ["day"],
      },
    } as Parameters<typeof resolveJob>[0]);
  const report = await writeWarehouse([path], `${out}/`, {
    partitionBy: "day",
    groupRows: 20,
    orderFrom: [job(["b"]), job(["b"])],
  });
  t.deepEqual(report.columns, ["b", "label", "a"]);
  t.deepEqual(allFiles(out), [
    "day=__HIVE_DEFAULT_PARTITION__/part-0.parquet",
    "day=d%200/part-0.parquet",
    "day=d%201/part-0.parquet",
    "day=d%202/part-0.parquet",
  ]);
  const inspected = await inspectWarehouse([out]);
  t.is(inspected.rows, 301);
  t.true(inspected.groupRows[1] <= 20);
  const { a } = await readColumns(join(out, "day=d%201/part-0.parquet"), ["a"]);
  t.deepEqual(a?.slice(0, 3), [1, 4, 7]);
});

test("an invalid table is refused by name, and no file is left", async (t) => {
  const home = startDirectory(t);
  const good = writeText(home, { name: "good.csv", text: "a,b\n1,2\n" });
  const before = readdirSync(home).length;
  const refused = async (
    paths: readonly string[],
    message: RegExp,
    options: Parameters<typeof writeWarehouse>[2] = {},
  ) => {
    const error = await t.throwsAsync(writeWarehouse(paths, join(home, "table"), options), {
      message,
    });
    t.true(error instanceof InputUnusableError || error instanceof InvalidOptionError);
    t.false(existsSync(join(home, "table")));
  };
  await refused([good], /`--partition-by` .* `c` is no column/, { partitionBy: "c" });
  await refused([join(home, "none.csv")], /none\.csv/);
  await refused([join(fixtures, "clicks.csv"), join(fixtures, "clicks.parquet")], /of one kind/);
  await refused([join(fixtures, "make.py")], /Expected a file ending in \.csv/);
  await refused([join(fixtures, "flat/int96.parquet")], /`seconds` is INT96; expected a value/);
  const both = [join(fixtures, "flat/plain.parquet"), join(fixtures, "clicks.parquet")];
  await refused(both, /Expected files with the same columns/);
  const own = (name: string, text: string) => writeText(startDirectory(t), { name, text });
  await refused([own("x.csv", "a,b\n1,2\n3\n")], /line 3 of .*: expected 2 fields.*, got 1/);
  await refused([own("x.jsonl", '{"a":1}\n[1]\n')], /line 2 of .*: expected a JSON object/);
  await refused([own("x.jsonl", '{"a":1}\n{"a":[1]}\n')], /line 2.*`a` mixes values/);
  await refused([own("x.jsonl", '{"a":{"b":"c"}}\n')], /expected `a` to be a value, a list/);
  const lists = own("x.jsonl", '{"a":1,"list":[1]}\n');
  await refused([lists], /one value a row, and `list` is a list/, { partitionBy: "list" });
  const moments = join(fixtures, "clicks.parquet");
  await refused([moments], /integers, text, true and false, but `when` has another type/, {
    partitionBy: "when",
  });
  t.is(readdirSync(home).length, before);
  mkdirSync(join(home, "there"));
  await t.throwsAsync(writeWarehouse([good], join(home, "there")), {
    instanceOf: InvalidOptionError,
    message: /Expected a new directory for the table/,
  });
});

test("a table has the same contents with every codec, and zstd is smaller than none", async (t) => {
  const home = startDirectory(t);
  const expected = await contentsOf(clicksTable);
  const sizes = new Map<string, number>();
  for (const codec of codecs) {
    const { bytes } = await writeWarehouse([clicksTable], join(home, codec), { codec });
    sizes.set(codec, bytes);
    t.deepEqual(await contentsOf(join(home, codec)), expected, codec);
    const { columns } = await inspectWarehouse([join(home, codec)]);
    const packed = codec === "none" ? "UNCOMPRESSED" : codec.toUpperCase();
    t.deepEqual(columns[0]?.codecs, [packed]);
  }
  t.true((sizes.get("zstd") ?? 0) < 0.9 * (sizes.get("none") ?? 0), JSON.stringify([...sizes]));
});

test("partition keys become columns of the rows in them", async (t) => {
  const home = startDirectory(t);
  const days = ["day=7/hour=03", "day=8/hour=__HIVE_DEFAULT_PARTITION__"];
  for (const [i, day] of days.entries()) {
    mkdirSync(join(home, "in", day), { recursive: true });
    writeText(join(home, "in", day), { name: "rows.csv", text: `item,price\n${i},${i}.5\n9,9\n` });
  }
  const { columns } = await writeWarehouse([join(home, "in")], join(home, "out"));
  t.deepEqual(columns, ["item", "price", "day", "hour"]);
  const report = await inspectWarehouse([join(home, "out")]);
  t.deepEqual(
    report.columns.map(({ name, type }) => `${name} ${type}`),
    ["item INT64", "price DOUBLE", "day INT64", "hour UTF8"],
  );
  const source = await openParquetTable([join(home, "out", "part-0.parquet")]);
  for await (const chunk of source.chunks()) {
    t.deepEqual(chunk.columns.get("day"), [7n, 7n, 8n, 8n]);
    const hours = (chunk.columns.get("hour") ?? []).map((hour) => {
      return hour instanceof Uint8Array ? Buffer.from(hour).toString() : hour;
    });
    t.deepEqual(hours.slice(0, 2), ["03", "03"]);
    t.true(hours[2] === undefined || hours[2] === null);
  }
  // Written by day again and read again, the rows are the same.
  const again = join(home, "again");
  await writeWarehouse([join(home, "out")], again, { partitionBy: "day" });
  await writeWarehouse([again], join(home, "back"));
  t.deepEqual(await contentsOf(join(home, "back")), await contentsOf(join(home, "out")));
  writeText(home, { name: "rows.csv", text: "item,price\n1,1\n" });
  await t.throwsAsync(writeWarehouse([join(home, "in"), join(home, "rows.csv")], join(home, "x")), {
    instanceOf: InputUnusableError,
    message: /partitions of the same keys, got day, hour and none: .*rows\.csv and .*rows\.csv/,
  });
});

test("Ctrl-C leaves no file, and a process that dies leaves no table", async (t) => {
  const home = startDirectory(t);
  const out = join(home, "table");
  const controller = new AbortController();
  const options = {
    groupRows: 10,
    signal: controller.signal,
    onProgress: () => controller.abort(new Error("stopped")),
  };
  await t.throwsAsync(writeWarehouse([clicks], out, options), { message: "stopped" });
  t.deepEqual(readdirSync(home), []);
  let survived = 0;
  for (let dies = 0; ; dies++) {
    const died = await writeWarehouse([clicks], out, { groupRows: 200, disk: mortalDisk(dies) })
      .then(() => false)
      .catch(() => true);
    if (!died) break;
    if (existsSync(out)) survived++;
    // A table that has its name is complete: at most the sync of its directory is missing.
    if (existsSync(out)) t.is((await contentsOf(out)).rows, 400);
    realDisk.remove(out);
  }
  t.true(survived > 0);
  t.is((await contentsOf(out)).rows, readFileSync(clicks, "utf8").trimEnd().split("\n").length - 1);
});
