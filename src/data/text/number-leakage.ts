// Detects leakage of a numeric label: features that predict it on all lines of the data, as
// leakage.ts does for classes. Mostly such a feature was derived from the label. It takes one pass
// and bounded memory, and is a function of the lines in order.
//
//   dense feature        the label is a linear function of its values: squared correlation 1
//   categorical feature  every bag occurs with one label only, and many bags were seen again

import type { DataWarning } from "../cache/cache-format.ts";
import type { FieldColumns } from "../columnar/named-columns.ts";
import type { Sample } from "../sample.ts";
import { allBagsMax, bagKeyOf, bagsMax, evidenceMin, leaks, noValue } from "./leakage.ts";

/** Least number of lines with a value, and of repeated bags: as for both classes in leakage.ts. */
const linesMin = 2 * evidenceMin;
/**
 * Largest 1 - r^2 (r: correlation) that counts as a linear function, because values are rounded.
 */
const unexplainedMax = 1e-9;
/** A feature with a larger 1 - r^2 is ruled out; this is checked every `lookEvery` lines. */
const outAbove = 1e-6;
const lookEvery = 64;

/** Observes the good lines of data whose first label is numeric. */
export class NumberLeakageWatch {
  readonly #columns: FieldColumns;
  readonly #dense: readonly StraightLine[];
  readonly #bags: readonly BagLabels[];

  constructor(columns: FieldColumns) {
    this.#columns = columns;
    this.#dense = columns.dense.map(() => new StraightLine());
    const share = Math.floor(allBagsMax / Math.max(columns.categorical.length, 1));
    this.#bags = columns.categorical.map(({ ids }) => {
      return new BagLabels(ids === "hash", Math.min(bagsMax, share));
    });
  }

  /** Whether all features are ruled out, so that further lines need not be added. */
  get isOver(): boolean {
    const isClosed = ({ isOpen }: StraightLine | BagLabels) => !isOpen;
    return this.#dense.every(isClosed) && this.#bags.every(isClosed);
  }

  /** Adds the next good line. */
  add(sample: Sample): void {
    for (const [i, line] of this.#dense.entries()) {
      if (line.isOpen) line.add(sample, this.#columns.dense[i]?.at ?? 0);
    }
    let first = 0;
    for (const [feature, bag] of this.#bags.entries()) {
      if (bag.isOpen) bag.add(sample, feature, first);
      first += sample.lengths[feature] ?? 0;
    }
  }

  /** A warning for each feature that predicts the label of every line, or has no value. */
  warnings(): DataWarning[] {
    const { dense, categorical } = this.#columns;
    const of = (watched: StraightLine | BagLabels | undefined, name: string, option: string) => {
      if (watched?.hasValue === false) return [noValue(name)];
      const why = watched?.separation();
      return why === undefined ? [] : [leaks(name, why, option)];
    };
    return [
      ...dense.flatMap(({ name }, i) => of(this.#dense[i], name, "data.dense")),
      ...categorical.flatMap(({ name }, i) => of(this.#bags[i], name, "data.categorical")),
    ];
  }
}

/** The correlation of a dense feature with the label, over the lines that have a value. */
class StraightLine {
  #lines = 0;
  #meanValue = 0;
  #meanLabel = 0;
  #values = 0;
  #labels = 0;
  #both = 0;
  isOpen = true;

  get hasValue(): boolean {
    return this.#lines > 0;
  }

  /** Adds a line, by Welford's update, which stays accurate for large means. */
  add({ dense, missing, label }: Sample, at: number): void {
    if (missing[at] === 1) return;
    this.#lines++;
    const value = dense[at] ?? 0;
    const [dValue, dLabel] = [value - this.#meanValue, label - this.#meanLabel];
    this.#meanValue += dValue / this.#lines;
    this.#meanLabel += dLabel / this.#lines;
    this.#values += dValue * (value - this.#meanValue);
    this.#labels += dLabel * (label - this.#meanLabel);
    this.#both += dValue * (label - this.#meanLabel);
    if (this.#lines % lookEvery === 0) this.isOpen = !(this.#unexplained() > outAbove);
  }

  /** 1 minus the squared correlation; NaN if value or label never changed. */
  #unexplained(): number {
    return 1 - this.#both ** 2 / (this.#values * this.#labels);
  }

  separation(): string | undefined {
    if (this.#lines < linesMin || !(this.#unexplained() <= unexplainedMax)) return undefined;
    return "the label is a straight line of its values";
  }
}

/** The bags of a categorical feature, and the label of each. */
class BagLabels {
  /** Whether table row 0 stands for a missing value. */
  readonly #hasOwnRow: boolean;
  readonly #bagsMax: number;
  readonly #labels = new Map<number, number>();
  #repeats = 0;
  #least = Infinity;
  #greatest = -Infinity;
  #isPure = true;
  hasValue = false;

  constructor(hasOwnRow: boolean, bagsMaxOwn: number) {
    this.#hasOwnRow = hasOwnRow;
    this.#bagsMax = bagsMaxOwn;
  }

  get isOpen(): boolean {
    return this.#isPure || !this.hasValue;
  }

  /** Adds the bag from id `first` on. */
  add(sample: Sample, feature: number, first: number): void {
    const length = sample.lengths[feature] ?? 0;
    const isAbsent = length === 0 || (this.#hasOwnRow && length === 1 && sample.ids[first] === 0);
    if (!isAbsent) this.hasValue = true;
    if (!this.#isPure) return;
    const key = bagKeyOf(sample, first, length);
    const known = this.#labels.get(key);
    if (known === undefined) {
      if (this.#labels.size < this.#bagsMax) this.#labels.set(key, sample.label);
    } else if (known === sample.label) {
      this.#repeats++;
      this.#least = Math.min(this.#least, known);
      this.#greatest = Math.max(this.#greatest, known);
    } else {
      this.#isPure = false;
      this.#labels.clear();
    }
  }

  separation(): string | undefined {
    const isTold = this.#repeats >= linesMin && this.#least < this.#greatest;
    return this.#isPure && isTold ? "each of its values comes with one label only" : undefined;
  }
}
