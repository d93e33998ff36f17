// The parsed fields of a chunk of lines give the same sample as their texts, bit for bit, or the
// same fault. Records have the words of encoded samples; lines with an unusual field have no
// record. Fields are drawn from valid and invalid values.

import assert from "node:assert/strict";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { CacheWriter } from "../../../src/data/cache/cache-writer.ts";
import { noRecords, plainFrom } from "../../../src/data/columnar/plain-records.ts";
import { createRowEncoder, type RowEncoder } from "../../../src/data/columnar/row-encoder.ts";
import {
  type CsvOptions,
  dataOptions,
  type ResolvedDataOptions,
  type TableShape,
} from "../../../src/data/options.ts";
import { Sample } from "../../../src/data/sample.ts";
import { csv } from "../../../src/data/sources.ts";
import { KeyCollector } from "../../../src/data/split-keys.ts";
import { targetsOf } from "../../../src/data/targets.ts";
import {
  type Columns,
  criteoColumns,
  csvColumns,
  denseOf,
} from "../../../src/data/text/columns.ts";
import {
  FieldValues,
  fieldParser,
  fieldReader,
  planOf,
  type ReadFields,
  readFields,
} from "../../../src/data/text/field-values.ts";
import { LineBatch, linesOf } from "../../../src/data/text/line-batch.ts";
import { ByteLines } from "../../../src/data/text/text-lines.ts";
import { transformsFor } from "../../../src/data/transforms/compile.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { startDirectory } from "../data-files.ts";
import { compareRecords } from "../parquet/encoded-records.ts";

const numbers =
  "0 1 -1 -0 7 12.5 0.1 .5 5. - . 1.2.3 1e3 957.0 999999999999999 1234567890123456 " +
  "123456789.1234567 0.30000000000000004 4095 4096 -4095.75 abc 1-2 99999999999999999999";
const ids = "5 0 99 957 0957 1000000000 2147483648 -3 3.0 abc 68fd1e64 x é \u00e9 1:2 1:x ab cd|ef";
const lists = "1|2|3 |1| || 5|abc 1:0.5|2:1 7 1:2:3";
const pool = ["", " ", ..."1".repeat(9), ...[numbers, ids, lists].join(" ").split(" "), '"1"', '"'];

/** The lines as a chunk of a file; `isTooLong`: of each line. */
function chunkOf(lines: readonly string[], isTooLong = () => false): ByteLines {
  const chunk = new ByteLines(2, Buffer.from(`--${lines.join("\n")}`, "latin1"), 0);
  let begin = 2;
  for (const line of lines) {
    chunk.add(begin, begin + line.length, isTooLong());
    begin += line.length + 1;
  }
  return chunk;
}

/** Starts a chunk whose fields are parsed by `read`. */
function beginParsed(
  encoder: RowEncoder,
  columns: Columns,
  lines: ByteLines,
  read: ReadFields = fieldReader(),
): void {
  const values = fieldParser(columns, read)(lines);
  encoder.begin(new LineBatch(columns, lines, lines.firstLine, { lines, values }));
}

/** The result of encoding a line: its sample, or its fault. */
function outcome(sample: Sample, fault: ReturnType<RowEncoder["encode"]>) {
  if (fault !== undefined) return fault;
  const { labels, dense, missing, lengths, ids, highs, weights, idCount } = sample;
  const bits = [labels, dense, weights.subarray(0, idCount)].map((one) => [
    ...new Int32Array(Float32Array.from(one).buffer),
  ]);
  const halves = [ids, highs].map((one) => [...one.subarray(0, idCount)]);
  return [bits, [...missing], [...lengths], halves, sample.sampleWeight, [...sample.group]];
}

/**
 * Encodes the lines of one chunk from texts and from parsed fields, with the addon and without.
 * Returns the number of good lines, and the lines that differ.
 */
function encodeBoth(
  lines: readonly string[],
  columns: Columns,
  newSample: () => Sample,
  keys: () => KeyCollector | undefined,
): { readonly good: number; readonly wrong: readonly string[] } {
  const chunk = chunkOf(lines);
  const wrong = bitsOf(columns, chunk, readFields) === bitsOf(columns, chunk) ? [] : ["fields"];
  let good = 0;
  for (const read of [fieldReader(), readFields]) {
    const [parsed, ofText] = [newSample(), newSample()];
    const [parsedKeys, textKeys] = [keys(), keys()];
    const [byFields, byText] = [parsedKeys, textKeys].map((own) => {
      return createRowEncoder(columns, columns.header, own);
    });
    assert(byFields !== undefined && byText !== undefined, "two encoders");
    beginParsed(byFields, columns, chunk, read);
    byText.begin(new LineBatch(columns, linesOf(lines), 2));
    good = 0;
    for (const [i, line] of lines.entries()) {
      const one = outcome(parsed, byFields.encode(parsed, i));
      const fault = byText.encode(ofText, i);
      if (JSON.stringify(one) !== JSON.stringify(outcome(ofText, fault))) wrong.push(line);
      if (fault !== undefined) continue;
      good++;
      parsedKeys?.keep();
      textKeys?.keep();
    }
    if (String(parsedKeys?.keys().values) !== String(textKeys?.keys().values)) wrong.push("keys");
  }
  return { good, wrong };
}

