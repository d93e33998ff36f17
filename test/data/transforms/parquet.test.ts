// Transforms of Parquet and Arrow files, and of JSON Lines: the samples equal those of the same
// rows as CSV, and of records.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { parquetWriteBuffer } from "hyparquet-writer";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { dataOptions } from "../../../src/data/options.ts";
import { createRecordEncoder } from "../../../src/data/records.ts";
import type { LineFault } from "../../../src/data/text/faults.ts";
import { sourceOf } from "../../../src/data/text/source-columns.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { fixtures as arrowFixtures } from "../arrow/arrow-files.ts";
import { startDirectory } from "../data-files.ts";
import { writeLines } from "../json/click-lines.ts";
import { fixtures } from "../parquet/parquet-files.ts";

/** The same transforms for each kind; text splits a list, columnar files have lists. */
function optionsOf(
  kind: "csv" | "parquet" | "arrow" | "jsonl",
  own: readonly object[] = [],
  path = join(kind === "arrow" ? arrowFixtures : fixtures, `clicks.${kind}`),
) {
  const list = (column: string, form: "plain" | "weighted" = "plain") => {
    if (kind !== "csv") return { column, list: form };
    const weights = form === "weighted" ? { weightSeparator: ":" } : {};
    return { column, separator: "|", ...weights };
  };
  return {
    kind,
    paths: [path],
    batchSize: 32,
    rejectedMax: 0.5,
    label: "label",
    weight: "weight",
    transforms: [
      { op: "fill", input: "price", output: "known", value: 3 },
      { op: "log", input: "known", output: "logPrice", plus: 1 },
      { op: "bucketize", input: "age", output: "level", borders: [20, 30, 40] },
      { op: "sigridHash", input: "session", output: "sessionHash", max: 900 },
      { op: "hashText", input: "colour", output: "colourId" },
      { op: "hashText", input: list("words"), output: "wordIds" },
      { op: "cartesian", inputs: ["colourId", list("tags")], output: "pairs", max: 800 },
      { op: "firstX", input: list("scored", "weighted"), output: "best", x: 2 },
      {
        op: "positiveModulus",
        input: { column: "mixed", separator: "|" },
        output: "few",
        modulus: 7,
      },
      { op: "overlapCount", inputs: ["best", list("tags")], output: "common" },
      ...own,
    ],
    dense: ["logPrice", "common", "ratio"],
    categorical: [
      { column: "level", ids: "integer" },
      { column: "sessionHash", ids: "integer" },
      "colourId",
      "wordIds",
      { column: "pairs", ids: "integer" },
      "best",
      { column: "few", ids: "integer" },
      "item",
    ],
  };
}

const names = ["level", "sessionHash", "colourId", "wordIds", "pairs", "best", "few", "item"];
const tables = names.map((name) => ({ name, rows: 1000 }));

async function cacheOf(options: object, cache: string) {
  return await prepareCache(checkOptions(dataOptions, { ...options, cache }), tables, realDisk);
}

test("samples equal those of the same rows as CSV, sampled or not", async (t) => {
  const cache = startDirectory(t);
  const path = writeLines(cache);
  for (const own of [
    [],
    [{ op: "sampling", rate: 0.5, seed: 3 }],
    [{ op: "sampling", rate: 0.5, by: "user" }],
  ]) {
    const one = await cacheOf(optionsOf("csv", own), cache);
    const other = await cacheOf(optionsOf("parquet", own), cache);
    t.is(other.digest, one.digest);
    t.is((await cacheOf(optionsOf("arrow", own), cache)).digest, one.digest);
    const json = await cacheOf(optionsOf("jsonl", own, path), cache);
    t.deepEqual([json.samples, json.digest], [one.samples, one.digest]);
    t.is(json.quarantine.count, one.quarantine.count);
    t.deepEqual(other.weighted, [false, false, false, false, false, true, false, false]);
    t.is(other.quarantine.count, one.quarantine.count);
    t.true(one.samples > 50, `${one.samples} samples`);
  }
});

