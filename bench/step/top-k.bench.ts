// Questions: what does the top-k all-reduce cost in log loss on real data, and what does a step of
// a model with large dense layers gain over a slow link? Both beside the dense all-reduce.
//
// Quality: Frappe (Baltrunas et al., 2015), one line an app use, read from `--data`. Models train
// side by side on the same batches, with learning rates that fall to 0, and are scored on held-out
// lines. The number of devices changes no bit, so that one device suffices. A second dense model,
// with weights cut to bfloat16 before the first step, shows how far two dense trainings are apart:
// a smaller difference means nothing.
//
// Speed: the processor time of a step on two devices, measured, and the time in which the link
// transmits its vectors and gradients, computed; nothing overlaps. So other load does not matter.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { Option } from "commander";
import { layoutOf } from "../../src/exchange/layout.ts";
import type { ExchangeSpec } from "../../src/exchange/options.ts";
import { modelOptions } from "../../src/model/options.ts";
import { RandomStream } from "../../src/ports/random.ts";
import type { Metrics } from "../../src/training/loop/metrics.ts";
import type { DeviceState, Recipe } from "../../src/training/step/device-state.ts";
import { trainStep } from "../../src/training/step/step.ts";
import { exchangeShapeOf, partBytesOf } from "../../src/training/topology/exchange-shape.ts";
import {
  exactExchange,
  type TopologyInput,
  topologyOf,
} from "../../src/training/topology/topology.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import { type BenchRow, meanOf, quantiles } from "../row.ts";
import { cutWeights, rangeOf } from "./accuracy.bench.ts";
import { benchWork, runDevices } from "./device-threads.ts";
import { batchOf, frappeModel, readFrappe, type Samples, scoreOf, shuffle } from "./frappe.ts";
import { optimizerOf } from "./optimizers.ts";
import { type Link, wayMs } from "./slow-link.ts";
import { startSoloDevice } from "./solo-device.ts";

interface TopKBenchOptions {
  readonly data: string;
  readonly seeds: number;
  readonly epochs: number;
  readonly rounds: number;
  readonly seconds: number;
}

const withTopK = (share: number): ExchangeSpec => ({ ...exactExchange, topk: { share } });

/** The first contender is the reference of the others. */
const contenders = [
  { name: "dense", exchange: exactExchange, isCut: false },
  { name: "cut", exchange: exactExchange, isCut: true },
  { name: "top1", exchange: withTopK(0.01), isCut: false },
  { name: "top5", exchange: withTopK(0.05), isCut: false },
] as const;

const batchSize = 512;

export const topKBench: Bench<TopKBenchOptions> = {
  question: "what top-k gradients cost in log loss on real data, and gain over a slow link",
  options: [
    new Option("--data <directory>", "real files, with `frappe` below").default("../shared/data"),
    positiveOption("--seeds <count>", "trainings of each contender", 2),
    positiveOption("--epochs <count>", "passes over the data", 2),
    positiveOption("--rounds <count>", "rounds of each link, in turn", 3),
    positiveOption("--seconds <seconds>", "how long each measures", 4),
  ],
  full: { seeds: 5 },
  measurements(options) {
    const { data, seeds, epochs, rounds, seconds } = options;
    const names = contenders.flatMap(({ name }) => [`topk.${name}.loss`, `topk.${name}.auc`]);
    const quality = together(names, seeds * epochs * 60, () => qualityRows(options));
    const speed = Object.keys(links).map((name) => {
      const link = links[name as keyof typeof links];
      return together([`topk.${name}`], 2 * rounds * (seconds + 4), () =>
        speedRow(name, link, options),
      );
    });
    return existsSync(join(data, "frappe")) ? [quality, ...speed] : speed;
  },
};

// Quality ----