/** The fields of a chunk as read, as text; an incomplete line reads as `none`. */
function bitsOf(columns: Columns, chunk: ByteLines, read = fieldReader()): string {
  const plan = planOf(columns);
  const values = new FieldValues(plan);
  read(values, chunk);
  const [D, F] = [columns.dense.length, columns.categorical.length];
  const lines = Array.from({ length: chunk.count }, (_, line) => {
    const begins = values.begins.slice(line * (plan.fields + 1), (line + 1) * (plan.fields + 1));
    if (begins[0] === -1) return "none";
    const ofLine = (_: unknown, i: number) => i * values.lines + line;
    const numbers = Array.from({ length: D }, ofLine).map((at) => values.numbers[at] ?? 0);
    const bits = new BigInt64Array(Float64Array.from(numbers).buffer);
    const ids = Array.from({ length: F }, ofLine).map((at) => values.ids[at]);
    return [begins, bits, ids].join(" ");
  });
  return lines.join("\n");
}

/** Lines of `fields` fields, mostly valid; `usual` draws a valid field. */
function drawLines(
  seed: number,
  { fields, delimiter }: Columns,
  usual: (random: RandomStream, field: number) => string,
): string[] {
  const random = new RandomStream(seed, 1);
  return Array.from({ length: 1500 }, () => {
    const odd = random.below(3); // With 40 fields most must be valid, or no line is good.
    const count = fields + (random.below(20) === 0 ? random.below(3) - 1 : 0);
    const drawn = Array.from({ length: count }, (_, field) => {
      const isOdd = odd > 0 && random.below(20 * odd) === 0;
      return isOdd ? (pool[random.below(pool.length)] ?? "") : usual(random, field);
    });
    return drawn.join(delimiter);
  }).filter((line) => line !== "");
}

const criteoTables = Array.from({ length: 26 }, (_, i) => {
  return { name: `C${i + 1}`, rows: 2 + 7919 * i };
});

test("Criteo lines are encoded the same from parsed fields as from texts", (t) => {
  const columns = criteoColumns(criteoTables);
  const lines = drawLines(1, columns, (random, field) => {
    if (field === 0) return String(random.below(2));
    if (random.below(5) === 0) return "";
    if (field > 13) return random.word().toString(16).padStart(8, "0");
    return String(random.below(10 ** (1 + random.below(6))) - 2);
  });
  const newSample = () => new Sample({ dense: 13, features: 26 });
  const { good, wrong } = encodeBoth(lines, columns, newSample, () => undefined);
  t.deepEqual(wrong, []);
  t.true(good > 250 && good < lines.length - 150, `${good}`);
});

/** The columns of a CSV file with this header. */
function csvOf(
  header: readonly string[],
  tables: readonly TableShape[],
  own: Omit<CsvOptions, "kind" | "paths" | "label" | "batchSize">,
  key?: { readonly kind: "time"; readonly column: string },
) {
  const options = checkOptions(dataOptions, csv("a.csv", { label: "y", batchSize: 1, ...own }));
  assert(options.kind === "csv", "a source of CSV");
  return { options, columns: csvColumns(options, tables, "a.csv", header, key) };
}

const integer = { ids: "integer" as const };

