// Question: how long does a trainer wait for input that needs transforms, with readers that make
// the samples on their own threads, and with 1, 2 and more preprocessing workers? Limit: the same
// job with its samples in a cache in memory. How much does a run lose whose workers are killed
// every two seconds, compared with the same run undisturbed? All runs must have the same digest,
// and `--only stall.workers.2 --epochs 60` kills for a minute. Besides samples/s, on Linux:
// processor time of a sample, in the whole process and in the broker's thread. And the path of
// splits from a worker to a reader alone: processor time of a megabyte, in frames and in shared
// memory.
//
// The rows have the shape of PreSto's RM5 (ISCA 2024, Table I) at an eighth: 63 dense columns, 5
// lists of 20 ids, 5 columns of 4096 buckets. The model has the layers and the dim of configuration
// b. One device.

import { strict as assert } from "node:assert";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import {
  breakableLauncher,
  Cluster,
  type JobOptions,
  parquet,
  type StepTimes,
} from "../../internal.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { startBrokerThread } from "../../src/wire/broker/broker-thread.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import { type BenchRow, rowOf } from "../row.ts";
import { type WrittenColumn, writeParquet } from "./ingest-files.ts";
import { passSplits } from "./split-ways.ts";

interface StallBenchOptions {
  readonly rows: number;
  readonly epochs: number;
  readonly rounds: number;
}

const dense = Array.from({ length: 63 }, (_, i) => `d${i}`);
const lists = Array.from({ length: 5 }, (_, i) => `l${i}`);
const generated = Array.from({ length: 5 }, (_, i) => `g${i}`);
const idsOfList = 20;
const killEveryMs = 2000;
/** A multiple of the samples of a block, so that no block reaches into the next row group. */
const groupRows = 2560;

/** The ways to make the samples, with their options. */
const makers = {
  cache: { data: {}, rest: {} },
  readers: { data: { streamed: true }, rest: {} },
  "workers.1": { data: { streamed: true }, rest: workersOf(1) },
  "workers.2": { data: { streamed: true }, rest: workersOf(2) },
  "workers.4": { data: { streamed: true }, rest: workersOf(4) },
  "workers.2.killed": { data: { streamed: true }, rest: workersOf(2) },
} as const;

type Maker = keyof typeof makers;
const killed = "workers.2.killed" satisfies Maker;

function workersOf(count: number) {
  return { preprocessing: { workersMin: count, workersMax: count } };
}

export const stallBench: Bench<StallBenchOptions> = {
  question: "samples/s and waits of a trainer whose input needs transforms, by maker of samples",
  options: [
    positiveOption("--rows <count>", "rows of the file", 20_000),
    positiveOption("--epochs <count>", "epochs of a run", 4),
    positiveOption("--rounds <count>", "turns of each", 3),
  ],
  measurements(options) {
    const makersOf = Object.keys(makers);
    const names = makersOf.flatMap((maker) => [
      `stall.${maker}`,
      `stall.${maker}.processor`,
      `stall.${maker}.broker`,
      ...(maker === killed ? [`stall.${maker}.kills`] : []),
    ]);
    const each = 2 + (options.rows * options.epochs) / 8000;
    const seconds = 5 + options.rounds * makersOf.length * each;
    return [
      { names, seconds, measure: (isWanted) => stallRows(options, isWanted) },
      together(["stall.frames", "stall.shelves"], 5 * options.rounds, () => wayRows(options)),
    ];
  },
};

async function* stallRows(
  { rows, epochs, rounds }: StallBenchOptions,
  isWanted: (name: string) => boolean,
) {
  const wanted = (Object.keys(makers) as Maker[]).filter((maker) =>
    ["", ".processor", ".broker", ".kills"].some((what) => isWanted(`stall.${maker}${what}`)),
  );
  using home = temporaryHome("osiris-stall-");
  writeRows(join(home.path, "rm5.parquet"), rows);
  const found = Object.fromEntries(Object.keys(makers).map((maker) => [maker, []])) as never as {
    [Name in Maker]: Awaited<ReturnType<typeof run>>[];
  };
  for (let round = 0; round < rounds; round++) {
    for (const maker of wanted) {
      found[maker].push(await run(maker, home.path, { rows, epochs }));
    }
  }
  const digests = new Set(Object.values(found).flatMap((all) => all.map(({ digest }) => digest)));
  assert.equal(digests.size, 1, "the maker of the samples changes no bit of the model");
  for (const maker of wanted) {
    const [peer, limitIs] =
      maker === killed
        ? (["workers.2", "the same, undisturbed"] as const)
        : (["cache", "the same from a cache in memory"] as const);
    const row = (what: string, unit: string, of: (run: Found) => number) => {
      const limits = maker === peer ? [] : found[peer].map(of);
      const named = { name: `stall.${maker}${what}`, unit, limitIs };
      return rowOf(named, found[maker].map(of), limits);
    };
    const times = found[maker].at(-1)?.times;
    yield { ...row("", "samples/s", ({ perSecond }) => perSecond), times } satisfies BenchRow;
    if (maker === killed) yield row(".kills", "kills", ({ kills }) => kills);
    yield row(".processor", "us/sample", ({ processorUs }) => processorUs);
    if (found[maker].some(({ brokerUs }) => brokerUs === undefined)) continue;
    yield row(".broker", "us/sample", ({ brokerUs = 0 }) => brokerUs);
  }
}

/** Megabytes that a round passes in each of the two ways. */
const wayMegabytes = 1000;

