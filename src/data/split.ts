// Splits a dataset into views for training, validation and test. The same options and data give the
// same parts on every host.
//
//   random   the first samples of a permutation by the seed are validation, the next ones the test
//   order    the last lines are the test, the lines before them validation
//   time     the latest keys are the test, the keys before them validation; a key is in one part
//   hash     the lowest hashes are validation, the next ones the test; a key is in one part

import assert from "node:assert/strict";
import { InvalidOptionError } from "../errors/errors.ts";
import { expected } from "../ports/check-options.ts";
import { purposes } from "../ports/random.ts";
import type { SplitSpec } from "./column-options.ts";
import { dateOf, momentOf } from "./columnar/exact-values.ts";
import type { Dataset, SampleNumbers, SampleRange } from "./dataset.ts";
import { Permutation } from "./permutation.ts";
import type { SplitKeys } from "./split-keys.ts";

/** A part of a random split. */
export interface RandomPart {
  /** Fraction of validation, above 0 and below 1. */
  readonly fraction: number;
  /** Fraction of the test; left out if there is none. */
  readonly testFraction?: number | undefined;
  readonly part: "train" | "heldOut" | "test";
}

/** Samples whose index (`place`) or key is at least `from` and less than `to`. */
export interface RangePart {
  readonly by: "place" | "key";
  /** @default -Infinity */
  readonly from?: number | undefined;
  /** @default Infinity */
  readonly to?: number | undefined;
}

/** A part of a dataset. Plain data, sent between hosts. */
export type DatasetPart = RandomPart | RangePart;

export interface SizedPart<Part extends DatasetPart = DatasetPart> {
  readonly samples: number;
  readonly split: Part;
}

/** The parts of one set of files. */
export interface SplitPlan {
  readonly training: SizedPart;
  readonly evaluation: SizedPart;
  readonly test?: SizedPart;
}

/** Fractions of the parts, and the kind of split; `split` left out means random. */
export interface SplitShares {
  readonly fraction: number;
  readonly testFraction?: number | undefined;
  readonly split?: SplitSpec | undefined;
}

/**
 * Plans the split of `samples` samples. `keysOf` reads their keys, if a column splits them.
 * @throws InvalidOptionError if a part would be empty, or a boundary is not of the column's type
 */
export function planSplit(
  samples: number,
  shares: SplitShares,
  keysOf: () => SplitKeys,
): SplitPlan {
  const { fraction, testFraction, split } = shares;
  if (samples > listedMax && split?.kind !== "order") throw tooMany(samples, split);
  if (split === undefined) return checked(samples, shares, randomPlan(samples, shares));
  const tests = testFraction === undefined ? 0 : Math.round(samples * testFraction);
  const held = Math.round(samples * fraction);
  if (split.kind === "order") {
    const [from, testFrom] = [samples - tests - held, samples - tests];
    const places = (first = 0, end = samples) => Math.max(0, end - Math.max(0, first));
    return checked(samples, shares, rangePlan("place", from, testFrom, shares, places));
  }
  const keys = keysOf();
  const count = (from = -Infinity, to = Infinity) =>
    keys.values.reduce((sum, key) => (key >= from && key < to ? sum + 1 : sum), 0);
  if (split.kind === "hash") {
    return checked(samples, shares, hashPlan(shares, count), keys);
  }
  const [from, testFrom] = timeBoundaries(keys, shares, split, held, tests);
  return checked(samples, shares, rangePlan("key", from, testFrom, shares, count), keys);
}

/** The error of a part that must be a list, of more samples than 32-bit numbers can index. */
function tooMany(samples: number, split: SplitSpec | undefined): InvalidOptionError {
  const option = split === undefined ? "evaluation.fraction" : "evaluation.split.kind";
  const by = split === undefined ? "are drawn" : "a column splits";
  const message =
    `Expected at most ${listedMax} samples that ${by}, got ${samples}: set \`evaluation.split\` ` +
    'to `{ kind: "order" }`, which evaluates on the last samples';
  return new InvalidOptionError(option, message);
}

function randomPlan(samples: number, { fraction, testFraction }: SplitShares): SplitPlan {
  const shares = { fraction, ...(testFraction === undefined ? {} : { testFraction }) };
  const [held, tests] = heldOutOf(samples, shares);
  const training = {
    samples: samples - held - tests,
    split: { ...shares, part: "train" },
  } as const;
  const evaluation = { samples: held, split: { ...shares, part: "heldOut" } } as const;
  if (testFraction === undefined) return { training, evaluation };
  return { training, evaluation, test: { samples: tests, split: { ...shares, part: "test" } } };
}

/** Numbers of validation and test samples, from their fractions. */
function heldOutOf(
  samples: number,
  { fraction, testFraction = 0 }: Pick<SplitShares, "fraction" | "testFraction">,
): [number, number] {
  return [Math.round(samples * fraction), Math.round(samples * testFraction)];
}

