// A line decoded from its bytes equals the line decoded from its text: the same sample bit for bit,
// or the same fault. Fields are drawn from valid and invalid values.

import test from "ava";
import { dataOptions, type TableShape } from "../../../src/data/options.ts";
import { Sample } from "../../../src/data/sample.ts";
import { csv } from "../../../src/data/sources.ts";
import { targetsOf } from "../../../src/data/targets.ts";
import { byteDecoder } from "../../../src/data/text/bytes/byte-decoder.ts";
import {
  ChunkFields,
  FieldValues,
  fieldReader,
  planOf,
  readFields,
} from "../../../src/data/text/bytes/field-values.ts";
import {
  type Columns,
  criteoColumns,
  csvColumns,
  denseOf,
} from "../../../src/data/text/columns.ts";
import { decodeLine } from "../../../src/data/text/line-decoder.ts";
import { KeyCollector } from "../../../src/data/text/split-keys.ts";
import { ByteLines } from "../../../src/data/text/text-lines.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { RandomStream } from "../../../src/ports/random.ts";

const numbers =
  "0 1 -1 -0 7 12.5 0.1 .5 5. - . 1.2.3 1e3 957.0 999999999999999 1234567890123456 " +
  "123456789.1234567 0.30000000000000004 4095 4096 -4095.75 abc 1-2 99999999999999999999";
const ids = "5 0 99 957 0957 1000000000 2147483648 -3 3.0 abc 68fd1e64 x é \u00e9 1:2 1:x ab cd|ef";
const lists = "1|2|3 |1| || 5|abc 1:0.5|2:1 7 1:2:3";
const pool = ["", " ", ..."1".repeat(9), ...[numbers, ids, lists].join(" ").split(" "), '"1"', '"'];

/** The result of decoding a line: its sample, or its fault. */
function outcome(sample: Sample, fault: ReturnType<typeof decodeLine>) {
  if (fault !== undefined) return fault;
  const { labels, dense, missing, lengths, ids, highs, weights, idCount } = sample;
  const bits = [labels, dense, weights.subarray(0, idCount)].map((one) => [
    ...new Int32Array(Float32Array.from(one).buffer),
  ]);
  const halves = [ids, highs].map((one) => [...one.subarray(0, idCount)]);
  return [bits, [...missing], [...lengths], halves, sample.sampleWeight, [...sample.group]];
}

/**
 * Decodes the lines of one chunk from text and from bytes, with the addon and without. Returns the
 * number of good lines, and the lines that differ.
 */
function decodeBoth(
  lines: readonly string[],
  columns: Columns,
  newSample: () => Sample,
  keys: () => KeyCollector | undefined,
): { readonly good: number; readonly wrong: readonly string[] } {
  const chunk = new ByteLines(2, Buffer.from(`--${lines.join("\n")}`, "latin1"), 0);
  let begin = 2;
  for (const line of lines) {
    chunk.add(begin, begin + line.length, false);
    begin += line.length + 1;
  }
  const wrong = bitsOf(columns, chunk, readFields) === bitsOf(columns, chunk) ? [] : ["fields"];
  let good = 0;
  for (const read of [fieldReader(), readFields]) {
    const [ofBytes, ofText] = [newSample(), newSample()];
    const [bytesKeys, textKeys] = [keys(), keys()];
    const decode = byteDecoder(columns, bytesKeys, new ChunkFields(columns, read));
    good = 0;
    for (const [i, line] of lines.entries()) {
      const one = outcome(ofBytes, decode(ofBytes, chunk, i));
      const fault = decodeLine(ofText, line, columns, textKeys);
      if (JSON.stringify(one) !== JSON.stringify(outcome(ofText, fault))) wrong.push(line);
      if (fault !== undefined) continue;
      good++;
      bytesKeys?.keep();
      textKeys?.keep();
    }
    if (String(bytesKeys?.keys().values) !== String(textKeys?.keys().values)) wrong.push("keys");
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

test("Criteo lines decode the same from bytes as from text", (t) => {
  const tables = Array.from({ length: 26 }, (_, i) => ({ name: `C${i + 1}`, rows: 2 + 7919 * i }));
  const columns = criteoColumns(tables);
  const lines = drawLines(1, columns, (random, field) => {
    if (field === 0) return String(random.below(2));
    if (random.below(5) === 0) return "";
    if (field > 13) return random.word().toString(16).padStart(8, "0");
    return String(random.below(10 ** (1 + random.below(6))) - 2);
  });
  const newSample = () => new Sample({ dense: 13, features: 26 });
  const { good, wrong } = decodeBoth(lines, columns, newSample, () => undefined);
  t.deepEqual(wrong, []);
  t.true(good > 250 && good < lines.length - 150, `${good}`);
});

test("CSV lines with every kind of column decode the same from bytes as from text", (t) => {
  const missing = [0, "mean", "indicator", "reject"] as const;
  const names = ["a", "b", "c", "d"];
  const dense = [
    ...missing.map((one, i) => ({ column: `x${i}`, missing: one, log: i % 2 === 0 })),
    { column: "x4", unreadable: "missing" as const },
  ];
  const integer = { ids: "integer" as const };
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
  for (const [seed, more] of targets.entries()) {
    for (const key of seed === 1 ? [undefined, "k"] : [undefined]) {
      const written = csv("a.csv", {
        label: "y",
        dense,
        categorical,
        delimiter: ";",
        batchSize: 1,
        ...more,
      });
      const options = checkOptions(dataOptions, written);
      t.is(options.kind, "csv");
      if (options.kind !== "csv") return;
      const tables: TableShape[] = categorical.map(({ column }, i) => {
        const wide = column === "e" ? ({ idBits: 64 } as const) : {};
        return { name: column, rows: 1000, ids: i === 3 ? "clamp" : "reject", ...wide };
      });
      const split = key === undefined ? key : ({ kind: "time", column: key } as const);
      const columns = csvColumns(options, tables, "a.csv", header, split);
      const lines = drawLines(seed, columns, (random, field) => {
        if (field === header.length - 1) return `group ${random.below(9)}`;
        if (header[field] === "f") return "";
        return String(field === 0 ? random.below(2) : 5 + random.below(9));
      });
      const newSample = () =>
        new Sample({ dense: denseOf(options), features: 6, targets: targetsOf(options) });
      const keys = () => split && new KeyCollector(split);
      const { good, wrong } = decodeBoth(lines, columns, newSample, keys);
      t.deepEqual(wrong, []);
      t.true(good > 100 && good < lines.length - 50, `${good} of ${lines.length}`);
    }
  }
});
