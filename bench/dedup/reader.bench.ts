// Question: how much faster does a reader make batches of clustered sessions? From Parquet without
// a cache to batches, with transforms of each of the user's lists; for clustered rows this includes
// making IKJTs. Peer: the same rows in order of time, made into plain batches. `dedup.transforms`:
// transforms of one list only, with repeated rows shared or not.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { clusterSessions } from "../../packages/ingest/sessions/cluster-sessions.ts";
import { writeWarehouse } from "../../packages/ingest/warehouse/write-warehouse.ts";
import { holdAt } from "../../src/data/cache/pieces.ts";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { transformsOptions } from "../../src/data/column-options.ts";
import { openSamples } from "../../src/data/open-samples.ts";
import { dataOptions } from "../../src/data/options.ts";
import { IkjtMaker } from "../../src/data/sessions/ikjt.ts";
import { writeSessionLines } from "../../src/data/synthetic/generated-lines.ts";
import { sessionOptions } from "../../src/data/synthetic/session-options.ts";
import { Sessions } from "../../src/data/synthetic/sessions.ts";
import { compileTransforms } from "../../src/data/transforms/compile.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, positiveOption, single, together } from "../bench.ts";
import { type BenchRow, rowOf } from "../row.ts";

interface ReaderOptions {
  readonly rows: number;
  readonly rounds: number;
}

const users = Array.from({ length: 8 }, (_, i) => `user${i + 1}`);
const items = ["item1", "item2"];
const batchSize = 2048;
const sessionSamples = 16;
const kept = 0.95;

export const readerBench: Bench<ReaderOptions> = {
  question: "rows/s from clustered Parquet into deduplicated batches, beside unclustered rows",
  options: [
    positiveOption("--rows <count>", "rows of a generated table", 32_768),
    positiveOption("--rounds <count>", "turns of each", 15),
  ],
  measurements(options) {
    const names = ["dedup.reader.hashes", "dedup.reader.windows"];
    return [
      single("dedup.transforms", 4, () => transformsRow("dedup.transforms", "user1", options)),
      together(names, 60, () => rowsOf(names, options)),
    ];
  },
};

/** Transforms of the lists: hashes of their ids and, if `isHeavy`, also windows of two ids. */
const makings = (isHeavy: boolean) =>
  users.flatMap((name) => [
    { op: "sigridHash", input: { column: name, list: "plain" }, output: `${name}.h`, max: 100_000 },
    ...(isHeavy
      ? [
          {
            op: "nGram",
            input: { column: name, list: "plain" },
            output: `${name}.g`,
            n: 2,
            max: 100_000,
          },
        ]
      : []),
  ]);

/** Transforms of one list of clustered rows, computed once for repeated rows, or for each row. */
function transformsRow(name: string, column: string, { rows, rounds }: ReaderOptions): BenchRow {
  const session = { samples: sessionSamples, features: { [column]: { d: kept } } };
  const options = sessionOptions.parse(session);
  const sessions = new Sessions({ seed: 1, samples: rows, sessions: options, features: [column] });
  const length = 26;
  const offsets = Int32Array.from({ length: rows + 1 }, (_, row) => row * length);
  const ids = new BigInt64Array(rows * length);
  for (let row = 0; row < rows; row++) {
    const place = sessions.placeOf(row);
    const first = place.session * 1000 + sessions.changesOf(0, place);
    for (let i = 0; i < length; i++) ids[row * length + i] = BigInt(first + i);
  }
  const input = { column, list: "plain" };
  const own = [
    { op: "positiveModulus", input, output: "m", modulus: 100_000 },
    { op: "idListTransform", inputs: [input, input], output: "i" },
    { op: "enumerate", input, output: "e" },
  ];
  const transforms = checkOptions(transformsOptions, own, "transforms");
  const rates = [true, false].map((sharesRows) => {
    const compiled = compileTransforms(transforms, { sharesRows });
    const sources = compiled.sources.map(() => ({ form: "ids", offsets, ids }) as const);
    return () => {
      const startMs = performance.now();
      const { columns } = compiled.run(sources, { rows, place: 0, firstRow: 0 });
      for (const output of compiled.outputs.keys()) columns.get(output);
      return (1000 * rows) / (performance.now() - startMs);
    };
  });
  const found: [number[], number[]] = [[], []];
  for (let round = 0; round <= rounds; round++) {
    for (const [i, measure] of rates.entries()) {
      const rate = measure();
      if (round > 0) found[i]?.push(rate);
    }
  }
  return rowOf({ name, unit: "rows/s", limitIs: "rows that share nothing" }, ...found);
}