/** Training before `from`, validation before `testFrom`, then the test, if there is one. */
function rangePlan(
  by: RangePart["by"],
  from: number,
  testFrom: number,
  { testFraction }: SplitShares,
  count: (from?: number, to?: number) => number,
): SplitPlan {
  const part = (range: Omit<RangePart, "by">) => {
    return { samples: count(range.from, range.to), split: { by, ...range } };
  };
  const training = part({ to: from });
  if (testFraction === undefined) return { training, evaluation: part({ from }) };
  return { training, evaluation: part({ from, to: testFrom }), test: part({ from: testFrom }) };
}

function hashPlan(
  { fraction, testFraction }: SplitShares,
  count: (from?: number, to?: number) => number,
): SplitPlan {
  const part = (range: Omit<RangePart, "by">) => {
    return { samples: count(range.from, range.to), split: { by: "key" as const, ...range } };
  };
  const hashes = 2 ** 32;
  const to = Math.round(fraction * hashes);
  const testTo = Math.round((fraction + (testFraction ?? 0)) * hashes);
  const parts = { training: part({ from: testTo }), evaluation: part({ to }) };
  return testFraction === undefined ? parts : { ...parts, test: part({ from: to, to: testTo }) };
}

/**
 * The times at which validation and test begin. Samples of the same time stay together, in the
 * later part.
 */
function timeBoundaries(
  { form, values }: SplitKeys,
  { testFraction }: SplitShares,
  { column, from, testFrom }: Extract<SplitSpec, { kind: "time" }>,
  held: number,
  tests: number,
): [number, number] {
  const named = (option: string, value: number | string): number => {
    const moment = momentOf(String(value));
    if (moment?.form === form) return moment.value;
    const has = form === "date" ? "an ISO date" : "a number";
    throw expected(`evaluation.split.${option}`, `${has}, as the column \`${column}\` has`, value);
  };
  if (from !== undefined) {
    return [named("from", from), testFrom === undefined ? Infinity : named("testFrom", testFrom)];
  }
  const sorted = values.slice().sort();
  const end = sorted.length - tests;
  const testAt = testFraction === undefined ? Infinity : (sorted[end] ?? Infinity);
  const before = testAt === Infinity ? sorted.length : sorted.indexOf(testAt);
  return [sorted[Math.max(0, before - held)] ?? -Infinity, testAt];
}

/** Returns the plan. @throws InvalidOptionError if a part has no samples */
function checked(
  samples: number,
  { fraction, testFraction, split }: SplitShares,
  plan: SplitPlan,
  keys?: SplitKeys,
): SplitPlan {
  const { training, evaluation, test } = plan;
  if ([training, evaluation, test].every((part) => part === undefined || part.samples > 0)) {
    return plan;
  }
  if (split === undefined && testFraction === undefined) {
    const expectation = `a share that leaves samples in both parts of ${samples}`;
    throw expected("evaluation.fraction", expectation, fraction);
  }
  const option = split === undefined ? "evaluation.test.fraction" : "evaluation.split";
  const got =
    `${training.samples} for training, ${evaluation.samples} for validation` +
    (test === undefined ? "" : `, ${test.samples} for the test`);
  const column = split === undefined || split.kind === "order" ? undefined : split.column;
  const what = keys && column !== undefined ? `; ${rangeOf(keys, column)}` : "";
  const message =
    `Expected \`${option}\` to leave samples in each part of ${samples}, got ${got}${what}: ` +
    "change the shares, or where the parts begin";
  throw new InvalidOptionError(option, message);
}

/** A clause that describes the keys of a column, for messages. */
function rangeOf({ form, values }: SplitKeys, column: string): string {
  if (form === "hash") return `\`${column}\` has ${new Set(values).size} values`;
  const [least, most] = [values.reduce(min, Infinity), values.reduce(max, -Infinity)];
  const shown = (value: number) => (form === "date" ? dateOf(value) : `${value}`);
  return `\`${column}\` goes from ${shown(least)} to ${shown(most)}`;
}

const min = (one: number, other: number) => Math.min(one, other);
const max = (one: number, other: number) => Math.max(one, other);

/**
 * A view of one part of `dataset`, in the order of the dataset. The parts are disjoint and
 * complete. A view of drawn samples, or of a range of keys, takes 4 bytes per sample. Closing it
 * closes the dataset. `keysOf` reads the keys of the samples, if a column splits them.
 * @throws InvalidOptionError if a part would be empty
 */
export function splitDataset(
  dataset: Dataset,
  part: DatasetPart & { readonly seed: number },
  keysOf?: () => SplitKeys,
): Dataset {
  return viewOf(dataset, samplesOf(dataset.samples, part, keysOf));
}

