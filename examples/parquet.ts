// From a partitioned Parquet dataset to a model, without a cache: ratings by month, columns made by
// transforms, samples made by preprocessing workers. The same job runs twice; in the second run a
// worker and a device are killed, and the model is the same.
//
//   node dist/examples/parquet.js [--data ../shared/data/session] [--workers 2] [--keep DIRECTORY]
//
// The ratings are those of MovieLens 100K (ml100k_u.*.gz in the directory of --data), or generated
// if these files are missing. MovieLens may be used for research only and is not part of this
// project; generated files are removed at the end, unless --keep names a directory.

import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";
import type { SchemaElement } from "hyparquet";
import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import { breakableLauncher, Cluster, type JobOptions, parquet } from "../index.ts";

/** A rating, with attributes of its user and its film. */
interface Rating {
  readonly user: number;
  readonly film: number;
  readonly stars: number;
  /** Seconds since 1970. */
  readonly when: number;
  readonly age: number;
  readonly occupation: string;
  readonly genres: readonly number[];
}

const { values: flags } = parseArgs({
  options: {
    data: { type: "string", default: "../shared/data/session" },
    workers: { type: "string", default: "2" },
    keep: { type: "string" },
  },
});

const home = flags.keep ?? mkdtempSync(join(tmpdir(), "osiris-parquet-"));
try {
  const isReal = existsSync(join(flags.data, "ml100k_u.data.gz"));
  const ratings = isReal ? ratingsOfFiles(flags.data) : generatedRatings();
  const months = writeMonths(join(home, "ratings"), ratings);
  const what = isReal ? "of MovieLens" : "generated";
  console.log(`${ratings.length} ratings ${what}, in partitions ${months.join(", ")}`);
  await trainTwice(join(home, "ratings"), months);
} finally {
  if (flags.keep === undefined) rmSync(home, { recursive: true, force: true });
}

/**
 * Trains twice on all months but the last, which is for evaluation: once undisturbed, once with a
 * killed worker and a killed device.
 */
async function trainTwice(path: string, months: readonly string[]): Promise<void> {
  const threads = breakableLauncher();
  await using cluster = await Cluster.start({ devices: 2, launcher: threads.launcher });
  if (cluster.notice !== undefined) console.log(cluster.notice);
  const digests: string[] = [];
  for (const name of ["calm", "broken"]) {
    const run = await cluster.submit(jobOn(path, months.at(-1) ?? "", name));
    for await (const event of run.events()) {
      if (name === "calm" || event.type !== "run.checkpointed") continue;
      if (event.step === 50) console.log(`killed a worker: ${threads.kill("worker:0")}`);
      if (event.step === 100) console.log(`killed a device: ${threads.kill("device:1")}`);
    }
    const { auc = Number.NaN, digest } = await run.result();
    console.log(`${name}: AUC of ${months.at(-1)} ${auc.toFixed(4)}, ${digest}`);
    digests.push(digest);
  }
  console.log(digests[0] === digests[1] ? "The same model, byte for byte." : "The models differ!");
  if (digests[0] !== digests[1]) process.exitCode = 1;
}

function jobOn(path: string, lastMonth: string, name: string): JobOptions {
  const rows = { userId: 1000, filmId: 2000, ageLevel: 8, hour: 24, occupationId: 64, taste: 4000 };
  const made = ["ageLevel", "hour", "occupationId", "taste"];
  return {
    name,
    model: {
      kind: "dlrm",
      table: { dim: 16, initScale: 0.05 },
      tables: [
        ...Object.entries(rows).map(([table, count]) => ({ name: table, rows: count })),
        { name: "genres", rows: 20 },
      ],
      bottom: [16],
      top: [64, 1],
    },
    data: parquet(path, {
      label: "liked",
      batchSize: 256,
      passes: 3,
      cache: "none", // No cache, only an index: samples are read from the files every time.
      where: [{ column: "month", until: lastMonth }],
      transforms: [
        { op: "bucketize", input: "age", output: "ageLevel", borders: [18, 25, 32, 40, 48, 56] },
        { op: "getLocalHour", input: "when", output: "hour", offsetSeconds: -6 * 3600 },
        { op: "hashText", input: "occupation", output: "occupationHash" },
        { op: "sigridHash", input: "occupationHash", output: "occupationId", max: 64 },
        {
          op: "cartesian",
          inputs: ["ageLevel", { column: "genres", list: "plain" }],
          output: "taste",
          max: 4000,
        },
        { op: "scale", input: "age", output: "ageScaled", minus: 35, over: 12 },
      ],
      dense: ["ageScaled"],
      categorical: [
        { column: "user", table: "userId", ids: "integer" },
        { column: "film", table: "filmId", ids: "integer" },
        ...made.map((column) => ({ column, ids: "integer" as const })),
        { column: "genres", list: "plain", ids: "integer" },
      ],
    }),
    evaluation: {
      everySteps: 200,
      data: { paths: [path], where: [{ column: "month", from: lastMonth }] },
    },
    optimizer: { sparse: { kind: "rowWiseAdagrad", learningRate: 0.05 } },
    checkpoint: { everySteps: 50, directory: join(home, name) },
    preprocessing: { workersMin: Number(flags.workers), workersMax: Number(flags.workers) },
  };
}

