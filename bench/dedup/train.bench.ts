// Question: how much faster is a step on sessions whose lists are deduplicated (IKJT)? Rows: pooled
// lists, either six long ones or twenty-six of the mean length of RM1 and RM2 (26 ids: Zhao et al.,
// ISCA 2022, Understanding Data Storage and Ingestion); encoded sequences; and an ablation that
// adds the optimizations of RecD (Zhao et al., MLSys 2023, section 5) one after the other. Peer:
// the same model on the plain lists. The trainings of a row take turns of a few steps in one run,
// on the same batches.

import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { dataOptions } from "../../src/data/options.ts";
import type { IkjtGroups } from "../../src/data/sessions/ikjt.ts";
import { shapesOf } from "../../src/model/features.ts";
import { type ModelSpec, modelOptions } from "../../src/model/options.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import { type BenchRow, rowOf } from "../row.ts";
import { runDevices } from "../step/device-threads.ts";
import { optimizerOf } from "../step/optimizers.ts";
import type { TrainWork } from "../step/train-work.ts";

interface TrainOptions {
  readonly batch: number;
  readonly devices: number;
  readonly steps: number;
}

/** Samples of a session; all sessions have the same number, as a batch has whole sessions. */
const sessionSamples = [8, 16] as const;
/** Probability that a list stays the same from one sample to the next. */
const kept = 0.95;
/** Batches that training cycles through. */
const batches = 4;
/** Steps of a turn. The first one is not counted, as the caches hold the other training's data. */
const turnSteps = 6;

export const trainBench: Bench<TrainOptions> = {
  question: "steps on deduplicated lists of sessions, beside the same on plain lists",
  options: [
    positiveOption("--batch <samples>", "samples of a batch", 2048),
    positiveOption("--devices <count>", "device threads", 2),
    positiveOption("--steps <count>", "steps of each training", 18),
  ],
  measurements(options) {
    const rows = (kind: Kind, samples: number, seconds: number) => {
      const names = Object.keys(variantsOf(kind)).map((variant) => nameOf(kind, samples, variant));
      return together(names, seconds, () => rowsOf(kind, samples, options));
    };
    return [
      ...sessionSamples.flatMap((samples) => [
        rows("pooled", samples, 9),
        rows("lists", samples, 10),
        rows("attention", samples, 55),
      ]),
      rows("ablation", 16, 50),
    ];
  },
};

type Kind = "pooled" | "lists" | "attention" | "ablation";

const nameOf = (kind: Kind, samples: number, variant: string) =>
  `dedup.train.${kind}.${samples}.${variant}`;

/** The user's lists and their lengths. An item's features have one id, which no sample shares. */
export const userLists = { clicks: 100, views: 100, buys: 50, pages: 50, likes: 25, terms: 25 };
const manyLists = Object.fromEntries(Array.from({ length: 26 }, (_, i) => [`user${i}`, 26]));
const sequences = { seen: 64, watched: 32 };
/** The ablation's sequence that attends to the item of each sample, and its length. */
const [attended, attendedIds] = ["seen", 32] as const;

export function modelOf(kind: Kind): ModelSpec {
  const sequenceNames = isPooled(kind) ? [] : Object.keys(sequences);
  const names = [...Object.keys(pooledOf(kind)), "item", "category", ...sequenceNames];
  const isAblation = kind === "ablation";
  const all = {
    dense: 13,
    tables: names.map((name) => ({ name, rows: 200_000, dim: 64 })),
    features: names.map((column) => {
      const maxLength = sequences[column as keyof typeof sequences];
      if (maxLength === undefined) return { column };
      const own = { column, pooling: "none" as const, maxLength };
      if (isAblation && column === attended) return own;
      return { ...own, encoder: { kind: "transformer" as const, heads: 2 } };
    }),
    top: [512, 512, 256, 1],
  };
  if (!isAblation) return modelOptions.parse({ kind: "dlrm", ...all, bottom: [512, 256, 64] });
  const attention = [{ target: "item", sequence: attended, hidden: [64, 32] }];
  return modelOptions.parse({ kind: "din", ...all, attention });
}

