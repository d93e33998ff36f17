// The watches of single features for label leakage (leakage.ts). The state of a watch is plain
// data, which the watch of other lines can absorb, so that files are read in any order.

import { mix32 } from "../murmur-hash.ts";
import type { Sample } from "../sample.ts";

/**
 * Least number of lines of each class, and of repeated bags of each class, for a feature to be
 * reported.
 */
export const evidenceMin = 30;
/** Least number of lines with a value, and of repeated bags, if the label is a number. */
const linesMin = 2 * evidenceMin;
/** A feature that is watched until it is ruled out. */
export interface Watched {
  /** Whether it may still predict the label, or has no value yet. */
  readonly isOpen: boolean;
  /** Whether any line has a value. */
  readonly hasValue: boolean;
  /** How it predicts the label; undefined if it does not, or on too few lines. */
  separation(): string | undefined;
}

interface PresenceState {
  readonly present: readonly [number, number];
  readonly absent: readonly [number, number];
}

/** Counts the lines with and without a value of a feature, by class. */
class Presence {
  readonly #present: [number, number] = [0, 0];
  readonly #absent: [number, number] = [0, 0];

  add(isAbsent: boolean, { label }: Sample): void {
    const counts = isAbsent ? this.#absent : this.#present;
    counts[label === 1 ? 1 : 0]++;
  }

  get hasValue(): boolean {
    return this.#present[0] + this.#present[1] > 0;
  }

