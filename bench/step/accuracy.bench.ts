// Question: what does a reduced precision cost in log loss? Models of every precision train side by
// side, with the same seed on the same generated samples, and are scored on held-out samples. No
// limit: the figure is the mean over seeds of the difference from float32 in percent.
//
// Training is chaotic: a small difference at the start grows into two different models. The rows
// `float32-twin` show how different: a second float32 model starts with perturbed weights, and a
// difference smaller than its own means nothing. Three things keep that difference small: learning
// rates that fall to 0, so that the last batches leave no noise; tables so small that a million
// samples train every row fully; and a log loss that is expected over labels. The rest of the
// difference comes from early steps. Therefore `.late` runs take over float32's model half way: two
// models then stay close.

import { syntheticOptions } from "../../src/data/options.ts";
import { Sample } from "../../src/data/sample.ts";
import { SyntheticSamples } from "../../src/data/synthetic/synthetic.ts";
import type { LocalBatch } from "../../src/exchange/batch-ring.ts";
import type { DensePrecision } from "../../src/kernels/contract/kernels.ts";
import type { Precision } from "../../src/kernels/contract/precision.ts";
import { type ModelSpec, modelOptions } from "../../src/model/options.ts";
import { evaluate, type Metrics } from "../../src/training/loop/metrics.ts";
import type { DeviceState, Recipe } from "../../src/training/step/device-state.ts";
import { forwardStep, trainStep } from "../../src/training/step/step.ts";
import { type Bench, positiveOption } from "../bench.ts";
import { type BenchRow, meanOf } from "../row.ts";
import { optimizerOf } from "./optimizers.ts";
import { startSoloDevice } from "./solo-device.ts";

const batchSize = 256;
/** Held-out samples for each training sample. */
const heldOut = 0.2;
/** Share of the steps after which learning rates begin to fall linearly to 0. */
const steady = 0.5;

interface AccuracyBenchOptions {
  readonly samples: number;
  readonly seeds: number;
  /** The first of the seeds. */
  readonly first: number;
}

interface Contender {
  readonly name: string;
  /** Precision in which dense layers multiply. */
  readonly layers: DensePrecision;
  /** Precision in which rows are stored. */
  readonly rows: Precision;
  /** Begins with weights cut to bfloat16, and then trains in its own precisions. */
  readonly isPerturbed?: boolean;
  /** Takes over the weights and state of the first contender where rates begin to fall. */
  readonly isLate?: boolean;
}

const single: Contender = { name: "float32", layers: "float32", rows: "float32" };
const reduced: readonly Contender[] = [
  { ...single, name: "float32-twin", isPerturbed: true },
  { ...single, name: "float16-rows", rows: "float16" },
  { ...single, name: "bfloat16-rows", rows: "bfloat16" },
  { ...single, name: "int8-rows", rows: "int8" },
  { ...single, name: "bfloat16-layers", layers: "bfloat16" },
];
/** The first contender is the reference of the others. */
const contenders: readonly Contender[] = [
  single,
  ...reduced,
  ...reduced.map((one) => ({ ...one, name: `${one.name}.late`, isLate: true })),
];

/** A model's held-out scores. */
interface Score extends Metrics {
  /** Log loss expected over all labels that could have been drawn. */
  readonly expected: number;
}

export const accuracyBench: Bench<AccuracyBenchOptions> = {
  question: "what reduced precisions cost in log loss on generated samples, beside float32",
  options: [
    positiveOption("--samples <count>", "samples that a model trains on", 1_000_000),
    positiveOption("--seeds <count>", "models, each with samples of its own", 3),
    positiveOption("--first <seed>", "the first of the seeds, to do some and then others", 1),
  ],
  full: { seeds: 5 },
  measurements({ samples, seeds: count, first }) {
    const seeds = Array.from({ length: count }, (_, i) => first + i);
    const prefix = `accuracy.${samples}`;
    const names = [
      ...truths.map(({ name }) => `${prefix}.${name}`),
      ...contenders.slice(1).flatMap(({ name }) => [
        ...seeds.map((seed) => `${prefix}.${name}.seed${seed}`),
        ...[".mean", ...(count > 1 ? [".error"] : []), ".drawn"].map((end) => {
          return `${prefix}.${name}${end}`;
        }),
      ]),
    ];
    const seconds = (count * samples * secondsOfMillion) / 1e6;
    const measure = (isWanted: (name: string) => boolean) => {
      const racing = contenders.filter(({ name }, i) => {
        return (
          i === 0 || names.some((row) => row.startsWith(`${prefix}.${name}.`) && isWanted(row))
        );
      });
      return accuracyRows(prefix, samples, seeds, racing);
    };
    return [{ names, seconds, measure }];
  },
};

/** Duration of a million samples of all contenders of one seed, on one core. */
const secondsOfMillion = 140;

/** Figures of float32, whose limit is the figure of the planted truth. */
const truths = [
  { name: "float32.mean", unit: "log loss", of: (score: Score) => score.expected },
  {
    name: "float32.ne",
    unit: "of the base rate's",
    of: (score: Score) => score.normalizedEntropy,
  },
] as const;

