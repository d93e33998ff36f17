// Finds features that predict the label perfectly on all lines of the training data: most often
// such a feature was made from the label, and is not known when the model has to predict. One pass,
// bounded memory, and a function of the lines in their order.
//
//   dense feature        all values of one class lie below all values of the other
//   categorical feature  every bag comes with one class only, and bags of both classes were seen
//                        again many times; or it is missing in one class and there in the other
//
// Most features are out within the first hundred lines, and cost nothing from then on.

import type { DataWarning } from "../cache/cache-format.ts";
import { mix32 } from "../murmur-hash.ts";
import type { Sample } from "../sample.ts";
import type { Columns } from "./columns.ts";

/** Fewest lines of each class, and fewest repeated bags of each, before a feature is named. */
const evidenceMin = 30;
/** Distinct bags that are remembered, of one feature and of all; later ones are not looked at. */
const bagsMax = 16_384;
const allBagsMax = 1_048_576;

/** Watches the good lines of the data. */
export class LeakageWatch {
  readonly #columns: Columns;
  readonly #lines: [number, number] = [0, 0];
  #dense: DenseRange[];
  #bags: BagClasses[];

  constructor(columns: Columns) {
    this.#columns = columns;
    this.#dense = columns.dense.map(({ at }) => new DenseRange(at));
    const share = Math.floor(allBagsMax / Math.max(columns.categorical.length, 1));
    this.#bags = columns.categorical.map(({ ids }, feature) => {
      return new BagClasses(feature, ids === "hash", Math.min(bagsMax, share));
    });
  }

  /** Takes the next good line. */
  add(sample: Sample): void {
    const label = sample.label === 1 ? 1 : 0;
    this.#lines[label]++;
    if (this.#dense.length > 0) this.#addDense(sample, label);
    if (this.#bags.length > 0) this.#addBags(sample, label);
  }

  #addDense(sample: Sample, label: 0 | 1): void {
    let isOut = false;
    for (const range of this.#dense) isOut = !range.add(sample, label) || isOut;
    if (isOut) this.#dense = this.#dense.filter(({ isSeparate }) => isSeparate);
  }

  #addBags(sample: Sample, label: 0 | 1): void {
    let isOut = false;
    let feature = 0;
    let first = 0;
    for (const bag of this.#bags) {
      while (feature < bag.feature) first += sample.lengths[feature++] ?? 0;
      isOut = !bag.add(sample, first, label) || isOut;
    }
    if (isOut) this.#bags = this.#bags.filter(({ isSeparate }) => isSeparate);
  }

  /** One sentence for each feature that predicts the label of every line. */
  warnings(): DataWarning[] {
    if (Math.min(...this.#lines) < evidenceMin) return [];
    const dense = this.#dense.flatMap((range) => {
      const name = this.#columns.dense.find(({ at }) => at === range.at)?.name ?? "";
      return warningOf(name, range.separation(), "data.dense");
    });
    const categorical = this.#bags.flatMap((bag) => {
      const name = this.#columns.categorical[bag.feature]?.name ?? "";
      return warningOf(name, bag.separation(), "data.categorical");
    });
    return [...dense, ...categorical];
  }
}

function warningOf(name: string, separation: string | undefined, option: string): DataWarning[] {
  if (separation === undefined) return [];
  const message =
    `The column \`${name}\` predicts the label of every line: ${separation}; if it was made from ` +
    `the label, take it out of \`${option}\``;
  return [{ code: "FEATURE_PREDICTS_LABEL", message }];
}

/** The values of a dense feature, by class. A missing value that awaits the mean is NaN. */
class DenseRange {
  readonly at: number;
  readonly #min: [number, number] = [Infinity, Infinity];
  readonly #max: [number, number] = [-Infinity, -Infinity];
  isSeparate = true;

  constructor(at: number) {
    this.at = at;
  }

  /** Returns whether the classes are still apart. */
  add({ dense }: Sample, label: 0 | 1): boolean {
    const value = dense[this.at] ?? 0;
    if (value < this.#min[label]) this.#min[label] = value;
    if (value > this.#max[label]) this.#max[label] = value;
    this.isSeparate = this.#max[0] < this.#min[1] || this.#max[1] < this.#min[0];
    return this.isSeparate;
  }

  separation(): string | undefined {
    const [min, max] = [this.#min, this.#max];
    if (!this.isSeparate || min.includes(Infinity)) return undefined;
    const [low, high] = max[0] < min[1] ? (["0", "1"] as const) : (["1", "0"] as const);
    const [lowMax, highMin] = [Math.min(...max), Math.max(...min)];
    return `at most ${lowMax} where the label is ${low}, at least ${highMin} where it is ${high}`;
  }
}

/** The bags of a categorical feature, each with its class. */
class BagClasses {
  readonly feature: number;
  /** Whether row 0 is the row of a missing value. */
  readonly #hasOwnRow: boolean;
  readonly #bagsMax: number;
  readonly #classes = new Map<number, 0 | 1>();
  /** Lines of each class whose bag was seen before. */
  readonly #repeats: [number, number] = [0, 0];
  /** Lines with a value and without one, of each class. */
  readonly #present: [number, number] = [0, 0];
  readonly #absent: [number, number] = [0, 0];
  #isPure = true;
  isSeparate = true;

  constructor(feature: number, hasOwnRow: boolean, bagsMax: number) {
    this.feature = feature;
    this.#hasOwnRow = hasOwnRow;
    this.#bagsMax = bagsMax;
  }

  /** Takes the bag that begins at id `first`. Returns whether the classes are still apart. */
  add({ lengths, ids, highs }: Sample, first: number, label: 0 | 1): boolean {
    const length = lengths[this.feature] ?? 0;
    const isAbsent = length === 0 || (this.#hasOwnRow && length === 1 && ids[first] === 0);
    if (isAbsent) this.#absent[label]++;
    else this.#present[label]++;
    if (this.#isPure) {
      let key = length;
      for (let i = first; i < first + length; i++) {
        key = mix32(key ^ (ids[i] ?? 0)) ^ Math.imul(highs[i] ?? 0, 0x9e37_79b1);
      }
      this.#see(key, label);
    }
    this.isSeparate = this.#isPure || this.#isTold();
    return this.isSeparate;
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

  /** Whether being there tells the class of every line. */
  #isTold(): boolean {
    const [absent, present] = [this.#absent, this.#present];
    return (absent[0] === 0 && present[1] === 0) || (absent[1] === 0 && present[0] === 0);
  }

  separation(): string | undefined {
    const isBoth = Math.max(...this.#absent) > 0 && Math.max(...this.#present) > 0;
    if (isBoth && this.#isTold()) {
      const label = this.#absent[0] > 0 ? 0 : 1;
      return `it is missing where the label is ${label}, and there where it is ${1 - label}`;
    }
    if (!this.#isPure || Math.min(...this.#repeats) < evidenceMin) return undefined;
    const { size } = this.#classes;
    const which = size === this.#bagsMax ? `of its first ${size} values` : "of its values";
    return `each ${which} comes with one label only`;
  }
}
