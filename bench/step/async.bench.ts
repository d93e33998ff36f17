// Questions: what does asynchronous training cost in log loss on real data, at equal samples; and
// how many more samples a second does synchronous training take on the same cores, alone and over
// a link of 25 Gb/s?
//
// Quality: Frappe. The reference is synchronous training of the same small batches one after the
// other. `sync8` has synchronous batches eight times as large, and rates times the square root of
// 8. Trainers exchange frames in virtual time, so that the interleaving of a seed can be repeated.
// The trainers of `hogwild` have two threads each, whose steps take turns on the same weights.
//
// Speed: the processor time of a sample, over the memory transport for asynchronous training, and
// the time in which the link transmits its bytes. Nothing overlaps, so other load does not matter.
// `threads` are real threads over the embedded broker beside devices on threads: the whole clock.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { Option } from "commander";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { RandomStream } from "../../src/ports/random.ts";
import type { Metrics } from "../../src/training/loop/metrics.ts";
import { trainStep } from "../../src/training/step/step.ts";
import { topologyOf } from "../../src/training/topology/topology.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import { type ConfigurationName, configuration } from "../configurations.ts";
import { type BenchRow, meanOf, quantiles } from "../row.ts";
import { rangeOf } from "./accuracy.bench.ts";
import { type AsyncRun, startAsyncRun } from "./async-run.ts";
import { startAsyncThreads } from "./async-threads.ts";
import { benchWork, runDevices } from "./device-threads.ts";
import { batchOf, frappeModel, readFrappe, type Samples, scoreOf, shuffle } from "./frappe.ts";
import { optimizerOf } from "./optimizers.ts";
import { type Link, wayMs } from "./slow-link.ts";
import { startSoloDevice } from "./solo-device.ts";
import { bytesOfStep } from "./top-k.bench.ts";
import { makeBatch } from "./train-work.ts";

interface AsyncBenchOptions {
  readonly data: string;
  readonly seeds: number;
  readonly epochs: number;
  readonly rounds: number;
  readonly seconds: number;
}

/** Samples of a trainer's batch, as systems before Neo had them. */
const batchSize = 150;
const reference = "sync";
/** Number of trainers, threads of each; 0 trainers: synchronous, batches `times` as large. */
const contenders = {
  [reference]: { trainers: 0, threads: 1, times: 1 },
  sync8: { trainers: 0, threads: 1, times: 8 },
  async2: { trainers: 2, threads: 1, times: 1 },
  async4: { trainers: 4, threads: 1, times: 1 },
  async8: { trainers: 8, threads: 1, times: 1 },
  hogwild: { trainers: 4, threads: 2, times: 1 },
} as const;
type Contender = (typeof contenders)[keyof typeof contenders];
const figures = ["logLoss", "auc"] as const;
const configs = ["a", "b", "c"] as const;

export const asyncBench: Bench<AsyncBenchOptions> = {
  question:
    "what parameter servers cost in log loss, and how fast they are beside synchronous steps",
  options: [
    new Option("--data <folder>", "Frappe's train.csv.gz and test.csv.gz").default(
      "../shared/data/frappe",
    ),
    positiveOption("--seeds <count>", "models of each kind", 5),
    positiveOption("--epochs <count>", "passes over the samples", 1),
    positiveOption("--rounds <count>", "rounds of each speed, in turn", 3),
    positiveOption("--seconds <seconds>", "how long each measures", 3),
  ],
  measurements(options) {
    const { data, seeds, epochs, rounds, seconds } = options;
    const names = Object.keys(contenders).flatMap((name) =>
      figures.flatMap((figure) => [`async.${name}.${figure}`, `async.${name}.${figure}.error`]),
    );
    const quality = together(names, 30 * seeds * epochs, () => qualityRows(options));
    const speeds = configs.map((config) => {
      const own = [`async.speed.${config}`, `async.speed.${config}.25Gb`];
      return together(own, 3 * rounds * seconds, () => speedRows(config, options));
    });
    const threads = together(["async.threads.sync", "async.threads.async"], 60, () =>
      threadRows(options),
    );
    return existsSync(join(data, "train.csv.gz"))
      ? [quality, ...speeds, threads]
      : [...speeds, threads];
  },
};

// Quality ----