test("CSV lines of every kind of column are encoded the same from fields as from texts", (t) => {
  const missing = [0, "mean", "indicator", "reject"] as const;
  const names = ["a", "b", "c", "d"];
  const dense = [
    ...missing.map((one, i) => ({ column: `x${i}`, missing: one, log: i % 2 === 0 })),
    { column: "x4", unreadable: "missing" as const },
  ];
  const categorical = [
    { column: "a" },
    { column: "b", separator: "|", missing: "empty" as const },
    { column: "c", ...integer, offset: 5 },
    { column: "d", ...integer, separator: "|", missing: "empty" as const },
    { column: "e", ...integer, missing: "reject" as const },
    { column: "f", separator: "|", weightSeparator: ":", missing: "empty" as const },
  ];
  const header = ["y", ...dense.map(({ column }) => column), ...names, "e", "f", "w", "k", "g"];
  const targets = [{}, { weight: "w" }, { weight: "w", group: "g" }, { positive: "x" }];
  const tables: TableShape[] = categorical.map(({ column }, i) => {
    const wide = column === "e" ? ({ idBits: 64 } as const) : {};
    return { name: column, rows: 1000, ids: i === 3 ? "clamp" : "reject", ...wide };
  });
  for (const [seed, more] of targets.entries()) {
    for (const key of seed === 1 ? [undefined, "k"] : [undefined]) {
      const split = key === undefined ? key : ({ kind: "time", column: key } as const);
      const own = { dense, categorical, delimiter: ";", ...more };
      const { options, columns } = csvOf(header, tables, own, split);
      const lines = drawLines(seed, columns, (random, field) => {
        if (field === header.length - 1) return `group ${random.below(9)}`;
        if (header[field] === "f") return "";
        return String(field === 0 ? random.below(2) : 5 + random.below(9));
      });
      const newSample = () =>
        new Sample({ dense: denseOf(options), features: 6, targets: targetsOf(options) });
      const keys = () => split && new KeyCollector(split);
      const { good, wrong } = encodeBoth(lines, columns, newSample, keys);
      t.deepEqual(wrong, []);
      t.true(good > 100 && good < lines.length - 50, `${good} of ${lines.length}`);
    }
  }
});

const odd = ["", " ", "-0", "5.", ".", "1e3", "957.0", "2", "12345678901234567", "99", "x", "é"];

/** Lines that mostly have records; some are empty, too long, or have an unusual field. */
function recordLines(seed: number, { fields, delimiter, dense }: Columns, lines: number) {
  const random = new RandomStream(seed, 1);
  const decimals = new Set(dense.flatMap(({ field, isInteger }) => (isInteger ? [] : field)));
  const usual = (field: number) => {
    if (field === 0) return String(random.below(2));
    if (random.below(8 * fields) === 0) return "";
    const whole = 5 + random.below(10 ** (1 + random.below(3)));
    return String(decimals.has(field) && random.below(2) === 0 ? whole / -8 : whole);
  };
  const texts = Array.from({ length: lines }, () => {
    if (random.below(30) === 0) return "";
    const isOdd = random.below(4) === 0;
    const count = fields - (random.below(40) === 0 ? 1 : 0);
    const drawn = Array.from({ length: count }, (_, field) => {
      const isOther = isOdd && random.below(fields) === 0;
      return isOther ? ([...odd, '"'][random.below(odd.length + 1)] ?? "") : usual(field);
    });
    return drawn.join(delimiter);
  });
  return chunkOf(texts, () => random.below(50) === 0);
}

/** `options`: of the data, if they have transforms. */
function compare(
  t: ExecutionContext,
  columns: Columns,
  dense: number,
  { hasTargets = false, options }: { hasTargets?: boolean; options?: ResolvedDataOptions } = {},
): void {
  const features = columns.categorical.length;
  const targets = { labels: 1, hasSampleWeights: hasTargets, hasGroups: hasTargets };
  const shape = { dense, features, wide: Array(features).fill(false), weighted: [], targets };
  const transforms = options && transformsFor(options);
  const encoder = createRowEncoder(columns, columns.header, undefined, transforms);
  for (const read of [fieldReader(), readFields]) {
    let [plain, lines] = [0, 0];
    for (let seed = 1; seed <= 6; seed++) {
      const chunk = recordLines(seed, columns, seed === 3 ? 1 : 400);
      beginParsed(encoder, columns, chunk, read);
      lines += chunk.count;
      plain += compareRecords(t, encoder, shape, chunk.count).plain;
    }
    t.true(plain > lines / 4 && plain < 0.95 * lines, `${plain} of ${lines} lines are plain`);
  }
}

test("Criteo lines: records have the words of encoded samples", (t) => {
  compare(t, criteoColumns(criteoTables), 13);
});

