// MovieLens-100K as a RecD workload: every rating is a sample with the user's profile and the films
// that the user liked before, so that the samples of a visit share both lists. The log is clustered
// by visit and trained three times per seed: shuffled, in session order, and in session order with
// deduplicated lists, which gives the second model up to float rounding.
//
//   node dist/examples/sessions/recd.js [--data ../shared/data/session] [--seeds 3] [--epochs 4]
//     [--devices 2]
//
// The last part of the log, by time, is the test part. packages/ingest/docs/recd.md shows its
// output. The data are not part of this project; files made from them are removed at the end.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";
import { adam, Cluster, clusterSessions, type JobOptions, parquet } from "../../index.ts";

const { values: flags } = parseArgs({
  options: {
    data: { type: "string", default: "../shared/data/session" },
    seeds: { type: "string", default: "3" },
    epochs: { type: "string", default: "4" },
    devices: { type: "string", default: "2" },
  },
});

/** Gap between ratings that separates two visits. */
const visitSeconds = 30 * 60;
/** Most liked films in a sample, the newest. */
const likedMax = 32;
/** Share of the log, at its end, that is the test part. */
const testShare = 0.1;

/** A sample: a line of the written log. */
interface Sample {
  readonly visit: number;
  readonly seconds: number;
  readonly label: number;
  readonly item: number;
  readonly profile: readonly number[];
  readonly liked: readonly number[];
}

const variants = {
  shuffled: { order: "global" },
  sessions: { order: "sessions" },
  deduplicated: { order: "sessions", ikjt: "auto" },
} as const;

type Variant = keyof typeof variants;

if (existsSync(join(flags.data, "ml100k_u.data.gz"))) {
  await compare();
} else {
  console.error(`There is no MovieLens-100K in ${flags.data}; name its directory with --data`);
  process.exitCode = 2;
}

async function compare(): Promise<void> {
  const home = mkdtempSync(join(tmpdir(), "osiris-recd-"));
  try {
    const samples = samplesOf();
    const cut = Math.floor((1 - testShare) * samples.length);
    for (const [name, part] of [
      ["train", samples.slice(0, cut)],
      ["test", samples.slice(cut)],
    ] as const) {
      const lines = part.map((sample) => JSON.stringify(sample));
      writeFileSync(join(home, `${name}.jsonl`), `${lines.join("\n")}\n`);
    }
    const options = { by: "visit", order: "seconds", compare: true };
    const report = await clusterSessions([join(home, "train.jsonl")], join(home, "train"), options);
    const { rows, sessions, bytes, bytesShuffled = bytes } = report;
    const smaller = (bytesShuffled / bytes).toFixed(2);
    const each = (rows / sessions).toFixed(1);
    console.log(
      `${rows} samples, ${each} a visit; clustered ${smaller} times smaller than shuffled`,
    );
    await clusterSessions([join(home, "test.jsonl")], join(home, "test"), options);
    await using cluster = await Cluster.start({ devices: Number(flags.devices) });
    if (cluster.notice !== undefined) console.log(cluster.notice);
    console.log("variant       seed  test AUC    log loss    samples/s  digest");
    for (let seed = 1; seed <= Number(flags.seeds); seed++) {
      for (const variant of Object.keys(variants) as Variant[]) {
        console.log(await train(cluster, variant, seed, home));
      }
    }
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

/** Trains one variant. Returns the line of its result. */
async function train(
  cluster: Cluster,
  variant: Variant,
  seed: number,
  home: string,
): Promise<string> {
  const run = await cluster.submit(jobOf(variant, seed, home));
  for await (const event of run.events()) {
    if (event.type !== "run.prepared" || seed > 1) continue;
    for (const { features, factor, predicted } of event.ikjt ?? []) {
      const times = `${factor.toFixed(2)} lists for each distinct one, ${predicted.toFixed(2)}`;
      console.log(`  ${features.join(", ")}: ${times} by the formula`);
    }
  }
  const { auc = 0, logLoss = 0, samplesPerSecond = 0, digest } = await run.result();
  const cells = [
    variant.padEnd(12),
    String(seed).padStart(5),
    auc.toFixed(7).padStart(11),
    logLoss.toFixed(7).padStart(11),
    Math.round(samplesPerSecond).toLocaleString("en-US").padStart(10),
  ];
  return `${cells.join(" ")}  ${digest.slice(0, 15)}`;
}

function jobOf(variant: Variant, seed: number, home: string): JobOptions {
  const tables = { films: 1700, people: 300 };
  const section = (name: string) =>
    parquet(join(home, name), {
      label: "label",
      group: "visit",
      categorical: [
        { column: "item", ids: "integer" },
        { column: "profile", ids: "integer", list: "plain" },
        { column: "liked", ids: "integer", list: "plain" },
      ],
      batchSize: 512,
      epochs: Number(flags.epochs),
      cache: join(home, "cache"),
      ...variants[variant],
    });
  return {
    name: `recd-${variant}`,
    seed,
    model: {
      kind: "dlrm",
      dim: 16,
      tables: Object.entries(tables).map(([name, rows]) => ({ name, rows, dim: 16 })),
      features: [
        { column: "item", table: "films" },
        { column: "profile", table: "people" },
        {
          ...{
            column: "liked",
            table: "films",
            pooling: "none",
            maxLength: likedMax,
            kept: "last",
          },
          encoder: { kind: "attention" },
        },
      ],
      interaction: "dot+cat",
      top: [64, 32, 1],
    },
    data: section("train"),
    evaluation: { everySteps: 0, data: section("test") },
    optimizer: { dense: adam({ learningRate: 0.001 }), sparse: adam({ learningRate: 0.001 }) },
    checkpoint: { directory: join(home, `${variant}-${seed}`) },
  };
}

/** All ratings in order of time, with the films that their users liked before. */
function samplesOf(): Sample[] {
  const work = new Map<string, number>();
  const profiles = new Map(
    linesOf("ml100k_u.user.gz", "|").map(
      ([user = "", age = "", gender = "", job = "", zip = ""]) => {
        if (!work.has(job)) work.set(job, work.size);
        const region = /^\d/.test(zip) ? Number(zip[0]) : 10;
        const own = [Number(age), gender === "M" ? 101 : 102, 110 + (work.get(job) ?? 0)];
        return [user, [...own, 200 + region]] as const;
      },
    ),
  );
  const ratings = linesOf("ml100k_u.data.gz", "\t").sort(
    ([, , , a], [, , , b]) => Number(a) - Number(b),
  );
  const users = new Map<string, { seconds: number; visit: number; liked: readonly number[] }>();
  let visits = 0;
  return ratings.map(([user = "", film = "", rating = "", time = ""]): Sample => {
    const [item, seconds] = [Number(film), Number(time)];
    const before = users.get(user);
    const isNew = before === undefined || seconds - before.seconds > visitSeconds;
    const visit = isNew ? visits++ : before.visit;
    const liked = before?.liked ?? [];
    const label = Number(rating) >= 4 ? 1 : 0;
    users.set(user, {
      seconds,
      visit,
      liked: label === 1 ? [...liked, item].slice(-likedMax) : liked,
    });
    return { visit, seconds, label, item, profile: profiles.get(user) ?? [], liked };
  });
}

function linesOf(file: string, separator: string): string[][] {
  const text = gunzipSync(readFileSync(join(flags.data, file))).toString("latin1");
  return text
    .trimEnd()
    .split("\n")
    .map((line) => line.split(separator));
}