/** Yields each seed's differences as soon as it has trained, and the means at the end. */
async function* accuracyRows(
  prefix: string,
  samples: number,
  seeds: readonly number[],
  racing: readonly Contender[],
) {
  const runs: Run[] = [];
  for (const seed of seeds) {
    const run = await runSeed(samples, seed, racing);
    runs.push(run);
    for (const [i, { name }] of racing.entries()) {
      if (i > 0) yield seedRow(`${prefix}.${name}.seed${seed}`, run, i);
    }
  }
  for (const { name, unit, of } of truths) yield besideTruth(`${prefix}.${name}`, unit, runs, of);
  for (const [i, { name }] of racing.entries()) {
    if (i > 0) yield* meanRows(`${prefix}.${name}`, runs, i);
  }
}

interface Run {
  readonly seed: number;
  /** Scores by contender. */
  readonly scores: readonly Score[];
  /** Score of the logits that the labels were drawn from. */
  readonly truth: Score;
}

/** Mean over seeds of a figure of float32, and of the planted truth as its limit. */
function besideTruth(
  name: string,
  unit: string,
  runs: readonly Run[],
  of: (score: Score) => number,
): BenchRow {
  const ours = runs.map((run) => of(scoreOf(run, 0)));
  const figure = meanOf(ours);
  const limit = meanOf(runs.map(({ truth }) => of(truth)));
  const spread = rangeOf(ours);
  return { name, figure, unit, limit, limitIs: "the truth", ratio: figure / limit, spread };
}

/** Percent by which a contender's expected log loss exceeds float32's, for one seed. */
function expectedLoss(run: Run, contender: number): number {
  return 100 * (scoreOf(run, contender).expected / scoreOf(run, 0).expected - 1);
}

/** The same for the log loss over the drawn labels. */
function drawnLoss(run: Run, contender: number): number {
  return 100 * (scoreOf(run, contender).logLoss / scoreOf(run, 0).logLoss - 1);
}

const lossUnit = "% more log loss";

function seedRow(name: string, run: Run, contender: number): BenchRow {
  const figure = expectedLoss(run, contender);
  return { name, figure, unit: lossUnit, spread: [figure, figure] };
}

/** The mean over seeds, its standard error, and the mean on drawn labels. */
function* meanRows(name: string, runs: readonly Run[], contender: number): Iterable<BenchRow> {
  const expected = runs.map((run) => expectedLoss(run, contender));
  const drawn = runs.map((run) => drawnLoss(run, contender));
  const mean = meanOf(expected);
  yield { name: `${name}.mean`, figure: mean, unit: lossUnit, spread: rangeOf(expected) };
  if (runs.length > 1) {
    const variance = meanOf(expected.map((one) => (one - mean) ** 2));
    const error = Math.sqrt(variance / (runs.length - 1));
    const spread = [error, error] as const;
    yield { name: `${name}.error`, figure: error, unit: "% standard error", spread };
  }
  yield { name: `${name}.drawn`, figure: meanOf(drawn), unit: lossUnit, spread: rangeOf(drawn) };
}

interface Entrant {
  readonly contender: Contender;
  readonly device: DeviceState;
}

type Batches = (index: number) => TrueBatch;

/** Trains all contenders on `samples` samples, and scores them on held-out samples. */
async function runSeed(samples: number, seed: number, racing: readonly Contender[]): Promise<Run> {
  const steps = Math.ceil(samples / batchSize);
  const tests = Math.ceil(steps * heldOut);
  const batchAt = startBatches((steps + tests) * batchSize, seed);
  const entrants = racing.map((contender) => {
    return { contender, device: startDevice(contender, seed) };
  });
  await trainAll(entrants, batchAt, steps);
  return { seed, ...(await scoreAll(entrants, (test) => batchAt(steps + test), tests)) };
}

/** Late contenders wait until rates begin to fall, and then take over the first one's state. */
async function trainAll(entrants: readonly Entrant[], batchAt: Batches, steps: number) {
  const turn = Math.ceil(steps * steady);
  const early = entrants.filter(({ contender }) => !contender.isLate);
  for (let step = 0; step < steps; step++) {
    if (step === turn) await takeOver(entrants);
    const { batch } = batchAt(step);
    const optimizer = optimizerAt(step / steps);
    for (const { device } of step < turn ? early : entrants) {
      const recipe = { ...device.recipe, optimizer };
      await trainStep({ ...device, recipe }, batch, step, -1);
    }
  }
}

async function scoreAll(entrants: readonly Entrant[], batchAt: Batches, tests: number) {
  const labels = new Float32Array(tests * batchSize);
  const truth = new Float32Array(labels.length);
  const logits = entrants.map(() => new Float32Array(labels.length));
  for (let test = 0; test < tests; test++) {
    const { batch, trueLogits } = batchAt(test);
    labels.set(batch.labels, test * batchSize);
    truth.set(trueLogits, test * batchSize);
    for (const [i, { device }] of entrants.entries()) {
      logits[i]?.set(device.kernels.read(await forwardStep(device, batch)), test * batchSize);
    }
  }
  const score = (own: Float32Array): Score => {
    return { ...evaluate(own, labels), expected: expectedLogLoss(own, truth) };
  };
  return { scores: logits.map(score), truth: score(truth) };
}

