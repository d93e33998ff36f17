// Detects label leakage: features that predict a binary label on all lines of the data. Mostly such
// a feature was derived from the label, and is unknown when the model has to predict. Also detects
// columns without a value in any line. It takes one pass and bounded memory, and is a function of
// the lines in order.
//
//   dense feature        all values of one class are below all values of the other
//   categorical feature  every bag occurs with one class only, and bags of both classes were seen
//                        again many times
//   both                 missing in every line of one class, present in every line of the other
//
// Most features are ruled out within the first hundred lines, and cost nothing from then on.

import type { DataWarning } from "../cache/cache-format.ts";
import type { FieldColumns } from "../columnar/named-columns.ts";
import { mix32 } from "../murmur-hash.ts";
import type { Sample } from "../sample.ts";

/**
 * Least number of lines of each class, and of repeated bags of each class, for a feature to be
 * reported.
 */
export const evidenceMin = 30;
/** Most distinct bags that are tracked, per feature and in total; later bags are ignored. */
export const bagsMax = 16_384;
export const allBagsMax = 1_048_576;

/** Observes the good lines of the data. */
export class LeakageWatch {
  readonly #columns: FieldColumns;
  readonly #lines: [number, number] = [0, 0];
  #dense: DenseRange[];
  #bags: BagClasses[];

  constructor(columns: FieldColumns) {
    this.#columns = columns;
    this.#dense = columns.dense.map(({ at }) => new DenseRange(at));
    const share = Math.floor(allBagsMax / Math.max(columns.categorical.length, 1));
    this.#bags = columns.categorical.map(({ ids }, feature) => {
      return new BagClasses(feature, ids === "hash", Math.min(bagsMax, share));
    });
  }

  /** Whether all features are ruled out, so that further lines need not be added. */
  get isOver(): boolean {
    return this.#dense.length === 0 && this.#bags.length === 0;
  }

  /** Adds the next good line. */
  add(sample: Sample): void {
    const label = sample.label === 1 ? 1 : 0;
    this.#lines[label]++;
    if (this.#dense.length > 0) this.#addDense(sample, label);
    if (this.#bags.length > 0) this.#addBags(sample, label);
  }

  #addDense(sample: Sample, label: 0 | 1): void {
    let isOut = false;
    for (const range of this.#dense) isOut = !range.add(sample, label) || isOut;
    if (isOut) this.#dense = this.#dense.filter(({ isOpen }) => isOpen);
  }

  #addBags(sample: Sample, label: 0 | 1): void {
    let isOut = false;
    let feature = 0;
    let first = 0;
    for (const bag of this.#bags) {
      while (feature < bag.feature) first += sample.lengths[feature++] ?? 0;
      isOut = !bag.add(sample, first, label) || isOut;
    }
    if (isOut) this.#bags = this.#bags.filter(({ isOpen }) => isOpen);
  }

  /** A warning for each feature that predicts the label of every line, or has no value. */
  warnings(): DataWarning[] {
    const hasEvidence = Math.min(...this.#lines) >= evidenceMin;
    const warningOf = (watched: DenseRange | BagClasses, name: string, option: string) => {
      if (watched.presence.isNever()) return [noValue(name)];
      const separation = hasEvidence ? watched.separation() : undefined;
      return separation === undefined ? [] : [leaks(name, separation, option)];
    };
    const dense = this.#dense.flatMap((range) => {
      const name = this.#columns.dense.find(({ at }) => at === range.at)?.name ?? "";
      return warningOf(range, name, "data.dense");
    });
    const categorical = this.#bags.flatMap((bag) => {
      const name = this.#columns.categorical[bag.feature]?.name ?? "";
      return warningOf(bag, name, "data.categorical");
    });
    return [...dense, ...categorical];
  }
}

/** The warning about a column that predicts the label. */
export function leaks(name: string, separation: string, option: string): DataWarning {
  const message =
    `The column \`${name}\` predicts the label of every line: ${separation}; if it was made from ` +
    `the label, take it out of \`${option}\``;
  return { code: "FEATURE_PREDICTS_LABEL", message };
}

/** The warning about a column without values. */
export function noValue(name: string): DataWarning {
  const message = `The column \`${name}\` has no value in any good line: the model learns nothing of it`;
  return { code: "COLUMN_EMPTY", message };
}

/** A hash of the bag of `length` ids from id `first` on. */
export function bagKeyOf({ ids, highs }: Sample, first: number, length: number): number {
  let key = length;
  for (let i = first; i < first + length; i++) {
    key = mix32(key ^ (ids[i] ?? 0)) ^ Math.imul(highs[i] ?? 0, 0x9e37_79b1);
  }
  return key;
}