/** Whether a model has no sequences. */
function isPooled(kind: Kind): boolean {
  return kind === "pooled" || kind === "lists";
}

/** The pooled lists of the user, with the ids of each. */
function pooledOf(kind: Kind): Readonly<Record<string, number>> {
  return kind === "lists" ? manyLists : userLists;
}

/** The lists of a model that repeat, with the ids of each. */
function listsOf(kind: Kind): Readonly<Record<string, number>> {
  if (isPooled(kind)) return pooledOf(kind);
  return { ...userLists, ...sequences, ...(kind === "ablation" && { [attended]: attendedIds }) };
}

/** The lists that each variant of a model deduplicates; its peer trains on plain lists. */
function variantsOf(kind: Kind): Readonly<Record<string, readonly string[]>> {
  const pooled = Object.keys(userLists);
  const all = Object.keys(listsOf(kind));
  if (kind !== "ablation") return { all };
  return { O5: pooled, O6: [...pooled, attended], O7: all };
}

/** Steps of the trainings of one model: on plain lists, and with some lists deduplicated. */
async function rowsOf(kind: Kind, samples: number, options: TrainOptions): Promise<BenchRow[]> {
  const { batch, devices, steps } = options;
  const model = modelOf(kind);
  const names = shapesOf(model).map(({ name }) => name);
  const groupsOf = (lists: readonly string[]): IkjtGroups =>
    lists.map((name) => [names.indexOf(name)]);
  using home = temporaryHome("osiris-bench-");
  const features = Object.entries(listsOf(kind)).map(([name, l]) => [name, { d: kept, l }]);
  const data = dataOptions.parse({
    ...{ kind: "synthetic", samples: batch * batches, dense: 13, batchSize: batch },
    ...{ cache: home.path, sessions: { samples, features: Object.fromEntries(features) } },
  });
  const { path, idsMax } = await prepareCache(data, shapesOf(model), realDisk);
  const variants = variantsOf(kind);
  const trainings = [undefined, ...Object.values(variants).map(groupsOf)];
  const over = new SharedArrayBuffer(4);
  const workOf = (ikjt: IkjtGroups | undefined, index: number): TrainWork => ({
    input: { model, batchSize: batch, slices: 8, idsMax, ikjt },
    recipe: {
      optimizer: optimizerOf(
        { kind: "sgd", learningRate: 0.01 },
        { kind: "rowWiseAdagrad", learningRate: 0.01 },
      ),
      seed: 727,
    },
    turns: { over, trainings: trainings.length, index, steps: turnSteps },
    ...{ devices, depth: 3, batches, seconds: 600, steps, arithmetic: "auto", cache: path },
  });
  const reports = await Promise.all(trainings.map((ikjt, i) => runDevices(workOf(ikjt, i))));
  const [plain = [], ...others] = reports.map(([report]) => turnRates(batch, report?.stepMs ?? []));
  return Object.keys(variants).map((variant, i) => {
    const row = {
      name: nameOf(kind, samples, variant),
      unit: "samples/s",
      limitIs: "on plain lists",
    };
    // Only the row that deduplicates all lists has a target.
    const target = variant === "all" ? targets[kind] : undefined;
    return rowOf({ ...row, ...(target && { target }) }, others[i] ?? [], plain);
  });
}

const targets: Readonly<Partial<Record<Kind, readonly [number, number]>>> = {
  pooled: [1.2, 1.5],
  lists: [1.2, 1.5],
  attention: [1.8, 2.5],
};

/** Samples/s of each turn, without its first step. */
function turnRates(batch: number, stepMs: readonly number[]): number[] {
  const turns = Math.floor(stepMs.length / turnSteps);
  return Array.from({ length: turns }, (_, turn) => {
    const own = stepMs.slice(turn * turnSteps + 1, (turn + 1) * turnSteps);
    return (1000 * batch * own.length) / own.reduce((sum, ms) => sum + ms, 0);
  });
}