/** Writes `month=1997-09/part-0.parquet` and so on. Returns the months, in order. */
function writeMonths(path: string, ratings: readonly Rating[]): string[] {
  const byMonth = new Map<string, Rating[]>();
  for (const rating of [...ratings].sort((a, b) => a.when - b.when)) {
    const month = new Date(1000 * rating.when).toISOString().slice(0, 7);
    const own = byMonth.get(month) ?? [];
    own.push(rating);
    byMonth.set(month, own);
  }
  for (const [month, own] of byMonth) {
    mkdirSync(join(path, `month=${month}`), { recursive: true });
    writeFileSync(join(path, `month=${month}`, "part-0.parquet"), parquetOf(own));
  }
  return [...byMonth.keys()];
}

/** A Parquet file with row groups of 4,000 ratings, of which a reader holds a few. */
function parquetOf(ratings: readonly Rating[]): Uint8Array {
  const integers = ["liked", "user", "film", "when", "age"] as const;
  const numberOf = (name: (typeof integers)[number], rating: Rating) =>
    name === "liked" ? Number(rating.stars >= 4) : rating[name];
  const optional = { repetition_type: "OPTIONAL" } as const;
  const schema: SchemaElement[] = [
    { name: "root", num_children: integers.length + 2 },
    ...integers.map((name) => ({ name, type: "INT32" as const, ...optional })),
    { name: "occupation", type: "BYTE_ARRAY", converted_type: "UTF8", ...optional },
    { name: "genres", ...optional, num_children: 1, converted_type: "LIST" },
    { name: "list", repetition_type: "REPEATED", num_children: 1 },
    { name: "element", type: "INT32", ...optional },
  ];
  const columnData = [
    ...integers.map((name) => ({ name, data: ratings.map((one) => numberOf(name, one)) })),
    { name: "occupation", data: ratings.map(({ occupation }) => occupation) },
    { name: "genres", data: ratings.map(({ genres }) => [...genres]) },
  ];
  const bytes = new ByteWriter();
  const writer = new ParquetWriter({ writer: bytes, schema, codec: "SNAPPY" });
  void writer.write({ rowGroupSize: 4000, columnData });
  void writer.finish();
  return new Uint8Array(bytes.getBytes());
}

function ratingsOfFiles(directory: string): Rating[] {
  const lines = (name: string) =>
    gunzipSync(readFileSync(join(directory, `ml100k_u.${name}.gz`)))
      .toString("latin1")
      .trimEnd()
      .split("\n");
  const users = new Map(lines("user").map((line) => [line.split("|")[0], line.split("|")]));
  const films = new Map(lines("item").map((line) => [line.split("|")[0], line.split("|")]));
  return lines("data").map((line) => {
    const [user = "", film = "", stars, when] = line.split("\t");
    const [, age, , occupation = ""] = users.get(user) ?? [];
    const flags = (films.get(film) ?? []).slice(5);
    const genres = flags.flatMap((flag, genre) => (flag.trim() === "1" ? [genre] : []));
    const known = { age: Number(age), occupation, genres };
    return { user: +user, film: +film, stars: Number(stars), when: Number(when), ...known };
  });
}

/**
 * Generates ratings of the same form: users under 40 prefer one half of the genres, the others the
 * other half.
 */
function generatedRatings(count = 12_000): Rating[] {
  let state = 1;
  const below = (limit: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
  return Array.from({ length: count }, (_, i) => {
    const [user, film] = [1 + below(900), 1 + below(1600)];
    const [age, genre] = [18 + (user % 50), film % 19];
    const stars = 1 + below(3) + (age < 40 === genre < 9 ? 2 : 0);
    const when = 874_724_710 + Math.floor((i / count) * 18_561_928);
    return { user, film, stars, when, age, occupation: `job${user % 21}`, genres: [genre] };
  });
}
