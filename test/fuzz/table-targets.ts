// Fuzz targets that read files of rows: Parquet, Arrow, CSV, JSON Lines, plain and compressed.

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { openSource } from "../../packages/ingest/warehouse/open-source.ts";
import { openIndex } from "../../src/data/arrow/messages.ts";
import { readArrow } from "../../src/data/arrow/read-arrow.ts";
import * as arrowShapes from "../../src/data/arrow/shapes.ts";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { dataOptions } from "../../src/data/options.ts";
import { readFooter } from "../../src/data/parquet/footer.ts";
import { readParquet } from "../../src/data/parquet/read-parquet.ts";
import * as parquetShapes from "../../src/data/parquet/shapes.ts";
import { csv, jsonl } from "../../src/data/sources.ts";
import { CorruptFile } from "../../src/data/tables/damage.ts";
import { TrainingError } from "../../src/errors/errors.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { fixtureNames, fixtures, rangesOf } from "../data/parquet/parquet-files.ts";
import type { Target } from "./target.ts";

/** The shapes of those columns that can be read. */
function shapesIn<Shape>(names: readonly string[], shapeOf: (name: string) => Shape | undefined) {
  return names.flatMap((name) => {
    try {
      return shapeOf(name) ?? [];
    } catch (error: unknown) {
      // A refusal of the column, which a real caller reports.
      if (error instanceof TrainingError || error instanceof CorruptFile) return [];
      throw error;
    }
  });
}

const parquetSeeds = () =>
  ["where/edges", "where/int96", ...fixtureNames.map((name) => `parquet/${name}`)].map((name) =>
    readFileSync(join(fixtures, "..", `${name}.parquet`)),
  );

const parquet: Target = {
  name: "parquet",
  seeds: parquetSeeds,
  async read(bytes) {
    const file = rangesOf(bytes);
    const footer = await readFooter(file);
    const names = parquetShapes.columnNames(footer.schema);
    const shapes = shapesIn(names, (name) => parquetShapes.shapeOf(footer.schema, name));
    for (const isId of [true, false]) {
      const wanted = shapes.map((shape) => ({ shape, isId }));
      for await (const _ of readParquet(file, footer, wanted));
    }
  },
};

const arrow: Target = {
  name: "arrow",
  seeds: () => {
    const folder = "test/fixtures/arrow";
    const names = [
      "flat-coded.arrows",
      "flat-deltas.arrows",
      "flat-feather.feather",
      "flat-lz4.arrow",
    ];
    names.push("flat-plain.arrow", "flat-views.arrow", "flat-zstd.arrows", "lists-plain.arrow");
    names.push("lists-lz4.arrows");
    return names.map((name) => readFileSync(join(folder, name)));
  },
  async read(bytes) {
    const file = rangesOf(bytes, "memory.arrow");
    const index = await openIndex(file);
    const names = arrowShapes.columnNames(index.schema);
    const shapes = shapesIn(names, (name) => arrowShapes.shapeOf(index.schema, name));
    for (const isId of [true, false]) {
      const wanted = shapes.map((shape) => ({ shape, isId }));
      for await (const _ of readArrow(file, index, wanted));
    }
  },
};

/** Reads the rows of any file as `osiris warehouse` and `osiris init` do. */
async function readRows(path: string): Promise<void> {
  const source = await openSource([path]);
  for await (const _ of source.chunks()); // Reads all chunks.
}

/** Reads rows as `osiris warehouse` does to copy them. */
const copied: Target = {
  name: "parquet that is copied",
  seeds: parquetSeeds,
  async read(bytes, home) {
    const path = join(home, "input.parquet");
    writeFileSync(path, bytes);
    await readRows(path);
  },
};

/** Tables of a training job. */
const tables = [
  { name: "item", rows: 500 },
  { name: "tags", rows: 100 },
];
const features = {
  label: "label",
  dense: ["price"],
  categorical: ["item", { column: "tags", separator: "|" }],
  batchSize: 4,
  rejectedMax: 1,
};

const csvText = [
  "label,price,item,tags",
  '1,0.5,apple,"a|b"',
  "0,-3e4,pear,c",
  '1,,"a ""quoted"" one",',
  "0,12,7,a|a|d",
].join("\n");

const jsonText = [
  '{"label":1,"price":0.5,"item":"apple","tags":"a|b"}',
  '{"label":0,"price":-3e4,"item":"1234","tags":"c"}',
  '{"label":1,"item":null,"tags":""}',
].join("\n");

function textTarget(name: string, ending: string, seeds: readonly (string | Buffer)[]): Target {
  return {
    name,
    seeds: () => seeds.map((seed) => Buffer.from(seed)),
    async read(bytes, home) {
      const path = join(home, `input.${ending}`);
      writeFileSync(path, bytes);
      const cache = join(home, "cache");
      rmSync(cache, { recursive: true, force: true });
      const source = ending.startsWith("jsonl") ? jsonl : csv;
      const problems: unknown[] = [];
      for (const read of [
        () => readRows(path),
        () =>
          prepareCache(
            checkOptions(dataOptions, source([path], { ...features, cache } as never)),
            tables,
            realDisk,
          ),
      ]) {
        try {
          await read();
        } catch (error) {
          if (!(error instanceof TrainingError)) throw error;
          problems.push(error);
        }
      }
      if (problems.length > 0) throw problems[0];
    },
  };
}

export const tableTargets: readonly Target[] = [
  parquet,
  copied,
  arrow,
  textTarget("csv", "csv", [csvText, csvText.replaceAll("\n", "\r\n"), `\ufeff${csvText}\n`]),
  textTarget("csv packed with gzip", "csv.gz", [gzipSync(csvText)]),
  textTarget("json lines", "jsonl", [jsonText, `${jsonText}\n\n`]),
];