test("CSV lines: records have the words of encoded samples, lists and targets included", (t) => {
  const dense = [
    { column: "plain" },
    { column: "log", log: true },
    { column: "mean", missing: "mean" as const },
    { column: "told", missing: "indicator" as const, log: true },
    { column: "needed", missing: "reject" as const },
    { column: "lax", unreadable: "missing" as const },
  ];
  const single = [
    { column: "a" },
    { column: "b", ...integer, offset: 5 },
    { column: "c", missing: "empty" as const },
  ];
  const listed = [...single, { column: "d", separator: "7" }];
  const header = ["y", ...dense.map(({ column }) => column), "a", "b", "c", "d", "w", "g"];
  const tables = ["a", "b", "c", "d"].map((name) => ({ name, rows: 3000 }));
  compare(t, csvOf(header, tables.slice(0, 3), { dense, categorical: single }).columns, 7);
  const rest = {
    categorical: [...listed, { column: "b2", ...integer, separator: "8" }],
    weight: "w",
    group: "g",
  };
  // `recordLines` draws negative numbers for dense columns only; a weight must not be negative.
  const own = { dense: [{ column: "plain" }], ...rest };
  const all = [...tables, { name: "b2", rows: 3000 }];
  compare(t, csvOf([...header, "b2"], all, own).columns, 1, { hasTargets: true });
});

test("CSV lines with transforms: records have the words of encoded samples", (t) => {
  const { options, columns } = csvOf(
    ["y", "plain", "other", "a", "b", "d"],
    ["a", "hashed", "firsts"].map((name) => ({ name, rows: 3000 })),
    {
      transforms: [
        { op: "fill", input: "other", output: "filled", value: 3 },
        { op: "sigridHash", input: "b", output: "hashed", max: 50 },
        { op: "firstX", input: { column: "d", separator: "7" }, output: "firsts", x: 1 },
      ],
      dense: ["plain", "filled"],
      categorical: [
        { column: "a" },
        { column: "hashed", ...integer },
        { column: "firsts", ...integer },
      ],
    },
  );
  compare(t, columns, 2, { options });
});

test("a bad line has no record, even if transforms make all features and labels may be missing", (t) => {
  const { options, columns } = csvOf(["y", "other", "b"], [{ name: "hashed", rows: 3000 }], {
    missingLabels: { y: "negative" },
    transforms: [
      { op: "fill", input: "other", output: "filled", value: 3 },
      { op: "sigridHash", input: "b", output: "hashed", max: 50 },
    ],
    dense: ["filled"],
    categorical: [{ column: "hashed", ...integer }],
  });
  compare(t, columns, 1, { options });
});

test("lines that must be read as text, such as lines with 64-bit ids, have no records", (t) => {
  const [first] = criteoColumns(criteoTables).categorical;
  assert(first !== undefined, "a feature");
  const wide = { ...criteoColumns(criteoTables), categorical: [{ ...first, isWide: true }] };
  for (const [columns, hasRecords] of [
    [criteoColumns(criteoTables), true],
    [wide, false],
  ] as const) {
    const encoder = createRowEncoder(columns, columns.header);
    beginParsed(encoder, columns, recordLines(1, columns, 10));
    t.is(encoder.records() !== undefined, hasRecords);
    encoder.begin(new LineBatch(columns, linesOf(["1"]), 1));
    t.is(encoder.records(), undefined);
  }
});

test("a cache of records equals the cache of their samples, with all its statistics", (t) => {
  const home = startDirectory(t);
  const columns = criteoColumns(criteoTables.map(({ name }, i) => ({ name, rows: 50 + i })));
  const rows = columns.categorical.map((one) => one.rows);
  const shape = { dense: 13, features: 26, wide: Array(26).fill(false), weighted: [], rows };
  const [bySamples, byRecords] = ["samples", "records"].map((name) => {
    const file = realDisk.open(join(home, name), "write");
    return { file, writer: new CacheWriter(file, shape) };
  });
  assert(bySamples !== undefined && byRecords !== undefined, "two");
  const sample = bySamples.writer.newSample();
  const encoder = createRowEncoder(columns, columns.header);
  const drawn = [1, 2, 3, 4, 5].map((seed) => recordLines(seed, columns, 3000));
  // More samples than the window in which the reuse of ids is counted.
  for (let i = 0; byRecords.writer.samples < 70_000; i++) {
    const chunk = drawn[i % drawn.length];
    assert(chunk !== undefined, "a chunk");
    beginParsed(encoder, columns, chunk);
    const records = encoder.records() ?? noRecords;
    for (let line = 0; line < chunk.count; line++) {
      const count = plainFrom(records, line, chunk.count);
      if (count === 0) continue;
      byRecords.writer.appendRecords(records, line, count);
      for (const end = line + count; line < end; line++) {
        assert(encoder.encode(sample, line) === undefined, "a plain line");
        bySamples.writer.append(sample);
      }
    }
  }
  const about = { quarantine: { count: 0, kept: [], reasons: [] } };
  t.deepEqual(byRecords.writer.finish(about), bySamples.writer.finish(about));
  for (const { file } of [bySamples, byRecords]) file.close();
});