/** Counts the lines with and without a value of a feature, by class. */
class Presence {
  readonly #present: [number, number] = [0, 0];
  readonly #absent: [number, number] = [0, 0];

  add(isAbsent: boolean, label: 0 | 1): void {
    if (isAbsent) this.#absent[label]++;
    else this.#present[label]++;
  }

  /** Whether no line has a value. */
  isNever(): boolean {
    return this.#present[0] + this.#present[1] === 0;
  }

  /** Whether presence of the value may still determine the class of every line. */
  isTelling(): boolean {
    const [absent, present] = [this.#absent, this.#present];
    return (absent[0] === 0 && present[1] === 0) || (absent[1] === 0 && present[0] === 0);
  }

  separation(): string | undefined {
    const isBoth = Math.max(...this.#absent) > 0 && Math.max(...this.#present) > 0;
    if (!isBoth || !this.isTelling()) return undefined;
    const label = this.#absent[0] > 0 ? 0 : 1;
    return `it is missing where the label is ${label}, and there where it is ${1 - label}`;
  }
}

/**
 * The ranges of a dense feature's values, by class. A missing value that is filled with the mean
 * later is NaN.
 */
class DenseRange {
  readonly at: number;
  readonly presence = new Presence();
  readonly #min: [number, number] = [Infinity, Infinity];
  readonly #max: [number, number] = [-Infinity, -Infinity];
  #isApart = true;
  isOpen = true;

  constructor(at: number) {
    this.at = at;
  }

  /** Adds a line. Returns whether the feature is not ruled out yet. */
  add({ dense, missing }: Sample, label: 0 | 1): boolean {
    const value = dense[this.at] ?? 0;
    if (value < this.#min[label]) this.#min[label] = value;
    if (value > this.#max[label]) this.#max[label] = value;
    this.#isApart = this.#max[0] < this.#min[1] || this.#max[1] < this.#min[0];
    this.presence.add(missing[this.at] === 1, label);
    this.isOpen = this.#isApart || this.presence.isTelling() || this.presence.isNever();
    return this.isOpen;
  }

  separation(): string | undefined {
    const [min, max] = [this.#min, this.#max];
    const presence = this.presence.separation();
    if (presence !== undefined) return presence;
    if (!this.#isApart || min.includes(Infinity)) return undefined;
    const [low, high] = max[0] < min[1] ? (["0", "1"] as const) : (["1", "0"] as const);
    const [lowMax, highMin] = [Math.min(...max), Math.max(...min)];
    return `at most ${lowMax} where the label is ${low}, at least ${highMin} where it is ${high}`;
  }
}

/** The bags of a categorical feature, and the class of each. */
class BagClasses {
  readonly feature: number;
  readonly presence = new Presence();
  /** Whether table row 0 stands for a missing value. */
  readonly #hasOwnRow: boolean;
  readonly #bagsMax: number;
  readonly #classes = new Map<number, 0 | 1>();
  /** Number of lines of each class whose bag was seen before. */
  readonly #repeats: [number, number] = [0, 0];
  #isPure = true;
  isOpen = true;

  constructor(feature: number, hasOwnRow: boolean, bagsMax: number) {
    this.feature = feature;
    this.#hasOwnRow = hasOwnRow;
    this.#bagsMax = bagsMax;
  }

  /** Adds the bag from id `first` on. Returns whether the feature is not ruled out yet. */
  add(sample: Sample, first: number, label: 0 | 1): boolean {
    const length = sample.lengths[this.feature] ?? 0;
    const isAbsent = length === 0 || (this.#hasOwnRow && length === 1 && sample.ids[first] === 0);
    this.presence.add(isAbsent, label);
    if (this.#isPure) {
      this.#see(bagKeyOf(sample, first, length), label);
    }
    this.isOpen = this.#isPure || this.presence.isTelling() || this.presence.isNever();
    return this.isOpen;
  }

  #see(key: number, label: 0 | 1): void {
    const known = this.#classes.get(key);
    if (known === undefined) {
      if (this.#classes.size < this.#bagsMax) this.#classes.set(key, label);
    } else if (known === label) {
      this.#repeats[label]++;
    } else {
      this.#isPure = false;
      this.#classes.clear();
    }
  }

  separation(): string | undefined {
    const presence = this.presence.separation();
    if (presence !== undefined) return presence;
    if (!this.#isPure || Math.min(...this.#repeats) < evidenceMin) return undefined;
    const { size } = this.#classes;
    const which = size === this.#bagsMax ? `of its first ${size} values` : "of its values";
    return `each ${which} comes with one label only`;
  }
}
