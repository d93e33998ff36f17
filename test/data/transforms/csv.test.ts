// Transforms of CSV files: the samples equal those of a file that has the same values as text,
// wherever the lines are cut into chunks.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import test, { type ExecutionContext } from "ava";
import { lookAtFiles } from "../../../src/data/file-samples.ts";
import type { CsvOptions } from "../../../src/data/options.ts";
import { dataOptions } from "../../../src/data/options.ts";
import { createRecordEncoder } from "../../../src/data/records.ts";
import { csv } from "../../../src/data/sources.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { prepare, startDirectory, writeText } from "../data-files.ts";
import { run } from "./run-transforms.ts";

type Own = Partial<Omit<CsvOptions, "kind" | "paths">>;

const lines = Array.from({ length: 9000 }, (_, i) => {
  const price = i % 9 === 0 ? "" : `${(i * 37) % 500}.5`;
  const tags = Array.from({ length: i % 4 }, (_tag, k) => `${(i * 7 + k * 13) % 50}`).join("|");
  return [i % 3 === 0 ? 1 : 0, price, (i * 7919) % 1000, tags, 1_700_000_000 + 977 * i] as const;
});

const transforms = [
  { op: "bucketize", input: "price", output: "priceBucket", borders: [50, 100, 200, 400] },
  { op: "fill", input: "price", output: "known", value: 17 },
  { op: "log", input: "known", output: "logPrice", plus: 1 },
  { op: "sigridHash", input: "user", output: "userHash", salt: 7, max: 500 },
  { op: "getLocalHour", input: "time", output: "hour", offsetSeconds: 3600 },
  {
    op: "cartesian",
    inputs: ["userHash", "tagList"],
    output: "crossed",
    salt: 3,
    max: 300,
  },
  { op: "firstX", input: { column: "tags", separator: "|" }, output: "tagList", x: 2 },
] as const;

const tables = [
  { name: "priceBucket", rows: 5 },
  { name: "userHash", rows: 500 },
  { name: "hour", rows: 40 },
  { name: "crossed", rows: 300 },
  { name: "tagList", rows: 60 },
];

function optionsOf(own: Own = {}): Own {
  const integer = (column: string) => ({ column, ids: "integer" as const });
  return {
    transforms,
    dense: ["logPrice"],
    categorical: ["priceBucket", "userHash", "crossed"]
      .map(integer)
      .concat([integer("tagList")])
      .concat([{ column: "hour", ids: "hash" as never }]),
    ...own,
  };
}

/** The transform outputs as a person would write them into a file, computed from whole columns. */
function plainText(): string {
  const idsOf = (text: string) => (text === "" ? [] : text.split("|").map(Number));
  const { columns } = run(transforms, {
    price: lines.map(([, price]) => (price === "" ? Number.NaN : Number(price))),
    user: lines.map(([, , user]) => user),
    time: lines.map(([, , , , time]) => time),
    tags: lines.map(([, , , tags]) => idsOf(tags)),
  });
  const names = ["logPrice", ...tables.map(({ name }) => name)];
  const rows = lines.map(([label], row) => {
    const fields = names.map((name) => {
      const value = columns[name]?.[row];
      return Array.isArray(value) ? value.join("|") : String(value);
    });
    return [label, ...fields].join(",");
  });
  return `y,${names.join(",")}\n${rows.join("\n")}\n`;
}

function start(t: ExecutionContext) {
  const directory = startDirectory(t);
  const text = `y,price,user,tags,time\n${lines.map((line) => line.join(",")).join("\n")}\n`;
  const path = writeText(directory, { name: "raw.csv", text });
  const common = { label: "y", batchSize: 8, cache: join(directory, "cache") };
  const digestOf = async (own: Own, at: string | string[] = path) =>
    (await prepare(csv(at, { ...common, ...own }), tables)).digest;
  return { directory, path, text, common, digestOf };
}

test("samples equal those of a file that has the transform outputs as text", async (t) => {
  const { directory, digestOf } = start(t);
  const plain = writeText(directory, { name: "plain.csv", text: plainText() });
  const own = optionsOf();
  const categorical = (own.categorical ?? []).map((one) => {
    const column = one as { column: string };
    return column.column === "hour" ? column : { ...column, separator: "|" };
  });
  const byHand = await digestOf({ dense: own.dense, categorical }, plain);
  t.is(await digestOf(own), byHand);
});

test("samples depend neither on the order of transforms nor on the line layout", async (t) => {
  const { directory, text, digestOf } = start(t);
  const digest = await digestOf(optionsOf());
  t.is(await digestOf(optionsOf({ transforms: transforms.toReversed() })), digest);
  const packed = join(directory, "raw.csv.gz");
  writeFileSync(packed, gzipSync(text.replaceAll("\n", "\r\n\r\n")));
  t.is(await digestOf(optionsOf(), packed), digest);
});

test("a record gives the sample of its line, alone or in a batch", async (t) => {
  const { path, common } = start(t);
  const data = checkOptions(dataOptions, csv(path, { ...common, ...optionsOf() }));
  const encoder = createRecordEncoder(data, tables);
  const some = lines.slice(0, 40).map(([, price, user, tags, time]) => {
    return { price, user, tags, time: String(time) };
  });
  const listed = some.map((record) => ({ ...record, tags: record.tags.split("|") }));
  const whole = encoder.encode(some);
  t.deepEqual(encoder.encode(listed), whole);
  for (const [i, record] of some.entries()) {
    const { dense } = encoder.encode([record]);
    t.deepEqual([...dense], [whole.dense[i]]);
  }
  t.true(whole.ids.length > 40 * 4);
});