test("empty texts, and weights with ids that a transform reads otherwise, are as in text", async (t) => {
  const cache = startDirectory(t);
  const vocabulary = join(cache, "items.txt");
  writeFileSync(vocabulary, Array.from({ length: 60 }, (_, i) => `${i}\n`).join(""));
  const texts = ["", "a", "b", ""];
  const scores = ["x:0.5", "y:2", "x:1", "y:3"];
  const lines = texts.map((text, i) => `${i % 2},${text},${scores[i]}\n`);
  writeFileSync(join(cache, "texts.csv"), `label,text,score\n${lines.join("")}`);
  const columnData = [
    { name: "label", data: [0, 1, 0, 1], type: "INT32" as const },
    { name: "text", data: texts, type: "STRING" as const },
    { name: "score", data: scores, type: "STRING" as const },
  ];
  const bytes = new Uint8Array(parquetWriteBuffer({ columnData }));
  writeFileSync(join(cache, "texts.parquet"), bytes);
  const digestOf = async (kind: "csv" | "parquet" | "jsonl", file: string, transform: object) => {
    const { label, batchSize } = optionsOf(kind);
    const read = {
      transforms: [{ output: "made", ...transform }],
      dense: [],
      categorical: ["made"],
    };
    const data = { kind, paths: [file], label, batchSize, rejectedMax: 0.5, ...read, cache };
    const made = [{ name: "made", rows: 1000 }];
    return (await prepareCache(checkOptions(dataOptions, data), made, realDisk)).digest;
  };
  const weighted = { column: "score", weightSeparator: ":" };
  for (const transform of [
    { op: "hashText", input: "text" },
    { op: "hashText", input: weighted },
  ]) {
    const [one, other] = await Promise.all(
      (["csv", "parquet"] as const).map((kind) => {
        return digestOf(kind, join(cache, `texts.${kind}`), transform);
      }),
    );
    t.is(other, one);
  }
  const input = { column: "scored", list: "weighted" };
  const transform = { op: "mapId", input, vocabulary };
  t.is(
    await digestOf("parquet", join(fixtures, "clicks.parquet"), transform),
    await digestOf("jsonl", writeLines(cache), transform),
  );
});

test("an id without a weight makes a bad row, though a score may not need the weight", (t) => {
  const [offsets, ids] = [Int32Array.of(0, 1, 2), BigInt64Array.of(3n, 4n)];
  const faults = new Map<number, LineFault>();
  const source = { column: "scored", form: "ids", list: "weighted" } as const;
  const read = (...weights: number[]) => {
    const own = Float32Array.from(weights);
    return sourceOf(source, { form: "ids", offsets, ids, weights: own }, 2, faults);
  };
  read(0.5, 1);
  t.is(faults.size, 0);
  read(0.5, Number.NaN);
  t.deepEqual([...faults.keys()], [1]);
});

test("a record gives the sample of its row, for any kind of file", (t) => {
  const record = {
    price: 2.5,
    age: 31,
    session: 2n ** 61n + 1n,
    colour: "c2",
    words: ["w1", "w2"],
    tags: [3, 4],
    scored: ["3:0.5", "9:2", "11:1"],
    mixed: "3|-9",
    ratio: 0.25,
    item: 77,
  };
  const encodedBy = (kind: "csv" | "parquet" | "arrow" | "jsonl") => {
    return createRecordEncoder(checkOptions(dataOptions, optionsOf(kind)), tables).encode([record]);
  };
  const batch = encodedBy("parquet");
  t.deepEqual(batch, encodedBy("csv"));
  t.deepEqual(batch, encodedBy("jsonl"));
  t.deepEqual(batch, encodedBy("arrow"));
  t.deepEqual([...batch.dense], [Math.log(3.5), 1, 0.25].map(Math.fround));
  t.deepEqual([...batch.lengths], [1, 1, 1, 2, 2, 2, 2, 1]);
});

test("a list not declared as one, and a declared list that is none, are refused", async (t) => {
  const cache = startDirectory(t);
  const refusal = async (transform: object) => {
    const options = optionsOf("parquet", [transform]);
    return (await t.throwsAsync(cacheOf(options, cache)))?.message.replace(/\S*clicks/, "clicks");
  };
  t.is(
    await refusal({ op: "enumerate", input: "tags", output: "places" }),
    '`data.transforms` names the column `tags`, which is a list in clicks.parquet; say `list: "plain"`',
  );
  t.is(
    await refusal({ op: "enumerate", input: { column: "item", list: "plain" }, output: "places" }),
    "`data.transforms` names the column `item`, which has one value a row in clicks.parquet; leave `list` out",
  );
  t.is(
    await refusal({ op: "enumerate", input: "itm", output: "places" }),
    "`data.transforms` names the column `itm`, which clicks.parquet does not have; it has `label`, `bought`, `when`, `user`, `weight`, `age`, `price`, `ratio`, `item`, `colour`, `shop`, `session`, `digest`, `tags`, `words`, `scored`, `mixed`; did you mean `item`?",
  );
});

test("`list` is refused for text, which is split", (t) => {
  const input = { column: "tags", list: "plain" };
  const options = optionsOf("csv", [{ op: "enumerate", input, output: "places" }]);
  t.throws(() => checkOptions(dataOptions, options, "data"), {
    message: /^Expected `data\.transforms` to be without `list`, as a field of text is split/,
  });
  const both = { column: "tags", list: "plain", separator: "|" };
  const split = optionsOf("parquet", [{ op: "enumerate", input: both, output: "places" }]);
  t.throws(() => checkOptions(dataOptions, split, "data"), {
    message: /\.input\.list` to be left out beside `separator` and `weightSeparator`/,
  });
});