/** Mean over samples of p * log(1 + e^-x) + (1 - p) * log(1 + e^x), p = sigmoid(true logit). */
function expectedLogLoss(logits: Float32Array, truth: Float32Array): number {
  let sum = 0;
  for (const [i, x] of logits.entries()) {
    const p = 1 / (1 + Math.exp(-(truth[i] ?? Number.NaN)));
    sum += Math.max(x, 0) - p * x + Math.log1p(Math.exp(-Math.abs(x)));
  }
  return sum / logits.length;
}

/** The optimizer at a share of the steps. With accumulators from 0, first steps would be signs. */
function optimizerAt(share: number): Recipe["optimizer"] {
  const fall = Math.min(1, (1 - share) / (1 - steady));
  const [dense, sparse] = [0.02 * fall, 0.1 * fall];
  return optimizerOf(
    {
      kind: "adagrad",
      learningRate: dense,
      initialAccumulator: 1e-4,
    },
    {
      kind: "rowWiseAdagrad",
      learningRate: sparse,
      initialAccumulator: 1e-6,
    },
  );
}

/** A model that comes near the planted truth in a million samples. */
function modelOf({ layers, rows }: Contender): ModelSpec {
  const tables = Array.from({ length: 26 }, (_, i) => {
    return { name: `T${i}`, rows: 100, dim: 16, initScale: 0.05, precision: rows };
  });
  const [bottom, top] = [
    [128, 64, 16],
    [128, 64, 1],
  ];
  return modelOptions.parse({ kind: "dlrm", dense: 13, tables, bottom, top, precision: layers });
}

/** A device without peers. */
function startDevice(contender: Contender, seed: number): DeviceState {
  const model = modelOf(contender);
  const idsMax = model.tables.map(() => 1);
  const input = { model, batchSize, slices: 8, idsMax };
  const device = startSoloDevice(input, { optimizer: optimizerAt(0), seed });
  if (contender.isPerturbed) cutWeights(device);
  return device;
}

/** Copies the first contender's state to the late ones, with rows rounded to nearest. */
async function takeOver([first, ...others]: readonly Entrant[]): Promise<void> {
  for (const { contender, device } of others) {
    if (first === undefined || !contender.isLate) continue;
    const { kernels, network, denseState, slab } = device;
    kernels.copy(network.flat, first.device.network.flat);
    for (const [i, slot] of first.device.denseState.slots.entries()) {
      const own = denseState.slots[i];
      if (own !== undefined) kernels.copy(own, slot);
    }
    for (const [at, shard] of slab.shards.entries()) {
      for await (const records of first.device.slab.records(at)) {
        await slab.restore(at, shard, records, false);
      }
    }
    if (contender.isPerturbed) cutWeights(device);
  }
}

/** Truncates every weight to its first 16 bits, which are a bfloat16. */
export function cutWeights({ kernels, network, slab }: DeviceState): void {
  const cut = (weights: Float32Array) => {
    return new Float32Array(new Uint32Array(weights.buffer).map((bits) => bits & ~0xffff).buffer);
  };
  kernels.write(network.flat, cut(kernels.read(network.flat)));
  for (const rows of slab.rowsOf) {
    kernels.writeRows(rows, 0, cut(kernels.readRows(rows, 0, rows.rows)));
  }
}

interface TrueBatch {
  readonly batch: LocalBatch;
  /** (B): the logits that the labels were drawn from. */
  readonly trueLogits: Float32Array;
}

/** Returns a function that makes the batch of an index from generated samples. */
function startBatches(samples: number, seed: number): Batches {
  const { dense: width, tables } = modelOf(single);
  const options = { kind: "synthetic", batchSize, samples, dense: width, seed };
  const generator = new SyntheticSamples(syntheticOptions.parse(options), tables);
  const sample = new Sample({ dense: width, features: tables.length });
  return (index) => {
    const dense = new Float32Array(batchSize * width);
    const labels = new Float32Array(batchSize);
    const trueLogits = new Float32Array(batchSize);
    const ids = new Int32Array(tables.length * batchSize);
    for (let s = 0; s < batchSize; s++) {
      trueLogits[s] = generator.fill(sample, index * batchSize + s);
      dense.set(sample.dense, s * width);
      labels[s] = sample.label;
      for (const table of tables.keys()) ids[table * batchSize + s] = sample.ids[table] ?? 0;
    }
    const batch = {
      ticket: index,
      samples: batchSize,
      batchSamples: batchSize,
      idCount: ids.length,
      dense,
      labels,
      lengths: new Int32Array(ids.length).fill(1),
      ids,
    };
    return { batch, trueLogits };
  };
}

function scoreOf({ scores }: Run, contender: number): Score {
  const score = scores[contender];
  if (score === undefined) throw new RangeError(`The run has no contender ${contender}`);
  return score;
}

export function rangeOf(values: readonly number[]): [number, number] {
  return [Math.min(...values), Math.max(...values)];
}