test("a dry run of the first lines applies the transforms", async (t) => {
  const { path, common } = start(t);
  const options = { ...common, ...optionsOf() };
  const data = checkOptions(dataOptions, csv(path, options));
  if (data.kind !== "csv") throw new Error("a CSV");
  t.like(await lookAtFiles(data, tables, 500), {
    samples: 500,
    problems: [],
    rejected: { count: 0 },
  });
});

test("rows that cannot be transformed are bad lines, each with its reason", async (t) => {
  const directory = startDirectory(t);
  const good = Array.from({ length: 997 }, (_, i) => `${i % 2},${i},1:1,2:1`);
  const bad = ["1,cheap,1:1,2:1", "1,2,x:1,2:1", "0,3,1:0,2:1"];
  const text = `y,price,a,b\n${[...bad, ...good].join("\n")}\n`;
  const path = writeText(directory, { name: "a.csv", text });
  const list = (column: string) => ({ column, separator: "|", weightSeparator: ":" });
  const options = csv(path, {
    label: "y",
    batchSize: 8,
    cache: join(directory, "cache"),
    transforms: [
      { op: "cosine", inputs: [list("a"), list("b")], output: "near" },
      { op: "log", input: "price", output: "logPrice", plus: 1 },
    ],
    dense: ["near", "logPrice"],
  });
  const { samples, quarantine } = await prepare(options, []);
  t.is(samples, 997);
  t.deepEqual(
    quarantine.kept.map(({ line, reason }) => `${line}: ${reason}`),
    [
      "2: expected `price`, which a transform reads, to be a number, got `cheap`",
      "3: expected `a`, which a transform reads, to be an integer of 64 bits, got `x`",
      "4: the transform `near` (cosine) has no value: the scores of a list are all 0",
    ],
  );
});

test("an undefined result is a missing value where the feature says so, else a bad line", async (t) => {
  const directory = startDirectory(t);
  const path = writeText(directory, { name: "a.csv", text: "y,x\n1,0\n0,1\n1,2\n" });
  const digestOf = (own: Own, at = path) => {
    const common = { label: "y", batchSize: 8, rejectedMax: 0.5, cache: join(directory, "cache") };
    return prepare(csv(at, { ...common, ...own }), []);
  };
  const log = [{ op: "log", input: "x", output: "l" }] as const;
  const rejected = await digestOf({ transforms: log, dense: ["l"] });
  t.is(rejected.samples, 2);
  t.is(rejected.quarantine.kept[0]?.reason, "expected `l` to be a number, got `-Infinity`");
  const kept = await digestOf({ transforms: log, dense: [{ column: "l", unreadable: "missing" }] });
  const text = `y,l\n1,\n0,0\n1,${Math.log(2)}\n`;
  const plain = writeText(directory, { name: "b.csv", text });
  t.is(kept.digest, (await digestOf({ dense: ["l"] }, plain)).digest);
});

test("sampling keeps the same rows in every read, and other rows of each file", async (t) => {
  const { path, directory, digestOf, common } = start(t);
  const sampling = { op: "sampling", rate: 0.25, seed: 9 } as const;
  const own = optionsOf({ transforms: [...transforms, sampling] });
  const report = await prepare(csv(path, { ...common, ...own }), tables);
  t.true(Math.abs(report.samples - 2250) < 150, `${report.samples} of 9000`);
  const copy = join(directory, "copy.csv");
  writeFileSync(copy, readFileSync(path));
  t.is(await digestOf(own, copy), report.digest);
  const both = await prepare(csv([path, copy], { ...common, ...own }), tables);
  t.not(both.samples, 2 * report.samples);
  const by = { ...sampling, by: "user" } as const;
  const users = optionsOf({ transforms: [...transforms, by] });
  const twice = await prepare(csv([path, copy], { ...common, ...users }), tables);
  const once = await prepare(csv(path, { ...common, ...users }), tables);
  t.is(twice.samples, 2 * once.samples);
});

test("a missing input, or an output that exists, is refused before a line is read", async (t) => {
  const { digestOf } = start(t);
  const refusal = async (one: object, others: Own["transforms"] = transforms) => {
    const own = optionsOf({ transforms: [...(others ?? []), one as never] });
    return (await t.throwsAsync(() => digestOf(own)))?.message.replace(/\S*raw\.csv/, "raw.csv");
  };
  t.is(
    await refusal({ op: "enumerate", input: "usr", output: "place" }),
    "`data.transforms` names the column `usr`, which raw.csv does not have; it has `y`, `price`, `user`, `tags`, `time`; did you mean `user`?",
  );
  t.is(
    await refusal({ op: "enumerate", input: "tagLst", output: "place" }),
    "`data.transforms` names the column `tagLst`, which raw.csv does not have; it has `y`, `price`, `user`, `tags`, `time`; did you mean `tagList`?",
  );
  t.true(
    (await refusal({ op: "enumerate", input: "user", output: "price" }, []))?.startsWith(
      "Expected the outputs of `data.transforms` to be no columns of raw.csv, which has `price` already: name the output otherwise",
    ),
  );
});
