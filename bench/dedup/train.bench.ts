// Question: how much faster is a step on sessions whose lists are deduplicated (IKJT)? Pooled lists
// alone, and beside sequences that are encoded. Peer: the same model on the plain lists, in turn in
// one run. The trainings of a row take turns of a few steps, on the same batches.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Option } from "commander";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { dataOptions } from "../../src/data/options.ts";
import type { IkjtGroups } from "../../src/data/sessions/ikjt.ts";
import { sparseOptimizerOptions } from "../../src/embedding/tables/options.ts";
import { shapesOf } from "../../src/model/features.ts";
import { denseOptimizerOptions, type ModelSpec, modelOptions } from "../../src/model/options.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { type Bench, positive, together } from "../bench.ts";
import { type BenchRow, rowOf } from "../row.ts";
import { runDevices } from "../step/device-threads.ts";
import type { TrainWork } from "../step/train-work.ts";

interface TrainOptions {
  readonly batch: number;
  readonly devices: number;
  readonly steps: number;
}

/** Samples of a session: every one has as many, as in a batch of whole sessions. */
const sessionSamples = [8, 16] as const;
/** Probability that a list stays from one sample to the next. */
const kept = 0.95;
/** Batches that are trained in turn. */
const batches = 4;
/** Steps of a turn: the first one finds the caches full of the other training. */
const turnSteps = 6;

export const trainBench: Bench<TrainOptions> = {
  question: "steps on deduplicated lists of sessions, beside the same on plain lists",
  options: [
    new Option("--batch <samples>", "samples of a batch").argParser(positive).default(2048),
    new Option("--devices <count>", "device threads").argParser(positive).default(2),
    new Option("--steps <count>", "steps of each training").argParser(positive).default(18),
  ],
  measurements(options) {
    return sessionSamples.flatMap((samples) => [
      together(namesOf("pooled", samples, ["all"]), 15, () => rowsOf("pooled", samples, options)),
      together(namesOf("attention", samples, ["pooled", "all"]), 80, () =>
        rowsOf("attention", samples, options),
      ),
    ]);
  },
};

type Kind = "pooled" | "attention";

const namesOf = (kind: Kind, samples: number, variants: readonly string[]) =>
  variants.map((variant) => `dedup.train.${kind}.${samples}.${variant}`);

/** Of a user: long lists; of an item: one id each, which no sample shares. */
const userLists = { clicks: 100, views: 100, buys: 50, pages: 50, likes: 25, terms: 25 };
const sequences = { seen: 64, watched: 32 };

function modelOf(kind: Kind): ModelSpec {
  const sequenceNames = kind === "attention" ? Object.keys(sequences) : [];
  const names = [...Object.keys(userLists), "item", "category", ...sequenceNames];
  return modelOptions.parse({
    kind: "dlrm",
    dense: 13,
    tables: names.map((name) => ({ name, rows: 200_000, dim: 64 })),
    features: names.map((column) => {
      const maxLength = sequences[column as keyof typeof sequences];
      if (maxLength === undefined) return { column };
      return { column, pooling: "none", maxLength, encoder: { kind: "transformer", heads: 2 } };
    }),
    bottom: [512, 256, 64],
    top: [512, 512, 256, 1],
  });
}

/** Steps of the trainings of one model: on plain lists, and with some lists deduplicated. */
async function rowsOf(kind: Kind, samples: number, options: TrainOptions): Promise<BenchRow[]> {
  const { batch, devices, steps } = options;
  const model = modelOf(kind);
  const names = shapesOf(model).map(({ name }) => name);
  const groupsOf = (lists: object): IkjtGroups =>
    Object.keys(lists).map((name) => [names.indexOf(name)]);
  const directory = mkdtempSync(join(tmpdir(), "osiris-bench-"));
  try {
    const lists: Record<string, number> = { ...userLists, ...(kind === "attention" && sequences) };
    const features = Object.entries(lists).map(([name, l]) => [name, { d: kept, l }]);
    const data = dataOptions.parse({
      ...{ kind: "synthetic", samples: batch * batches, dense: 13, batchSize: batch },
      ...{ cache: directory, sessions: { samples, features: Object.fromEntries(features) } },
    });
    const { path, idsMax } = await prepareCache(data, shapesOf(model), realDisk);
    const variants: Readonly<Record<string, IkjtGroups>> =
      kind === "pooled"
        ? { all: groupsOf(userLists) }
        : { pooled: groupsOf(userLists), all: groupsOf({ ...userLists, ...sequences }) };
    const trainings = [undefined, ...Object.values(variants)];
    const over = new SharedArrayBuffer(4);
    const workOf = (ikjt: IkjtGroups | undefined, index: number): TrainWork => ({
      input: { model, batchSize: batch, slices: 8, idsMax, ikjt },
      recipe: {
        optimizer: {
          dense: denseOptimizerOptions.parse({ kind: "sgd", learningRate: 0.01 }),
          sparse: sparseOptimizerOptions.parse({ kind: "rowWiseAdagrad", learningRate: 0.01 }),
        },
        seed: 727,
      },
      turns: { over, trainings: trainings.length, index, steps: turnSteps },
      ...{ devices, depth: 3, batches, seconds: 600, steps, arithmetic: "auto", cache: path },
    });
    const reports = await Promise.all(trainings.map((ikjt, i) => runDevices(workOf(ikjt, i))));
    const [plain = [], ...others] = reports.map(([report]) =>
      turnRates(batch, report?.stepMs ?? []),
    );
    return Object.keys(variants).map((variant, i) => {
      const name = `dedup.train.${kind}.${samples}.${variant}`;
      const row = { name, unit: "samples/s", limitIs: "on plain lists" };
      // Part of the lists alone: how much the rest adds.
      const target = variant === "all" ? { target: targets[kind] } : {};
      return rowOf({ ...row, ...target }, others[i] ?? [], plain);
    });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

const targets: Readonly<Record<Kind, readonly [number, number]>> = {
  pooled: [1.2, 1.5],
  attention: [1.8, 2.5],
};

/** Samples/s of each turn, but for its first step. */
function turnRates(batch: number, stepMs: readonly number[]): number[] {
  const turns = Math.floor(stepMs.length / turnSteps);
  return Array.from({ length: turns }, (_, turn) => {
    const own = stepMs.slice(turn * turnSteps + 1, (turn + 1) * turnSteps);
    return (1000 * batch * own.length) / own.reduce((sum, ms) => sum + ms, 0);
  });
}