/** Rows of the cost of passing splits from thread to thread. */
async function wayRows({ rounds }: StallBenchOptions): Promise<BenchRow[]> {
  const [frames, shelves]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    frames.push(await passSplits("frames", wayMegabytes));
    shelves.push(await passSplits("shelves", wayMegabytes));
  }
  const row = (name: string) => ({ name: `stall.${name}`, unit: "us/MB" });
  const limitIs = "frames by the embedded broker";
  return [rowOf(row("frames"), frames, []), rowOf({ ...row("shelves"), limitIs }, shelves, frames)];
}

interface Found {
  readonly digest: string;
  readonly times: StepTimes;
  readonly perSecond: number;
  /** Processor time of a sample from the first step on: of all threads, and of the broker's. */
  readonly processorUs: number;
  readonly brokerUs: number | undefined;
  readonly kills: number;
}

/** Trains a run to its end. */
async function run(
  maker: Maker,
  home: string,
  { rows, epochs }: Pick<StallBenchOptions, "rows" | "epochs">,
): Promise<Found> {
  const threads = breakableLauncher();
  const before = threadsOfProcess();
  const token = "bench";
  await using broker = await startBrokerThread({ auth: { token } });
  const brokerThreads = threadsOfProcess().filter((thread) => !before.includes(thread));
  const at = { nats: broker.url, token };
  await using cluster = await Cluster.start({ devices: 1, launcher: threads.launcher, ...at });
  const directory = join(home, "run");
  const submitted = await cluster.submit(jobOn(maker, home, directory, epochs));
  let [isTraining, kills] = [false, 0];
  const killing = setInterval(() => {
    if (maker === killed && isTraining) threads.kill(`worker:${kills++ % 2}`);
  }, killEveryMs);
  try {
    const spentUs = () => {
      const { user, system } = process.cpuUsage();
      return { all: user + system, broker: spentUsOf(brokerThreads) };
    };
    let from = spentUs();
    for await (const { type } of submitted.events()) {
      if (type !== "run.started") continue;
      isTraining = true;
      from = spentUs();
    }
    const to = spentUs();
    const { digest, times } = await submitted.result();
    assert(times !== undefined, "times of the steps");
    // The disk's time for the last checkpoint has nothing to do with the input.
    const stepMs = times.stepMs * (1 - times.shares.checkpoint);
    const samples = rows * epochs;
    const brokerUs = to.broker === undefined ? undefined : to.broker - (from.broker ?? 0);
    return {
      ...{ digest, times, kills, perSecond: (1000 * batchSize) / stepMs },
      processorUs: (to.all - from.all) / samples,
      brokerUs: brokerUs === undefined ? undefined : brokerUs / samples,
    };
  } finally {
    clearInterval(killing);
    rmSync(directory, { recursive: true, force: true });
  }
}

const tasks = "/proc/self/task";

/** The threads of this process on Linux; none elsewhere. */
function threadsOfProcess(): readonly string[] {
  return process.platform === "linux" ? readdirSync(tasks) : [];
}

/** The processor time of the threads so far; undefined where it is unknown. */
function spentUsOf(threads: readonly string[]): number | undefined {
  if (threads.length === 0) return undefined;
  const nsOf = (thread: string) =>
    Number(readFileSync(join(tasks, thread, "schedstat"), "utf8").split(" ")[0]);
  return threads.reduce((sum, thread) => sum + nsOf(thread) / 1000, 0);
}

const batchSize = 1024;

function jobOn(maker: Maker, home: string, directory: string, epochs: number): JobOptions {
  const { data, rest } = makers[maker];
  const rows = 200_000;
  const borders = Array.from({ length: 4095 }, (_, i) => i / 4);
  const transforms = [
    ...dense.map((input) => ({ op: "log" as const, input, output: `${input}.log`, plus: 1 })),
    ...lists.map((column, salt) => {
      const input = { column, list: "plain" as const };
      return { op: "sigridHash" as const, input, output: `${column}.hash`, salt, max: rows };
    }),
    ...generated.map((output, i) => {
      return { op: "bucketize" as const, input: dense[i] ?? "", output, borders };
    }),
  ];
  const tables = [
    ...lists.map((name) => ({ name: `${name}.hash`, rows, dim: 64 })),
    ...generated.map((name) => ({ name, rows: 4096, dim: 64 })),
  ];
  return {
    model: { kind: "dlrm", tables, bottom: [512, 256, 64], top: [512, 512, 256, 1] },
    data: parquet(join(home, "rm5.parquet"), {
      ...{ label: "label", batchSize, passes: epochs, order: "split", cache: join(home, "cache") },
      transforms,
      dense: dense.map((name) => `${name}.log`),
      categorical: tables.map(({ name }) => ({ column: name, ids: "integer" as const })),
      ...data,
    }),
    checkpoint: { everySteps: 1_000_000, directory },
    ...rest,
  };
}

function writeRows(path: string, rows: number): void {
  const random = new RandomStream(5, 1);
  const column = (make: () => unknown) => Array.from({ length: rows }, make);
  const list = () => Array.from({ length: idsOfList }, () => random.below(1_000_000));
  const columns: WrittenColumn[] = [
    { name: "label", type: "INT32", data: column(() => random.below(2)) },
    ...dense.map((name) => {
      return { name, type: "FLOAT" as const, data: column(() => random.below(1000)) };
    }),
    ...lists.map((name) => ({ name, type: "INT32" as const, data: column(list), isList: true })),
  ];
  writeParquet(path, columns, groupRows);
}
