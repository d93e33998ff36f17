// Questions: what share of a second core becomes speed, and what share of a reader's time do steps
// hide? Limits: the whole core, and the whole time.

import { partBytesOf } from "../../src/training/topology/exchange-shape.ts";
import { topologyOf } from "../../src/training/topology/topology.ts";
import { type Bench, type Measurement, positiveOption, single } from "../bench.ts";
import { type ConfigurationName, configurationNames } from "../configurations.ts";
import { type BenchRow, quantiles } from "../row.ts";
import { benchWork, ratesOf, runDevices } from "./device-threads.ts";
import { wayMs } from "./slow-link.ts";
import type { TrainThreadReport } from "./train-thread.ts";
import type { TrainWork } from "./train-work.ts";

interface ScalingBenchOptions {
  readonly rounds: number;
  /** How long each measures in a round. */
  readonly seconds: number;
}

/** Samples of a device in weak scaling, and of all devices together in strong scaling. */
const batch = 2048;

export const scalingBench: Bench<ScalingBenchOptions> = {
  question: "two devices, and one with two threads, beside one device; depth 3 beside depth 1",
  options: [
    positiveOption("--rounds <count>", "rounds over all trainings", 2),
    positiveOption("--seconds <seconds>", "how long each measures in a round", 3),
  ],
  full: { rounds: 5 },
  measurements(options) {
    const runs = (count: number, setUp: number) => {
      return options.rounds * count * (options.seconds + setUp);
    };
    return [
      ...configurationNames.map((config) => scaling(config, options)),
      single("pipeline.depth3", runs(3, setUpSeconds.a), () => depth(options)),
      ...linkNames.map((name) => {
        return single(`semisync.${name}`, runs(2, setUpSeconds.b), () => semiSync(name, options));
      }),
      ...overlaps.map((overlap) => {
        return single(`ahead.1Gb.${overlap}`, runs(2, 2), () => readAhead(overlap, options));
      }),
    ];
  },
};

/** Seconds to make tables and batches. */
const setUpSeconds = { a: 2, b: 4, c: 9, d: 4, w: 4 } as const;

/** Two devices and two batches, two devices and one batch, one device of two threads. */
const kinds = ["weak", "strong", "threads"] as const;
type Kind = (typeof kinds)[number];

function scaling(config: ConfigurationName, options: ScalingBenchOptions): Measurement {
  const { rounds, seconds } = options;
  const runs = rounds * (1 + kinds.length);
  return {
    names: kinds.map((kind) => `${kind}.${config}`),
    seconds: runs * (seconds + setUpSeconds[config]),
    async *measure(isWanted) {
      const wanted = kinds.filter((kind) => isWanted(`${kind}.${config}`));
      yield* await scalingRows(config, wanted, options);
    },
  };
}

/**
 * Measures two devices, one device, and one device with two threads, in turn: the speed on two
 * cores as a fraction of twice the speed on one.
 */
async function scalingRows(
  config: ConfigurationName,
  wanted: readonly Kind[],
  { rounds, seconds }: ScalingBenchOptions,
): Promise<BenchRow[]> {
  const one: number[] = [];
  const fractions: Record<Kind, number[]> = { weak: [], strong: [], threads: [] };
  const reports: Partial<Record<Kind, TrainThreadReport | undefined>> = {};
  const run = async (devices: number, samples: number, threads = 1) => {
    const work = { ...benchWork({ config, batch: samples, devices, seconds }), threads };
    const [report] = await runDevices(work);
    return { report, rate: quantiles(ratesOf(samples, report)).median };
  };
  for (let round = 0; round < rounds; round++) {
    const alone = (await run(1, batch)).rate;
    one.push(alone);
    for (const kind of wanted) {
      const samples = kind === "weak" ? 2 * batch : batch;
      const { rate, report } = await (kind === "threads" ? run(1, batch, 2) : run(2, samples));
      fractions[kind].push(rate / (2 * alone));
      reports[kind] = report;
    }
  }
  const rate = Math.round(quantiles(one).median);
  return wanted.map((kind) => {
    const { median: figure, spread } = quantiles(fractions[kind]);
    const limits = { limit: 1, limitIs: `twice one device's ${rate} samples/s`, ratio: figure };
    const target = kind === "weak" ? { target: [0.925, 1] as const } : {};
    const row = { name: `${kind}.${config}`, figure, unit: "of perfect", ...limits, ...target };
    return { ...row, spread, times: reports[kind]?.times };
  });
}

/** Links between the two devices of `semisync` and `ahead`. */
const links = {
  "1Gb": { bitsPerSecond: 1e9 },
  "10Gb": { bitsPerSecond: 1e10 },
  shared: undefined,
} as const;
const linkNames = Object.keys(links) as (keyof typeof links)[];

/** Gain of reading all tables one update late over exact reads, on two devices with a link. */
function semiSync(name: keyof typeof links, options: ScalingBenchOptions): Promise<BenchRow> {
  const work = linkedWork(name, options);
  const { model } = work.input;
  const tables = model.tables.map((table) => ({ ...table, staleness: 1 as const }));
  const stale = { ...work, input: { ...work.input, model: { ...model, tables } } };
  return gainOf(`semisync.${name}`, work, stale, options);
}

