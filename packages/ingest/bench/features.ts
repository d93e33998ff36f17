// Random features for the bench (ladder.bench.ts) and the jobs that read them, in the proportions
// of the paper's tables (Zhao et al., Understanding data storage and ingestion, ISCA 2022), scaled
// down.
//
// An eighth of the features are lists of about 26 ids, the others numbers. A job reads a tenth of
// them, popular ones more often; popular features are logged in more rows and have longer lists, so
// that this tenth has a fifth to a third of the bytes.

import { RandomStream } from "../../../src/ports/random.ts";

/** A feature, with its values of all rows. R = rows, N = ids of all its lists. */
export interface Feature {
  readonly name: string;
  /** The feature's key in the map columns. */
  readonly key: number;
  readonly values: NumberValues | ListValues;
}

export interface NumberValues {
  readonly kind: "number";
  /** (R): NaN where the feature is not logged. */
  readonly numbers: Float32Array;
}

export interface ListValues {
  readonly kind: "list";
  /** (R): 0 where the feature is not logged, or empty. */
  readonly present: Uint8Array;
  /** (R + 1) */
  readonly offsets: Int32Array;
  /** (N) */
  readonly ids: Int32Array;
}

/** Rows of many features, and the jobs that read them. */
export interface Logged {
  readonly rows: number;
  /** Features by key: in the order in which they were added to the log, not by popularity. */
  readonly features: readonly Feature[];
  /** For each of some recent jobs, the keys of the features that it read. */
  readonly recentJobs: readonly (readonly number[])[];
  /** The keys of the features that the measured job reads. It is not one of the recent jobs. */
  readonly job: readonly number[];
}

/** One feature in `listsEvery` is a list of ids. */
const listsEvery = 8;
/** A job reads one feature in `readEvery`. */
const readEvery = 10;
/** Number of recent jobs, from which popularity is counted. */
const recentJobs = 100;
/**
 * Chosen so that the most popular 17.5 % of the bytes serve 80 % of the jobs' reads. In the paper's
 * tables, these are 18 to 39 % of the bytes.
 */
const popularityExponent = 3;
/** Mean ids of a list, and different ids of a feature. */
const meanIds = 26;
const vocabulary = 50_000;

/** Draws rows of features, which are the same for the same arguments. */
export function drawLogged(rows: number, features: number): Logged {
  const random = new RandomStream(1, 1);
  const ranks = shuffled(features, random);
  const drawn = Array.from({ length: features }, (_, key): Feature => {
    // 0: the most popular, 1: the least.
    const place = (ranks[key] ?? 0) / features;
    const coverage = 0.9 - 0.65 * place;
    const isList = key % listsEvery === 0;
    const values = isList
      ? drawLists(rows, coverage, meanIds * 2.5 * (1 - place) ** 1.5, random)
      : drawNumbers(rows, coverage, random);
    return { name: `${isList ? "list" : "number"}_${key}`, key, values };
  });
  // The greatest keys after adding Gumbel noise are a weighted draw without replacement.
  const drawJob = () => {
    const scores = Float64Array.from(ranks, (rank) => {
      return -popularityExponent * Math.log(rank + 1) - Math.log(-Math.log(1 - random.uniform()));
    });
    const keys = [...scores.keys()].sort((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0));
    return keys.slice(0, Math.ceil(features / readEvery)).sort((a, b) => a - b);
  };
  const jobs = Array.from({ length: recentJobs + 1 }, drawJob);
  return { rows, features: drawn, recentJobs: jobs.slice(1), job: jobs[0] ?? [] };
}

/** A permutation of 0 … count - 1. */
function shuffled(count: number, random: RandomStream): Int32Array {
  const order = Int32Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const other = random.below(i + 1);
    [order[i], order[other]] = [order[other] ?? 0, order[i] ?? 0];
  }
  return order;
}

function drawNumbers(rows: number, coverage: number, random: RandomStream): NumberValues {
  const numbers = Float32Array.from({ length: rows }, () => {
    return random.uniform() < coverage ? random.word() / 2 ** 32 : Number.NaN;
  });
  return { kind: "number", numbers };
}

function drawLists(rows: number, coverage: number, mean: number, random: RandomStream): ListValues {
  const present = new Uint8Array(rows);
  const offsets = new Int32Array(rows + 1);
  for (let row = 0; row < rows; row++) {
    const isLogged = random.uniform() < coverage;
    // At least one id: an empty list would equal a list that is not logged.
    const length = isLogged ? 1 + random.below(2 * mean) : 0;
    present[row] = Number(isLogged);
    offsets[row + 1] = (offsets[row] ?? 0) + length;
  }
  const ids = Int32Array.from({ length: offsets[rows] ?? 0 }, () => {
    return Math.floor(vocabulary * (random.word() / 2 ** 32) ** 3);
  });
  return { kind: "list", present, offsets, ids };
}

/**
 * The features in order of popularity: by the number of recent jobs that read them, then by key.
 */
export function byPopularity({ features, recentJobs: jobs }: Logged): Feature[] {
  const readers = new Int32Array(features.length);
  for (const keys of jobs) for (const key of keys) readers[key] = (readers[key] ?? 0) + 1;
  return [...features].sort((a, b) => (readers[b.key] ?? 0) - (readers[a.key] ?? 0));
}
