// The fast path from lines to records makes the words that the decoder makes of each line, and
// leaves lines with anything unusual to the decoder. A cache written from records equals the cache
// of their samples.

import assert from "node:assert/strict";
import { join } from "node:path";
import test from "ava";
import { BlockEncoder } from "../../../src/data/cache/block-encoder.ts";
import { CacheWriter } from "../../../src/data/cache/cache-writer.ts";
import { plainFrom } from "../../../src/data/columnar/plain-records.ts";
import { dataOptions } from "../../../src/data/options.ts";
import { Sample } from "../../../src/data/sample.ts";
import { csv } from "../../../src/data/sources.ts";
import { byteDecoder } from "../../../src/data/text/bytes/byte-decoder.ts";
import { ChunkFields, fieldReader, readFields } from "../../../src/data/text/bytes/field-values.ts";
import { lineRecords } from "../../../src/data/text/bytes/line-records.ts";
import { type Columns, criteoColumns, csvColumns } from "../../../src/data/text/columns.ts";
import { ByteLines } from "../../../src/data/text/text-lines.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { startDirectory } from "../data-files.ts";

const odd = [
  "",
  " ",
  "-0",
  "5.",
  ".",
  "1e3",
  "957.0",
  "2",
  "12345678901234567",
  "99",
  "x",
  "é",
  '"',
];

function chunkOf(seed: number, { fields, delimiter, dense }: Columns, lines: number): ByteLines {
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
      return isOther ? (odd[random.below(odd.length)] ?? "") : usual(field);
    });
    return drawn.join(delimiter);
  });
  const chunk = new ByteLines(1, Buffer.from(`--${texts.join("\n")}`, "latin1"), 0);
  let begin = 2;
  for (const text of texts) {
    chunk.add(begin, begin + text.length, random.below(50) === 0);
    begin += text.length + 1;
  }
  return chunk;
}

const criteoTables = Array.from({ length: 26 }, (_, i) => ({ name: `C${i + 1}`, rows: 50 + i }));
const criteo = criteoColumns(criteoTables);

function csvLines(): Columns {
  const options = checkOptions(
    dataOptions,
    csv("a.csv", {
      label: "y",
      dense: [
        { column: "plain" },
        { column: "log", log: true },
        { column: "mean", missing: "mean" },
        { column: "told", missing: "indicator", log: true },
        { column: "needed", missing: "reject" },
        { column: "lax", unreadable: "missing" },
      ],
      categorical: [
        { column: "a" },
        { column: "b", ids: "integer", offset: 5 },
        { column: "c", missing: "empty" },
      ],
      batchSize: 1,
    }),
  );
  assert(options.kind === "csv", "a source of CSV");
  const tables = ["a", "b", "c"].map((name) => ({ name, rows: 3000 }));
  const header = ["y", "plain", "log", "mean", "told", "needed", "lax", "a", "b", "c"];
  return csvColumns(options, tables, "a.csv", header);
}

const forms = [
  { name: "Criteo", columns: criteo, dense: 13 },
  { name: "CSV", columns: csvLines(), dense: 7 },
];

for (const { name, columns, dense } of forms) {
  test(`${name} lines: records have the words of decoded samples`, (t) => {
    const features = columns.categorical.length;
    const shape = { dense, features, wide: Array(features).fill(false), weighted: [] };
    for (const read of [fieldReader(), readFields]) {
      const chunks = new ChunkFields(columns, read);
      const [decode, recordsOf] = [
        byteDecoder(columns, undefined, chunks),
        lineRecords(columns, chunks),
      ];
      assert(recordsOf !== undefined, "these columns have records");
      let [plain, lines] = [0, 0];
      for (let seed = 1; seed <= 6; seed++) {
        const chunk = chunkOf(seed, columns, seed === 3 ? 1 : 400);
        const records = recordsOf(chunk);
        const { isPlain } = records;
        const sample = new Sample(shape);
        for (let line = 0; line < chunk.count; line++) {
          lines++;
          if (isPlain[line] !== 1) continue;
          plain++;
          assert(!chunk.isEmpty(line) && !chunk.isTooLong(line), "a line with fields");
          const fault = decode(sample, chunk, line);
          assert(fault === undefined, `line ${line} is plain, and has the fault ${fault?.kind}`);
          const [ofSample, ofRecord] = [new BlockEncoder(shape), new BlockEncoder(shape)];
          ofSample.append(sample);
          ofRecord.appendRecords(records, line, 1);
          const [got, wanted] = [ofRecord.rest(), ofSample.rest()].map(String);
          if (got !== wanted) t.is(got, wanted, chunk.text(line));
        }
      }
      t.true(plain > lines / 4 && plain < 0.95 * lines, `${plain} of ${lines} lines are plain`);
    }
  });
}

test("a job that reads a key, weight or list of a line makes no records", (t) => {
  const chunks = new ChunkFields(criteo);
  t.truthy(lineRecords(criteo, chunks));
  t.is(lineRecords({ ...criteo, key: 3 }, chunks), undefined);
  t.is(lineRecords({ ...criteo, weight: { field: 1, name: "w" } }, chunks), undefined);
  const [first] = criteo.categorical;
  assert(first !== undefined, "a feature");
  const list = { ...criteo, categorical: [{ ...first, separator: "|" }] };
  t.is(lineRecords(list, chunks), undefined);
});

test("a cache of records equals the cache of their samples, with all its statistics", (t) => {
  const home = startDirectory(t);
  const chunks = new ChunkFields(criteo);
  const [decode, recordsOf] = [byteDecoder(criteo, undefined, chunks), lineRecords(criteo, chunks)];
  const rows = criteoTables.map((table) => table.rows);
  const shape = { dense: 13, features: 26, wide: Array(26).fill(false), weighted: [], rows };
  const [bySamples, byRecords] = ["samples", "records"].map((name) => {
    const file = realDisk.open(join(home, name), "write");
    return { file, writer: new CacheWriter(file, shape) };
  });
  assert(bySamples !== undefined && byRecords !== undefined && recordsOf !== undefined, "two");
  const sample = bySamples.writer.newSample();
  const drawn = [1, 2, 3, 4, 5].map((seed) => chunkOf(seed, criteo, 3000));
  // More samples than the window in which the reuse of ids is counted.
  for (let i = 0; byRecords.writer.samples < 70_000; i++) {
    const chunk = drawn[i % drawn.length];
    assert(chunk !== undefined, "a chunk");
    const records = recordsOf(chunk);
    for (let line = 0; line < chunk.count; line++) {
      const count = plainFrom(records, line, chunk.count);
      if (count === 0) continue;
      byRecords.writer.appendRecords(records, line, count);
      for (const end = line + count; line < end; line++) {
        assert(decode(sample, chunk, line) === undefined, "a plain line");
        bySamples.writer.append(sample);
      }
    }
  }
  const about = { quarantine: { count: 0, kept: [], reasons: [] } };
  t.deepEqual(byRecords.writer.finish(about), bySamples.writer.finish(about));
  for (const { file } of [bySamples, byRecords]) file.close();
});