async function qualityRows({ data, seeds, epochs }: TopKBenchOptions): Promise<BenchRow[]> {
  const samples = readFrappe(join(data, "frappe"));
  const runs: Metrics[][] = [];
  for (let seed = 1; seed <= seeds; seed++) runs.push(await trainAll(samples, epochs, seed));
  return contenders.flatMap(({ name }, i) => {
    const row = (of: (metrics: Metrics) => number, end: string, unit: string): BenchRow => {
      const own = runs.map((run) => of(run[i] as Metrics));
      const base = runs.map((run) => of(run[0] as Metrics));
      const percent = own.map((figure, at) => 100 * (figure / (base[at] ?? 1) - 1));
      const all = i === 0 ? own : percent;
      return {
        name: `topk.${name}.${end}`,
        figure: meanOf(all),
        unit: i === 0 ? unit : `% more ${unit}`,
        spread: rangeOf(all),
      };
    };
    return [row((m) => m.logLoss, "loss", "log loss"), row((m) => m.auc, "auc", "AUC")];
  });
}

async function trainAll({ rows, train, test }: Samples, epochs: number, seed: number) {
  const devices = contenders.map((contender) => startDevice(contender, rows, seed));
  const order = Int32Array.from(train.labels.keys());
  const steps = Math.floor(order.length / batchSize);
  for (let epoch = 0; epoch < epochs; epoch++) {
    shuffle(order, new RandomStream(seed, 900 + epoch));
    for (let step = 0; step < steps; step++) {
      const batch = batchOf(train, order.subarray(step * batchSize, (step + 1) * batchSize));
      const at = epoch * steps + step;
      const optimizer = optimizerAt(at / (epochs * steps));
      for (const device of devices) {
        await trainStep({ ...device, recipe: { ...device.recipe, optimizer } }, batch, at, -1);
      }
    }
  }
  const scores: Metrics[] = [];
  for (const device of devices) scores.push(await scoreOf(device, test, batchSize));
  return scores;
}

/** The optimizer at a share of the steps, of which the second half lets rates fall to 0. */
function optimizerAt(share: number): Recipe["optimizer"] {
  const fall = Math.min(1, 2 * (1 - share));
  return optimizerOf(
    { kind: "sgd", learningRate: 0.5 * fall },
    { kind: "rowWiseAdagrad", learningRate: 0.05 * fall },
  );
}

/** A device without peers, with large layers over small tables. */
function startDevice(
  { exchange: spec, isCut }: (typeof contenders)[number],
  rows: readonly number[],
  seed: number,
): DeviceState {
  const model = frappeModel(rows, [256, 128, 1]);
  const input = { model, batchSize, slices: 8, idsMax: rows.map(() => 1), exchange: spec };
  const device = startSoloDevice(input, { optimizer: optimizerAt(0), seed });
  if (isCut) cutWeights(device);
  return device;
}

// Speed ----

const links = {
  "1Gb": { bitsPerSecond: 1e9 },
  "10Gb": { bitsPerSecond: 1e10 },
} as const;

/** Gain of a share of .01 over the dense all-reduce, on two devices with a link between them. */
async function speedRow(name: string, link: Link, { rounds, seconds }: TopKBenchOptions) {
  const base = benchWork({ config: "a", batch: 1024, devices: 2, seconds });
  const model = modelOptions.parse({ ...base.input.model, top: [1024, 1024, 1024, 1] });
  const msOf = async (exchange: ExchangeSpec) => {
    const input = { ...base.input, model, exchange };
    const [report] = await runDevices({ ...base, input });
    return quantiles(report?.busyMs ?? []).median + wayMs(link, bytesOfStep(input));
  };
  const gains: number[] = [];
  for (let round = 0; round < rounds; round++) {
    gains.push((await msOf(exactExchange)) / (await msOf(withTopK(0.01))));
  }
  const { median: figure, spread } = quantiles(gains);
  const row = { name: `topk.${name}`, figure, unit: "x the steps of a dense all-reduce", spread };
  return [{ ...row, target: [1.25, Number.POSITIVE_INFINITY] as const }];
}

/** Bytes that device 0 sends to the other one, on another host, in a step. */
export function bytesOfStep(input: TopologyInput): number {
  const topology = topologyOf(input, 2, [0, 1]);
  const { ids, pooled, dPooled } = partBytesOf(topology, input.batchSize);
  const selected = (layoutOf(exchangeShapeOf(topology)).topK?.selected(0).bytes ?? 0) / 2;
  // Of all other elements a half is sent as partial sums, and the sum of the other half.
  const others = 4 * (topology.gradientLength - (topology.topK?.length ?? 0));
  return [ids, pooled, dPooled].reduce((sum, bytes) => sum + bytes(0, 1), selected + others);
}