async function qualityRows({ data, seeds, epochs }: AsyncBenchOptions): Promise<BenchRow[]> {
  const samples = readFrappe(data);
  const runs: Metrics[][] = [];
  for (let seed = 1; seed <= seeds; seed++) {
    const own: Metrics[] = [];
    for (const one of Object.values(contenders))
      own.push(await trainOne(samples, one, seed, epochs));
    runs.push(own);
  }
  return Object.keys(contenders).flatMap((name, i) =>
    figures.flatMap((figure): BenchRow[] => {
      const own = runs.map((run) => run[i]?.[figure] ?? Number.NaN);
      const first = runs.map((run) => run[0]?.[figure] ?? Number.NaN);
      const gaps = own.map((value, run) => value - (first[run] ?? Number.NaN));
      const shown = i === 0 ? own : gaps;
      const [mean, scale] = [meanOf(shown), i === 0 ? 1 : 1e4];
      const variance = meanOf(shown.map((value) => (value - mean) ** 2));
      const error = scale * Math.sqrt(variance / Math.max(1, shown.length - 1));
      const [least, most] = rangeOf(shown);
      const what = figure === "auc" ? "AUC" : "log loss";
      const unit = i === 0 ? what : `1e-4 more ${what}`;
      const row = `async.${name}.${figure}`;
      return [
        { name: row, figure: scale * mean, unit, spread: [scale * least, scale * most] },
        { name: `${row}.error`, figure: error, unit: "standard error", spread: [error, error] },
      ];
    }),
  );
}

async function trainOne(samples: Samples, of: Contender, seed: number, epochs: number) {
  const { rows, train, test } = samples;
  const size = batchSize * of.times;
  const stepsPerEpoch = Math.floor(train.labels.length / (8 * batchSize)) * (8 / of.times);
  const orders = Array.from({ length: epochs }, (_, epoch) => {
    const order = Int32Array.from(train.labels.keys());
    shuffle(order, new RandomStream(seed, 900 + epoch));
    return order;
  });
  const batchAt = (step: number) => {
    const first = (step % stepsPerEpoch) * size;
    const order = orders[Math.floor(step / stepsPerEpoch)] ?? new Int32Array(0);
    return batchOf(train, order.subarray(first, first + size));
  };
  const model = frappeModel(rows, [128, 64, 1]);
  const input = { model, batchSize: size, slices: 1, idsMax: rows.map(() => 1) };
  const rate = Math.sqrt(of.times);
  const optimizer = optimizerOf(
    { kind: "adam", learningRate: 1e-3 * rate },
    { kind: "rowWiseAdagrad", learningRate: 0.05 * rate },
  );
  const recipe = { optimizer, seed };
  const steps = epochs * stepsPerEpoch;
  if (of.trainers === 0) {
    const device = startSoloDevice(input, recipe);
    for (let step = 0; step < steps; step++) await trainStep(device, batchAt(step), step, -1);
    return scoreOf(device, test, size);
  }
  const spec = { everySteps: 10, elasticity: 0.5 / of.trainers, prefetch: 2, pushesMax: 4 };
  const faults = { delayMs: [0.5, 1.5] as const };
  const run = startAsyncRun({ input, recipe, spec, servers: 2, batchAt, faults, seed, ...of });
  await run.run({ fromStep: 0, toStep: steps, plateau: 1 });
  return scoreCenter(run, samples);
}

/** The metrics of the model that a checkpoint would have: the center, and the rows of servers. */
async function scoreCenter({ threads, dense, drive }: AsyncRun, { test }: Samples) {
  const [first] = threads;
  if (first === undefined) throw new RangeError("There is no trainer");
  const { kernels, network } = first.device;
  kernels.write(network.flat, dense.center.weights);
  return drive(scoreOf(first.device, test, batchSize));
}

// Speed ----

const link: Link = { bitsPerSecond: 25e9 };
const rowsMax = 50_000;