/**
 * The pieces of a part of `samples` samples: first position of each in the part, then the end.
 * `starts`: first sample of each piece of the whole, then the end.
 */
export function piecesOf(
  part: DatasetPart & { readonly seed: number },
  samples: number,
  starts: SampleNumbers,
  keysOf?: () => SplitKeys,
): SampleNumbers {
  return placesIn(samplesOf(samples, part, keysOf), starts);
}

/** The samples of a part: a range, or a list of at most `listedMax`, ascending. */
type Chosen = SampleRange | Uint32Array;

/** Most samples of which a part may be a list: their numbers have 32 bits. */
const listedMax = 2 ** 32;

/** The samples of a part out of `samples`. */
function samplesOf(
  samples: number,
  part: DatasetPart & { readonly seed: number },
  keysOf: (() => SplitKeys) | undefined,
): Chosen {
  if (!("by" in part)) return drawn(samples, part);
  const { by, from = -Infinity, to = Infinity } = part;
  if (by === "place") {
    const within = (place: number) => Math.min(Math.max(0, Math.ceil(place)), samples);
    return { first: within(from), end: Math.max(within(from), within(to)) };
  }
  const keys = keysOf?.().values;
  assert(keys !== undefined, "keys where a column splits the data");
  return chosenOf(samples, (sample) => {
    const key = keys[sample] ?? 0;
    return key >= from && key < to;
  });
}

/** The samples of a random part, ascending. */
function drawn(
  size: number,
  { seed, ...wanted }: RandomPart & { readonly seed: number },
): Uint32Array {
  const [held, tests] = heldOutOf(size, wanted);
  if (!(held > 0 && tests >= 0 && held + tests < size)) {
    const expectation = `a share that leaves samples in both parts of ${size}`;
    throw expected("fraction", expectation, wanted.fraction);
  }
  const parts = new Uint8Array(size);
  const permutation = new Permutation({ seed, purpose: purposes.split, step: 0, size });
  for (let i = 0; i < held + tests; i++) parts[permutation.at(i)] = i < held ? 1 : 2;
  const number = { train: 0, heldOut: 1, test: 2 }[wanted.part];
  return chosenOf(size, (sample) => parts[sample] === number);
}

function chosenOf(samples: number, isChosen: (sample: number) => boolean): Uint32Array {
  const chosen = new Uint32Array(samples);
  let count = 0;
  for (let sample = 0; sample < samples; sample++) if (isChosen(sample)) chosen[count++] = sample;
  return chosen.slice(0, count);
}

function viewOf(dataset: Dataset, chosen: Chosen): Dataset {
  let scratch = new Float64Array(0);
  const samples = countOf(chosen);
  // An index beyond the view becomes an index beyond the dataset, which refuses it.
  const sampleAt = (index: number) => (index < samples ? numberAt(chosen, index) : dataset.samples);
  return {
    samples,
    pieces: dataset.pieces && placesIn(chosen, dataset.pieces),
    isStreamed: dataset.isStreamed,
    dense: dataset.dense,
    features: dataset.features,
    wide: dataset.wide,
    weighted: dataset.weighted,
    idsMax: dataset.idsMax,
    targets: dataset.targets,
    read(indices, batch) {
      if (scratch.length < indices.length) scratch = new Float64Array(indices.length);
      for (let b = 0; b < indices.length; b++) scratch[b] = sampleAt(indices[b] ?? 0);
      return dataset.read(scratch.subarray(0, indices.length), batch);
    },
    hold(now, next) {
      const rangeOf = ({ first, end }: SampleRange) => {
        return { first: numberAt(chosen, first), end: numberAt(chosen, end - 1) + 1 };
      };
      return dataset.hold(now.map(rangeOf), next.map(rangeOf));
    },
    get bytesRead() {
      return dataset.bytesRead;
    },
    close: () => dataset.close(),
  };
}

function countOf(chosen: Chosen): number {
  return isList(chosen) ? chosen.length : chosen.end - chosen.first;
}

function isList(chosen: Chosen): chosen is Uint32Array {
  return chosen instanceof Uint32Array;
}

/** The number, in the dataset, of the sample at `index` of a part. */
function numberAt(chosen: Chosen, index: number): number {
  return isList(chosen) ? (chosen[index] ?? 0) : chosen.first + index;
}

/**
 * Position in `chosen` of each of the ascending `samples`, or of the next larger one. Duplicate
 * positions are dropped, so that a piece without a chosen sample disappears.
 */
function placesIn(chosen: Chosen, samples: SampleNumbers): SampleNumbers {
  const count = countOf(chosen);
  let at = 0;
  const places = samples.map((sample) => {
    if (!isList(chosen)) return Math.min(Math.max(0, sample - chosen.first), count);
    while (at < count && (chosen[at] ?? 0) < sample) at++;
    return at;
  });
  return places.filter((place, i) => i === 0 || place !== places[i - 1]);
}
