// The fast path from columns to records makes the words that the row encoder makes, and leaves rows
// with anything unusual to the encoder.

import test from "ava";
import type { Column } from "../../../src/data/columnar/column.ts";
import { namedColumns } from "../../../src/data/columnar/named-columns.ts";
import {
  columnWriter,
  type RecordColumn,
  writeColumns,
} from "../../../src/data/columnar/record-columns.ts";
import { createRowEncoder } from "../../../src/data/columnar/row-encoder.ts";
import { dataOptions, type ResolvedParquetOptions } from "../../../src/data/options.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { compareRecords } from "./encoded-records.ts";

type RecordIds = Extract<RecordColumn, { kind: "ids" }>;

const rows = 1500;
const names = ["label", "plain", "log", "mean", "told", "needed", "hashed", "coded", "own", "text"];

const options = dataOptions.parse({
  kind: "parquet",
  paths: ["drawn.parquet"],
  label: "label",
  dense: [
    "plain",
    { column: "log", log: true },
    { column: "mean", missing: "mean" },
    { column: "told", missing: "indicator" },
    { column: "needed", missing: "reject" },
  ],
  categorical: ["hashed", "coded", { column: "own", ids: "integer", offset: 5 }, "text"],
  batchSize: 1,
}) as ResolvedParquetOptions;
const tables = ["hashed", "coded", "own", "text"].map((name) => ({ name, rows: 50 }));

/** Mostly ordinary values, with each of the unusual ones now and then. */
function drawnColumns(random: RandomStream): Map<string, Column> {
  const rare = (values: readonly number[], usual: number) => {
    return random.below(20) === 0 ? (values[random.below(values.length)] ?? 0) : usual;
  };
  const odd = [Number.NaN, Infinity, -Infinity, 1e39, -0, 1e-46];
  const numbers = (values = odd): Column => {
    const draw = () => rare(values, random.below(2000) / 8 - 100);
    return { form: "numbers", values: Float64Array.from({ length: rows }, draw) };
  };
  /** Offsets of rows with one id, some with none. */
  const offsets = (): Int32Array => {
    const found = new Int32Array(rows + 1);
    for (let row = 0; row < rows; row++) {
      found[row + 1] = (found[row] ?? 0) + (random.below(20) === 0 ? 0 : 1);
    }
    return found;
  };
  const ids = (below: number): Column => {
    const own = { form: "ids", offsets: offsets(), isUnsigned: random.below(2) === 0 } as const;
    const draw = () => BigInt(rare([-1, 2 ** 40, 0], random.below(below)));
    return { ...own, ids: BigInt64Array.from({ length: own.offsets[rows] ?? 0 }, draw) };
  };
  const coded = (): Column => {
    const own = { form: "ids", offsets: offsets() } as const;
    const dictionary = BigInt64Array.from({ length: 300 }, () => BigInt(random.word()) << 20n);
    const codes = Int32Array.from({ length: own.offsets[rows] ?? 0 }, () => random.below(300));
    return { ...own, coded: { codes, dictionary }, ids: new BigInt64Array(codes.length) };
  };
  const texts = (): Column => {
    const own = { form: "texts", offsets: offsets() } as const;
    const codes = Int32Array.from({ length: own.offsets[rows] ?? 0 }, () => random.below(4));
    return { ...own, codes, dictionary: ["a", "", "bc", "7"] };
  };
  const label = Float64Array.from({ length: rows }, () => rare([2, Number.NaN], random.below(2)));
  return new Map<string, Column>([
    ["label", { form: "numbers", values: label }],
    ...["plain", "log", "mean", "told"].map((name) => [name, numbers()] as const),
    ["needed", numbers([Number.NaN])],
    ["hashed", ids(1000)],
    ["coded", coded()],
    ["own", ids(55)],
    ["text", texts()],
  ]);
}

test("records have the words of encoded samples, and skip unusual rows", (t) => {
  const { columns } = namedColumns(options, tables, { path: "drawn.parquet", header: names });
  const shape = { dense: 6, features: 4, wide: Array(4).fill(false), weighted: [] };
  const encoder = createRowEncoder(columns, names);
  const random = new RandomStream(7, 1);
  for (let batch = 0; batch < 4; batch++) {
    encoder.begin({ rows, firstRow: 0, columns: drawnColumns(random) });
    const { plain } = compareRecords(t, encoder, shape, rows);
    t.true(plain > rows / 4 && plain < rows, `${plain} of ${rows} rows are plain`);
  }
});

test("columns are written to the same words with the addon and without", (t) => {
  const random = new RandomStream(8, 1);
  const few = 700;
  const odd = [Number.NaN, Infinity, -Infinity, 1e39, -0, 1e-46, 3.4028235677973366e38, 3.4e38];
  const drawnNumbers = () =>
    Float64Array.from({ length: few }, () => {
      return random.below(8) === 0 ? (odd[random.below(odd.length)] ?? 0) : random.below(999) / 7;
    });
  const drawnIds = (isCoded: boolean): Pick<RecordIds, "offsets" | "entries"> => {
    const offsets = new Int32Array(few + 1);
    for (let row = 0; row < few; row++) {
      const entries = random.below(20) === 0 ? random.below(3) : 1;
      offsets[row + 1] = (offsets[row] ?? 0) + entries;
    }
    const count = offsets[few] ?? 0;
    const drawn = (length: number) =>
      Int32Array.from({ length }, () => (random.below(30) === 0 ? -1 : random.below(2 ** 31)));
    if (!isCoded) return { offsets, entries: { rows: drawn(count) } };
    const codes = Int32Array.from({ length: count }, () => random.below(50));
    return { offsets, entries: { rows: drawn(50), codes } };
  };
  for (let round = 0; round < 20; round++) {
    const columns: RecordColumn[] = [
      { kind: "same", at: 5, value: random.word() | 0 },
      ...[0, Number.NaN, undefined].map((absent, at): RecordColumn => {
        return { kind: "numbers", at, values: drawnNumbers(), absent, hasIndicator: false };
      }),
      { kind: "numbers", at: 3, values: drawnNumbers(), absent: 0, hasIndicator: true },
      ...[6, 7, 8, 9].map((at): RecordColumn => {
        return { kind: "ids", at, ...drawnIds(at < 8), hasOwn: at % 2 === 0 };
      }),
    ];
    const written = [columnWriter(), writeColumns].map((write) => {
      const width = 11;
      const words = new Int32Array(few * width);
      const isPlain = new Uint8Array(few).fill(1);
      isPlain[3] = 0;
      write({ words, width, isPlain }, few, columns);
      for (let row = 0; row < few; row++) {
        if (isPlain[row] === 0) words.fill(0, row * width, (row + 1) * width);
      }
      return { words, isPlain };
    });
    t.deepEqual(written[0], written[1]);
    const plain = written[0]?.isPlain.reduce((sum, one) => sum + one, 0) ?? 0;
    t.true(plain > few / 10 && plain < few, `${plain} of ${few} rows are plain`);
  }
});
