// Records of rows with lists, weights and groups: they have the words that the row encoder makes,
// also of transform outputs that are computed once for repeated rows.

import test from "ava";
import type { Column } from "../../../src/data/columnar/column.ts";
import { namedColumns } from "../../../src/data/columnar/named-columns.ts";
import {
  bagWriter,
  plainBagWriter,
  type RecordBags,
} from "../../../src/data/columnar/record-columns.ts";
import { createRowEncoder } from "../../../src/data/columnar/row-encoder.ts";
import { dataOptions, type ResolvedParquetOptions } from "../../../src/data/options.ts";
import { transformsFor } from "../../../src/data/transforms/compile.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { compareRecords } from "./encoded-records.ts";

const rows = 900;
const lists = ["raw", "coded", "own", "strict", "text"];
const header = ["label", "weight", "session", "number", ...lists, "single"];
const list = "plain" as const;

const options = dataOptions.parse({
  kind: "parquet",
  paths: ["drawn.parquet"],
  label: "label",
  weight: "weight",
  group: "session",
  dense: ["number"],
  transforms: [
    { op: "firstX", input: { column: "raw", list }, output: "made", x: 3 },
    { op: "sigridHash", input: "made", output: "hashed", max: 40 },
  ],
  categorical: [
    { column: "raw", list, ids: "integer" },
    { column: "coded", list },
    { column: "own", list, missing: "own" },
    { column: "strict", list, missing: "reject" },
    { column: "text", list },
    { column: "made", ids: "integer" },
    { column: "hashed", ids: "integer" },
    "single",
  ],
  batchSize: 1,
}) as ResolvedParquetOptions;
const tables = options.categorical.map(({ column }) => ({ name: column, rows: 50 }));

/** Lists that mostly repeat, with a rare unusual id, text or list. */
function drawnColumns(random: RandomStream): Map<string, Column> {
  const listed = (draw: () => number, isRare: boolean) => {
    const offsets = new Int32Array(rows + 1);
    const entries: number[] = [];
    let own: number[] = [];
    for (let row = 0; row < rows; row++) {
      if (random.below(8) === 0) {
        own = Array.from({ length: random.below(isRare ? 6 : 40) }, draw);
      }
      entries.push(...own);
      offsets[row + 1] = entries.length;
    }
    return { offsets, entries };
  };
  const ids = (below: number): Column => {
    const draw = () => (random.below(200) === 0 ? -1 : random.below(below));
    const { offsets, entries } = listed(draw, false);
    return { form: "ids", offsets, ids: BigInt64Array.from(entries, BigInt) };
  };
  const coded = (): Column => {
    const { offsets, entries } = listed(() => random.below(300), false);
    const dictionary = BigInt64Array.from({ length: 300 }, () => BigInt(random.word()));
    const codes = Int32Array.from(entries);
    return {
      form: "ids",
      offsets,
      ids: new BigInt64Array(codes.length),
      coded: { codes, dictionary },
    };
  };
  const texts = (): Column => {
    const { offsets, entries } = listed(() => random.below(4), true);
    return {
      form: "texts",
      offsets,
      codes: Int32Array.from(entries),
      dictionary: ["a", "", "b", "7"],
    };
  };
  const numbers = (draw: () => number): Column => {
    return { form: "numbers", values: Float64Array.from({ length: rows }, draw) };
  };
  const single = Int32Array.from({ length: rows + 1 }, (_, row) => row);
  const draw = () => BigInt(random.below(1000));
  return new Map<string, Column>([
    ["label", numbers(() => random.below(2))],
    ["weight", numbers(() => (random.below(30) === 0 ? -1 : random.below(8) / 4))],
    ["session", { form: "ids", offsets: single, ids: BigInt64Array.from({ length: rows }, draw) }],
    ["number", numbers(() => random.below(2000) / 8)],
    ["raw", ids(50)],
    ["coded", coded()],
    ["own", ids(1000)],
    ["strict", ids(1000)],
    ["text", texts()],
    ["single", { form: "ids", offsets: single, ids: BigInt64Array.from({ length: rows }, draw) }],
  ]);
}

test("records of lists have the words of encoded samples, and skip unusual rows", (t) => {
  const { columns } = namedColumns(options, tables, { path: "drawn.parquet", header });
  const features = tables.length;
  const targets = { labels: 1, hasSampleWeights: true, hasGroups: true };
  const shape = { dense: 1, features, wide: Array(features).fill(false), weighted: [], targets };
  const encoder = createRowEncoder(
    columns,
    [...header, "made", "hashed"],
    undefined,
    transformsFor(options),
  );
  const random = new RandomStream(17, 1);
  for (let batch = 0; batch < 4; batch++) {
    encoder.begin({ rows, firstRow: 0, columns: drawnColumns(random) });
    const { records, plain } = compareRecords(t, encoder, shape, rows);
    t.is(records.width, undefined);
    t.true(plain > rows / 8 && plain < rows, `${plain} of ${rows} rows are plain`);
  }
});

test("bags are written to the same records with the addon and without", (t) => {
  const random = new RandomStream(18, 1);
  for (let round = 0; round < 60; round++) {
    const count = random.below(200);
    const bags = Array.from({ length: random.below(7) }, (_, feature): RecordBags => {
      const own = feature % 2 === 0 ? count : 1 + random.below(20);
      const offsets = new Int32Array(own + 1);
      for (let row = 0; row < own; row++) {
        offsets[row + 1] = (offsets[row] ?? 0) + (random.below(3) === 0 ? random.below(9) : 1);
      }
      const entries = offsets[own] ?? 0;
      const drawn = (length: number) =>
        Int32Array.from({ length }, () => (random.below(40) === 0 ? -1 : random.below(2 ** 31)));
      const codes = Int32Array.from({ length: entries }, () => random.below(50));
      return {
        offsets,
        runs:
          own === count ? undefined : Int32Array.from({ length: count }, () => random.below(own)),
        entries: random.below(2) === 0 ? { rows: drawn(entries) } : { rows: drawn(50), codes },
        absent: (["own", "empty", "unusual"] as const)[random.below(3)] ?? "own",
      };
    });
    const lengthsAt = random.below(3);
    const width = lengthsAt + Math.ceil(bags.length / 2);
    const heads = { words: Int32Array.from({ length: count * width }, () => random.word()), width };
    const [one, other] = [bagWriter(), plainBagWriter].map((writer) => {
      const isPlain = Uint8Array.from({ length: count }, (_, row) => (row % 9 === 4 ? 0 : 1));
      const starts = new Int32Array(count + 1);
      const total = writer.measure({ starts, isPlain }, count, width, bags);
      const words = new Int32Array(total);
      writer.write({ words, starts, isPlain }, heads, lengthsAt, count, bags);
      return { words, starts, isPlain };
    });
    t.deepEqual(one, other);
  }
});
