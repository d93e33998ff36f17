// Question: how fast are files read on one core? Rows: Parquet into columns, compared with
// hyparquet's own reading of the same bytes; Parquet into the memory of batches without a cache,
// compared with the columns alone; and rows of each format into the cache: Parquet compared with
// the same rows as CSV, and Criteo text compared with SHA-256 of the text and of the cache, which
// every cache needs.

import { createHash } from "node:crypto";
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { parquetScan } from "hyparquet";
import { holdAt } from "../../src/data/cache/pieces.ts";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { openSamples } from "../../src/data/open-samples.ts";
import { type DataOptions, dataOptions, type TableShape } from "../../src/data/options.ts";
import { readFooter } from "../../src/data/parquet/footer.ts";
import { readParquet } from "../../src/data/parquet/read-parquet.ts";
import { columnNames, shapeOf } from "../../src/data/parquet/shapes.ts";
import { openRanges } from "../../src/data/tables/byte-ranges.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import { type BenchRow, rowOf } from "../row.ts";
import { denseNames, idNames, idsOfList, writeFiles } from "./ingest-files.ts";

interface IngestBenchOptions {
  readonly rows: number;
  readonly rounds: number;
}

const names = {
  columns: "ingest.rm1.columns",
  lists: "ingest.lists.columns",
  batches: "ingest.rm1.batches.parquet",
  parquet: "ingest.rm1.cache.parquet",
  csv: "ingest.rm1.cache.csv",
  criteo: "ingest.criteo.cache",
} as const;

export const ingestBench: Bench<IngestBenchOptions> = {
  question: "rows/s of Parquet into columns and batches, and of each format into the cache",
  options: [
    positiveOption("--rows <count>", "rows of each file", 100_000),
    positiveOption("--rounds <count>", "turns of each", 7),
  ],
  measurements(options) {
    const seconds = 6 + options.rounds * (options.rows / 100_000) * 4;
    return [together(Object.values(names), seconds, () => ingestRows(options))];
  },
};

async function ingestRows({ rows, rounds }: IngestBenchOptions): Promise<BenchRow[]> {
  using home = temporaryHome("osiris-ingest-");
  const files = await writeFiles(home.path, rows);
  const features = { label: "label", dense: denseNames, categorical: idNames };
  const cache = join(home.path, "cache");
  const common = { batchSize: 1, cache };
  const parquet = { kind: "parquet", paths: [files.rm1], ...features } as const;
  const batches = await batchReader({
    ...{ ...parquet, batchSize: 2048 },
    cache: join(home.path, "index"),
  });
  const text = readFileSync(files.criteo);
  const cacheBytes = new Uint8Array(rows * bytesOfSample);
  // hyparquet's works come after ours, as its garbage is collected in the time of the next work.
  const works = {
    columns: () => readOurs(files.rm1),
    batches,
    lists: () => readOurs(files.lists),
    parquet: () => toCache({ ...parquet, ...common }),
    csv: () => toCache({ kind: "csv", paths: [files.csv], ...features, ...common }),
    criteo: () => toCache({ kind: "criteo-tsv", paths: [files.criteo], ...common }),
    columnsOfTheirs: () => readTheirs(files.rm1),
    listsOfTheirs: () => readTheirs(files.lists),
    hashes: async () => hash(text, cacheBytes),
  };
  const rates: Record<keyof typeof works, number[]> = Object.fromEntries(
    Object.keys(works).map((name) => [name, []]),
  ) as never;
  for (let round = 0; round <= rounds; round++) {
    for (const [name, work] of Object.entries(works)) {
      const startMs = performance.now();
      await work();
      const perSecond = (1000 * rows) / (performance.now() - startMs);
      // The first round compiles the code.
      if (round > 0) rates[name as keyof typeof works].push(perSecond);
      rmSync(cache, { recursive: true, force: true });
    }
  }
  const megabytes = statSync(files.criteo).size / 1e6 / rows;
  const scaled = (own: readonly number[], by: number) => own.map((rate) => rate * by);
  return [
    rowOf(
      { name: names.columns, unit: "rows/s", limitIs: "hyparquet" },
      rates.columns,
      rates.columnsOfTheirs,
    ),
    rowOf(
      { name: names.lists, unit: "ids/s", limitIs: "hyparquet" },
      scaled(rates.lists, idsOfList),
      scaled(rates.listsOfTheirs, idsOfList),
    ),
    rowOf(
      { name: names.batches, unit: "rows/s", limitIs: "the columns alone" },
      rates.batches,
      rates.columns,
    ),
    rowOf({ name: names.parquet, unit: "rows/s", limitIs: "CSV" }, rates.parquet, rates.csv),
    rowOf({ name: names.csv, unit: "rows/s" }, rates.csv, []),
    rowOf(
      { name: names.criteo, unit: "MB/s of text", limitIs: "SHA-256 of text and cache" },
      scaled(rates.criteo, megabytes),
      scaled(rates.hashes, megabytes),
    ),
  ];
}

/** Bytes of a Criteo sample in the cache: its place, label, dense features, lengths and ids. */
const bytesOfSample = 4 * (1 + 1 + 13 + 13 + 26);

function hash(...all: readonly Uint8Array[]): void {
  for (const bytes of all) createHash("sha256").update(bytes).digest();
}

/** Reads all columns with our reader: labels and dense features as numbers, ids as ids. */
async function readOurs(path: string): Promise<void> {
  const file = await openRanges(path);
  const footer = await readFooter(file);
  const wanted = columnNames(footer.schema).flatMap((name) => {
    const shape = shapeOf(footer.schema, name);
    return shape === undefined ? [] : [{ shape, isId: name.startsWith("C") }];
  });
  for await (const _ of readParquet(file, footer, wanted));
  await file.close();
}

/** Reads all columns of every row group with hyparquet: as arrays of values, and of arrays. */
async function readTheirs(path: string): Promise<void> {
  const file = await openRanges(path);
  const buffer = {
    byteLength: file.size,
    async slice(start: number, end = file.size) {
      const bytes = await file.read(start, end);
      return bytes.buffer.slice(0, end - start) as ArrayBuffer;
    },
  };
  const scan = await parquetScan({ file: buffer });
  const { schema } = await readFooter(file);
  for (const { rowStart, rowEnd } of scan.ranges) {
    for (const column of columnNames(schema)) await scan.readColumn({ column, rowStart, rowEnd });
  }
  await file.close();
}

/** Makes an index, and returns a function that reads all samples of its files in batches. */
async function batchReader(given: DataOptions): Promise<() => Promise<void>> {
  const options = dataOptions.parse({ ...given, streamed: true });
  const { path } = await prepareCache(options, tables, realDisk);
  return async () => {
    const samples = await openSamples(path, realDisk, { options, tables });
    const { batchSize } = options;
    const indices = Float64Array.from({ length: batchSize }, (_, i) => i);
    const memory = {
      labels: new Float32Array(batchSize),
      dense: new Float32Array(batchSize * samples.dense),
      lengths: new Int32Array(batchSize * samples.features),
      ids: new Int32Array(batchSize * samples.features),
    };
    for (let first = 0; first < samples.samples; first += batchSize) {
      const count = Math.min(batchSize, samples.samples - first);
      await holdAt(samples, first, count);
      for (let i = 0; i < count; i++) indices[i] = first + i;
      samples.read(indices.subarray(0, count), memory);
    }
    samples.close();
  };
}

const tables: TableShape[] = idNames.map((name) => ({ name, rows: 10_000 }));

async function toCache(options: DataOptions): Promise<void> {
  await prepareCache(dataOptions.parse(options), tables, realDisk);
}