  state(): PresenceState {
    return { present: [...this.#present], absent: [...this.#absent] };
  }

  absorb({ present, absent }: PresenceState): void {
    for (const label of [0, 1] as const) {
      this.#present[label] += present[label];
      this.#absent[label] += absent[label];
    }
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
    return `it is missing where the label is ${label}, and present where it is ${1 - label}`;
  }
}

/** The state of a `DenseRange`, as plain data. */
export interface RangeState {
  readonly presence: PresenceState;
  readonly min: readonly [number, number];
  readonly max: readonly [number, number];
}

/**
 * The ranges of a dense feature's values, by class. A missing value that is filled with the mean
 * later is NaN.
 */
export class DenseRange implements Watched {
  readonly #at: number;
  readonly #presence = new Presence();
  readonly #min: [number, number] = [Infinity, Infinity];
  readonly #max: [number, number] = [-Infinity, -Infinity];
  #isApart = true;
  isOpen = true;

  constructor(at: number) {
    this.#at = at;
  }

  get hasValue(): boolean {
    return this.#presence.hasValue;
  }

  /** Adds a line. Returns whether the feature is not ruled out yet. */
  add(sample: Sample): boolean {
    const value = sample.dense[this.#at] ?? 0;
    const label = sample.label === 1 ? 1 : 0;
    if (value < this.#min[label]) this.#min[label] = value;
    if (value > this.#max[label]) this.#max[label] = value;
    this.#presence.add(sample.missing[this.#at] === 1, sample);
    this.#look();
    return this.isOpen;
  }

  state(): RangeState {
    return { presence: this.#presence.state(), min: [...this.#min], max: [...this.#max] };
  }

  absorb({ presence, min, max }: RangeState): void {
    for (const label of [0, 1] as const) {
      this.#min[label] = Math.min(this.#min[label], min[label]);
      this.#max[label] = Math.max(this.#max[label], max[label]);
    }
    this.#presence.absorb(presence);
    const wasOpen = this.isOpen;
    this.#look();
    this.isOpen &&= wasOpen;
  }

  #look(): void {
    this.#isApart = this.#max[0] < this.#min[1] || this.#max[1] < this.#min[0];
    this.isOpen = this.#isApart || this.#presence.isTelling() || !this.hasValue;
  }

  separation(): string | undefined {
    const [min, max] = [this.#min, this.#max];
    const presence = this.#presence.separation();
    if (presence !== undefined) return presence;
    if (!this.#isApart || min.includes(Infinity)) return undefined;
    const [low, high] = max[0] < min[1] ? (["0", "1"] as const) : (["1", "0"] as const);
    const [lowMax, highMin] = [Math.min(...max), Math.max(...min)];
    return `at most ${lowMax} where the label is ${low}, at least ${highMin} where it is ${high}`;
  }
}

/**
 * Largest 1 - r^2 (r: correlation) that counts as a linear function, because values are rounded.
 */
const unexplainedMax = 1e-9;
/** A feature with a larger 1 - r^2 is ruled out; this is checked every `lookEvery` lines. */
const outAbove = 1e-6;
const lookEvery = 64;

/** The state of a `StraightLine`, as plain data. */
export interface LineState {
  readonly lines: number;
  readonly meanValue: number;
  readonly meanLabel: number;
  readonly values: number;
  readonly labels: number;
  readonly both: number;
}

/** The correlation of a dense feature with a numeric label, over the lines that have a value. */
export class StraightLine implements Watched {
  readonly #at: number;
  #lines = 0;
  #meanValue = 0;
  #meanLabel = 0;
  #values = 0;
  #labels = 0;
  #both = 0;
  isOpen = true;

  constructor(at: number) {
    this.#at = at;
  }

  get hasValue(): boolean {
    return this.#lines > 0;
  }

  /** As `DenseRange.add`, by Welford's update, which stays accurate for large means. */
  add({ dense, missing, label }: Sample): boolean {
    if (missing[this.#at] === 1) return true;
    this.#lines++;
    const value = dense[this.#at] ?? 0;
    const [dValue, dLabel] = [value - this.#meanValue, label - this.#meanLabel];
    this.#meanValue += dValue / this.#lines;
    this.#meanLabel += dLabel / this.#lines;
    this.#values += dValue * (value - this.#meanValue);
    this.#labels += dLabel * (label - this.#meanLabel);
    this.#both += dValue * (label - this.#meanLabel);
    if (this.#lines % lookEvery === 0) {
      // A column of one value explains nothing. Left open, it would keep all lines on the slow
      // path.
      const isConstant = this.#values === 0 && this.#lines >= linesMin;
      this.isOpen = !isConstant && !(this.#unexplained() > outAbove);
    }
    return this.isOpen;
  }

  state(): LineState {
    return {
      lines: this.#lines,
      meanValue: this.#meanValue,
      meanLabel: this.#meanLabel,
      values: this.#values,
      labels: this.#labels,
      both: this.#both,
    };
  }

  /** Adds the moments of further lines (Chan, Golub, LeVeque 1979). */
  absorb({ lines, meanValue, meanLabel, values, labels, both }: LineState): void {
    if (lines === 0) return;
    const [own, all] = [this.#lines, this.#lines + lines];
    const [dValue, dLabel] = [meanValue - this.#meanValue, meanLabel - this.#meanLabel];
    const weight = (own * lines) / all;
    this.#lines = all;
    this.#meanValue += (dValue * lines) / all;
    this.#meanLabel += (dLabel * lines) / all;
    this.#values += values + dValue ** 2 * weight;
    this.#labels += labels + dLabel ** 2 * weight;
    this.#both += both + dValue * dLabel * weight;
    if (this.#unexplained() > outAbove) this.isOpen = false;
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

/** The state of a `BagLabels`, as plain data. */
export interface BagState {
  readonly presence: PresenceState;
  readonly isPure: boolean;
  readonly labels: ReadonlyMap<number, number>;
  readonly repeats: ReadonlyMap<number, number>;
}

/** The bags of a categorical feature, and the label of each. */
export class BagLabels implements Watched {
  readonly feature: number;
  /** Whether table row 0 stands for a missing value. */
  readonly #hasOwnRow: boolean;
  readonly #bagsMax: number;
  readonly #isNumber: boolean;
  readonly #presence = new Presence();
  readonly #labels = new Map<number, number>();
  /** How often each bag was seen again. */
  readonly #repeats = new Map<number, number>();
  #isPure = true;
  isOpen = true;

  constructor(feature: number, hasOwnRow: boolean, most: number, isNumber: boolean) {
    this.feature = feature;
    this.#hasOwnRow = hasOwnRow;
    this.#bagsMax = most;
    this.#isNumber = isNumber;
  }

  get hasValue(): boolean {
    return this.#presence.hasValue;
  }

  /** Adds the bag from id `first` on. Returns whether the feature is not ruled out yet. */
  add(sample: Sample, first: number): boolean {
    const length = sample.lengths[this.feature] ?? 0;
    const isAbsent = length === 0 || (this.#hasOwnRow && length === 1 && sample.ids[first] === 0);
    this.#presence.add(isAbsent, sample);
    if (this.#isPure) this.#see(bagKeyOf(sample, first, length), sample.label);
    this.#look();
    return this.isOpen;
  }

  state(): BagState {
    const [labels, repeats] = [new Map(this.#labels), new Map(this.#repeats)];
    return { presence: this.#presence.state(), isPure: this.#isPure, labels, repeats };
  }

  absorb({ presence, isPure, labels, repeats }: BagState): void {
    this.#presence.absorb(presence);
    if (!isPure) this.#mix();
    for (const [key, label] of this.#isPure ? labels : []) {
      const again = repeats.get(key) ?? 0;
      if (this.#labels.has(key)) this.#see(key, label, 1 + again);
      else if (this.#labels.size < this.#bagsMax) {
        this.#labels.set(key, label);
        if (again > 0) this.#repeats.set(key, again);
      }
    }
    const wasOpen = this.isOpen;
    this.#look();
    this.isOpen &&= wasOpen;
  }

  #look(): void {
    const isTelling = !this.#isNumber && this.#presence.isTelling();
    this.isOpen = this.#isPure || isTelling || !this.hasValue;
  }

  /** Notes that a bag occurs with several labels. */
  #mix(): void {
    this.#isPure = false;
    this.#labels.clear();
    this.#repeats.clear();
  }

  #see(key: number, label: number, times = 1): void {
    const known = this.#labels.get(key);
    if (known === undefined) {
      if (this.#labels.size < this.#bagsMax) this.#labels.set(key, label);
    } else if (known === label) {
      this.#repeats.set(key, (this.#repeats.get(key) ?? 0) + times);
    } else this.#mix();
  }

  separation(): string | undefined {
    const presence = this.#isNumber ? undefined : this.#presence.separation();
    if (presence !== undefined) return presence;
    let [all, ones, least, most] = [0, 0, Infinity, -Infinity];
    for (const [key, times] of this.#repeats) {
      const label = this.#labels.get(key) ?? 0;
      all += times;
      if (label === 1) ones += times;
      least = Math.min(least, label);
      most = Math.max(most, label);
    }
    const hasEvidence = this.#isNumber
      ? all >= linesMin && least < most
      : Math.min(ones, all - ones) >= evidenceMin;
    if (!this.#isPure || !hasEvidence) return undefined;
    const { size } = this.#labels;
    const which = size === this.#bagsMax ? `of its first ${size} values` : "of its values";
    return `each ${which} comes with one label only`;
  }
}

/** A hash of the bag of `length` ids from id `first` on. */
function bagKeyOf({ ids, highs }: Sample, first: number, length: number): number {
  let key = length;
  for (let i = first; i < first + length; i++) {
    key = mix32(key ^ (ids[i] ?? 0)) ^ Math.imul(highs[i] ?? 0, 0x9e37_79b1);
  }
  return key;
}