function linkedWork(name: keyof typeof links, { seconds }: ScalingBenchOptions): TrainWork {
  const link = links[name];
  const work = benchWork({ config: "b", batch: 2 * batch, devices: 2, seconds });
  return { ...work, ...(link && { link }) };
}

/** Gain of the steps of `other` over the steps of `work`, in turn. */
async function gainOf(
  name: string,
  work: TrainWork,
  other: TrainWork,
  { rounds }: ScalingBenchOptions,
): Promise<BenchRow> {
  const msOf = async (own: TrainWork) => {
    const [report] = await runDevices(own);
    return quantiles(report?.stepMs ?? []).median;
  };
  const gains: number[] = [];
  const exactMs: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const exact = await msOf(work);
    gains.push(exact / (await msOf(other)));
    exactMs.push(exact);
  }
  const { median: figure, spread } = quantiles(gains);
  const ms = quantiles(exactMs).median;
  const bytes = partBytesOf(topologyOf(work.input, 2), 2 * batch).pooled(0, 1);
  const way = work.link === undefined ? 0 : wayMs(work.link, bytes);
  const limit = ms / (ms - way);
  const limitIs = `${way.toPrecision(3)} ms of vectors hidden in a step of ${ms.toPrecision(3)} ms`;
  return {
    name,
    figure,
    unit: "x",
    limit,
    limitIs,
    ratio: figure / limit,
    spread,
  };
}

/** Shares of the ids of a batch that are ids of the batch before. */
const overlaps = [0, 0.3, 0.9] as const;

/** Gain of reading all tables ahead, with the same bits, on two devices with a link. */
async function readAhead(
  overlap: number,
  { rounds, seconds }: ScalingBenchOptions,
): Promise<BenchRow> {
  const work = {
    ...benchWork({ config: "b", batch: 2 * batch, devices: 2, seconds }),
    link: links["1Gb"],
    overlap,
  };
  const ahead = { ...work, input: { ...work.input, ahead: 1 } };
  const all = { exact: [] as TrainThreadReport[], ahead: [] as TrainThreadReport[] };
  for (let round = 0; round < rounds; round++) {
    for (const [kind, own] of [
      ["exact", work],
      ["ahead", ahead],
    ] as const) {
      const [report] = await runDevices(own);
      if (report !== undefined) all[kind].push(report);
    }
  }
  const msOf = (one: TrainThreadReport) => quantiles(one.stepMs).median;
  /** Milliseconds in which a step waits for vectors, from a device or from the link. */
  const exposedMs = (reports: readonly TrainThreadReport[]) =>
    quantiles(
      reports.map(({ times, linkMs }) => {
        const { pooled = 0, stalePooled = 0, deferred = 0 } = linkMs;
        return (times?.shares.pooled ?? 0) * (times?.stepMs ?? 0) + pooled + stalePooled + deferred;
      }),
    ).median;
  const gains = all.exact.map((exact, i) => msOf(exact) / msOf(all.ahead[i] ?? exact));
  const { median: figure, spread } = quantiles(gains);
  const ms = quantiles(all.exact.map(msOf)).median;
  const waits = [exposedMs(all.exact), exposedMs(all.ahead)] as const;
  const limit = ms / (ms - waits[0]);
  const deferred = quantiles(all.ahead.map(({ deferredShare }) => deferredShare)).median;
  const limitIs =
    `nothing waited for vectors in a step of ${ms.toPrecision(3)} ms: exact ` +
    `${waits[0].toPrecision(3)} ms, ahead ${waits[1].toPrecision(3)} ms, ` +
    `${(100 * deferred).toPrecision(2)} % sent again`;
  const row = { name: `ahead.1Gb.${overlap}`, figure, unit: "x", limit, limitIs };
  return { ...row, ratio: figure / limit, spread };
}

/** Share of a step that the reader sleeps. */
const asleepShare = 0.8;

/** Gain of pipeline depth 3 over depth 1, in turn, on one device with a reader that sleeps. */
async function depth({ rounds, seconds }: ScalingBenchOptions): Promise<BenchRow> {
  const work = benchWork({ config: "a", batch, devices: 1, seconds });
  const msOf = async (own: TrainWork, sleepMs: number) => {
    const [report] = await runDevices(own, sleepMs === undefined ? undefined : { sleepMs });
    return { ms: quantiles(report?.stepMs ?? []).median, report };
  };
  const gains: number[] = [];
  let times: BenchRow["times"];
  let sleepMs = 0;
  for (let round = 0; round < rounds; round++) {
    sleepMs = asleepShare * (await msOf({ ...work, depth: 3 }, 0)).ms;
    const one = await msOf({ ...work, depth: 1 }, sleepMs);
    const three = await msOf({ ...work, depth: 3 }, sleepMs);
    gains.push(one.ms / three.ms);
    times = three.report?.times;
  }
  const { median: figure, spread } = quantiles(gains);
  const limit = 1 + asleepShare;
  const limitIs = `all ${sleepMs.toPrecision(3)} ms of the reader's sleep hidden`;
  const row = { name: "pipeline.depth3", figure, unit: "x", limit, limitIs, ratio: figure / limit };
  return { ...row, target: [1.6 / limit, 1], spread, times };
}