async function rowsOf(names: readonly string[], options: ReaderOptions): Promise<BenchRow[]> {
  using home = temporaryHome("osiris-bench-");
  const lines = join(home.path, "rows.jsonl");
  writeSessionLines({ samples: options.rows, fixed: sessionSamples, d: kept }, lines);
  const clustered = join(home.path, "clustered");
  await clusterSessions([lines], clustered, { codec: "zstd" });
  const unclustered = join(home.path, "unclustered");
  await writeWarehouse([lines], unclustered, { codec: "zstd" });
  const rows: BenchRow[] = [];
  for (const [i, name] of names.entries()) {
    const isHeavy = i > 0;
    const ours = await batchReader(home.path, clustered, isHeavy, true);
    const theirs = await batchReader(home.path, unclustered, isHeavy, false);
    const rates: [number[], number[]] = [[], []];
    for (let round = 0; round < options.rounds; round++) {
      for (const [at, read] of [ours, theirs].entries()) {
        const startMs = performance.now();
        await read();
        rates[at]?.push((1000 * options.rows) / (performance.now() - startMs));
      }
    }
    const row = { name, unit: "rows/s", limitIs: "unclustered, plain batches" };
    rows.push(rowOf({ ...row, target: [1.4, 1.8] }, ...rates));
  }
  return rows;
}

/** The files of a table, in order. */
const filesOf = (table: string) =>
  readdirSync(table)
    .filter((name) => name.endsWith(".parquet"))
    .sort()
    .map((name) => join(table, name));

/** Returns a function that reads all samples of a table in batches; if `isIkjt`, as IKJTs. */
async function batchReader(home: string, table: string, isHeavy: boolean, isIkjt: boolean) {
  const made = users.flatMap((name) => (isHeavy ? [`${name}.h`, `${name}.g`] : [`${name}.h`]));
  const features = [...made, ...items];
  const tables = features.map((name) => ({ name, rows: 100_000 }));
  const options = dataOptions.parse({
    ...{
      kind: "parquet",
      paths: filesOf(table),
      label: "label",
      batchSize,
      cache: home,
      streamed: true,
    },
    transforms: makings(isHeavy),
    categorical: [
      ...made.map((column) => ({ column, ids: "integer" })),
      ...items.map((column) => ({ column, ids: "integer", list: "plain" })),
    ],
  });
  const { path } = await prepareCache(options, tables, realDisk);
  return async () => {
    const samples = await openSamples(path, realDisk, { options, tables });
    const groups = isIkjt ? made.map((_, feature) => [feature]) : [];
    const maker = new IkjtMaker(groups, samples);
    const idsMax = samples.idsMax.reduce((sum, most) => sum + most, 0);
    const memory = {
      labels: new Float32Array(batchSize),
      dense: new Float32Array(0),
      ids: new Int32Array(batchSize * idsMax),
    };
    for (let first = 0; first < samples.samples; first += batchSize) {
      const count = Math.min(batchSize, samples.samples - first);
      await holdAt(samples, first, count);
      const indices = Float64Array.from({ length: count }, (_, i) => first + i);
      const batch = {
        ...memory,
        lengths: new Int32Array(count * samples.features),
        inverse: new Int32Array(count * groups.length),
      };
      samples.read(indices, batch);
      if (isIkjt) maker.make(batch, slicesOf(0, 8, 8, count).bounds);
    }
    samples.close();
  };
}