/** The time of a sample beside that of a synchronous one, alone and with the link. */
async function speedRows(
  config: ConfigurationName,
  { rounds, seconds }: AsyncBenchOptions,
): Promise<BenchRow[]> {
  const { model: whole, lookups } = configuration(config);
  const tables = whole.tables.map((table) => ({ ...table, rows: Math.min(table.rows, rowsMax) }));
  const model = { ...whole, tables };
  const input = { model, batchSize, slices: 1, idsMax: tables.map(() => lookups) };
  const alone: number[] = [];
  const linked: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const base = benchWork({ config, batch: 2048, devices: 2, seconds });
    const work = { ...base, input: { ...base.input, model } };
    const [report] = await runDevices(work);
    const perDevice = work.input.batchSize / work.devices;
    const exact = quantiles(report?.busyMs ?? []).median / perDevice;
    const exactLink = wayMs(link, bytesOfStep(work.input)) / perDevice;
    const { ms, bytes } = await asyncCosts(input, seconds);
    alone.push(ms / exact);
    linked.push((ms + wayMs(link, bytes)) / (exact + exactLink));
  }
  const unit = "x the time of a synchronous sample";
  return [alone, linked].map((ratios, i) => {
    const { median: figure, spread } = quantiles(ratios);
    return { name: `async.speed.${config}${i === 0 ? "" : ".25Gb"}`, figure, unit, spread };
  });
}

/** Processor time of a sample, and the bytes that the trainers send, or receive if that is more. */
async function asyncCosts(input: Parameters<typeof startSoloDevice>[0], seconds: number) {
  const optimizer = optimizerOf(
    { kind: "sgd", learningRate: 0.01 },
    { kind: "sgd", learningRate: 0.01 },
  );
  const topology = topologyOf(input, 1);
  const batches = Array.from({ length: 16 }, (_, i) => makeBatch(topology, 0, i, 0));
  const spec = { everySteps: 10, elasticity: 0.25, prefetch: 2, pushesMax: 4 };
  const run = startAsyncRun({
    ...{ input, recipe: { optimizer, seed: 1 }, spec, trainers: 2, servers: 1 },
    batchAt: (step) => batches[step % batches.length] as (typeof batches)[number],
  });
  let step = 20;
  await run.run({ fromStep: 0, toStep: step, plateau: 1 });
  const before = { ...run.traffic };
  const from = process.cpuUsage();
  const untilMs = performance.now() + 1000 * seconds;
  const first = step;
  while (performance.now() < untilMs) {
    await run.run({ fromStep: step, toStep: step + 10, plateau: 1 });
    step += 10;
  }
  const { user, system } = process.cpuUsage(from);
  const samples = (step - first) * batchSize;
  const sent = run.traffic.sent - before.sent;
  const received = run.traffic.received - before.received;
  return { ms: (user + system) / 1000 / samples, bytes: Math.max(sent, received) / samples };
}

/** Samples per second on threads: two devices, and two trainers with a server over a broker. */
async function threadRows({ rounds, seconds }: AsyncBenchOptions): Promise<BenchRow[]> {
  const { model, lookups } = configuration("a");
  using home = temporaryHome("osiris-async-");
  const job = resolveJob({
    mode: "async",
    async: { servers: 1 },
    model: model as JobOptions["model"],
    data: {
      ...{ kind: "synthetic", samples: 100_000, dense: model.dense, batchSize, epochs: 1000 },
      ...{ idsPerBag: lookups, cache: join(home.path, "cache") },
    },
    checkpoint: { everySteps: 1000, directory: join(home.path, "run") },
  });
  const rates = { sync: [] as number[], async: [] as number[] };
  await using all = await startAsyncThreads(job, 2);
  let step = 0;
  const advance = async (steps: number) => {
    await all.run({ fromStep: step, toStep: step + steps, plateau: 1 });
    step += steps;
  };
  await advance(40);
  for (let round = 0; round < rounds; round++) {
    const work = benchWork({ config: "a", batch: 2048, devices: 2, seconds });
    const [report] = await runDevices(work);
    rates.sync.push(2_048_000 / quantiles(report?.stepMs ?? []).median);
    const [fromMs, first] = [performance.now(), step];
    while (performance.now() < fromMs + 1000 * seconds) await advance(100);
    rates.async.push((1000 * batchSize * (step - first)) / (performance.now() - fromMs));
  }
  return (["sync", "async"] as const).map((name) => {
    const { median: figure, spread } = quantiles(rates[name]);
    return { name: `async.threads.${name}`, figure, unit: "samples/s", spread };
  });
}
