// Detects label leakage: features that predict the first label on all lines of the data. Mostly
// such a feature was derived from the label, and is unknown when the model has to predict. Also
// detects columns without a value in any line. It takes one pass and bounded memory, and is a
// function of the lines in order.
//
//                        the label is a class                  the label is a number
//   dense feature        all values of one class are below     the label is a linear function of
//                        all values of the other               its values: squared correlation 1
//   categorical feature  every bag occurs with one label only, and bags of several labels were seen
//                        again many times
//   both                 missing in every line of one class,   -
//                        present in every line of the other
//
// Most features are ruled out within the first hundred lines, and cost nothing from then on.

import type { DataWarning } from "../cache/cache-format.ts";
import type { FieldColumns } from "../columnar/named-columns.ts";
import type { Sample } from "../sample.ts";
import {
  BagLabels,
  type BagState,
  DenseRange,
  evidenceMin,
  type LineState,
  type RangeState,
  StraightLine,
  type Watched,
} from "./leakage-features.ts";

/** Most distinct bags that are tracked, per feature and in total; later bags are ignored. */
const bagsMax = 16_384;
const allBagsMax = 1_048_576;

/** The state of a watch as plain data; undefined: the feature is ruled out. */
export interface LeakageState {
  readonly lines: readonly [number, number];
  readonly dense: readonly (RangeState | LineState | undefined)[];
  readonly bags: readonly (BagState | undefined)[];
}

/** Observes the good lines of the data. */
export class LeakageWatch {
  readonly #columns: FieldColumns;
  readonly #isNumber: boolean;
  readonly #lines: [number, number] = [0, 0];
  readonly #dense: readonly (DenseRange | StraightLine)[];
  readonly #bags: readonly BagLabels[];
  /** The features that are not ruled out. */
  #openDense: readonly (DenseRange | StraightLine)[];
  #openBags: readonly BagLabels[];

  constructor(columns: FieldColumns) {
    this.#columns = columns;
    this.#isNumber = columns.numeric?.[0] === true;
    this.#dense = columns.dense.map(({ at }) => {
      return this.#isNumber ? new StraightLine(at) : new DenseRange(at);
    });
    const share = Math.floor(allBagsMax / Math.max(columns.categorical.length, 1));
    const most = Math.min(bagsMax, share);
    this.#bags = columns.categorical.map(({ ids }, feature) => {
      return new BagLabels(feature, ids === "hash", most, this.#isNumber);
    });
    this.#openDense = this.#dense;
    this.#openBags = this.#bags;
  }

  /** Whether all features are ruled out, so that further lines need not be added. */
  get isOver(): boolean {
    return this.#openDense.length === 0 && this.#openBags.length === 0;
  }

  /** Adds the next good line. */
  add(sample: Sample): void {
    let isOut = false;
    if (!this.#isNumber) this.#lines[sample.label === 1 ? 1 : 0]++;
    for (const feature of this.#openDense) isOut = !feature.add(sample) || isOut;
    if (isOut) this.#openDense = this.#openDense.filter(({ isOpen }) => isOpen);
    isOut = false;
    let [feature, first] = [0, 0];
    for (const bag of this.#openBags) {
      while (feature < bag.feature) first += sample.lengths[feature++] ?? 0;
      isOut = !bag.add(sample, first) || isOut;
    }
    if (isOut) this.#openBags = this.#openBags.filter(({ isOpen }) => isOpen);
  }

  state(): LeakageState {
    const lines = [...this.#lines] as const;
    const stateOf = <State>(one: { isOpen: boolean; state(): State }) =>
      one.isOpen ? one.state() : undefined;
    return {
      lines,
      dense: this.#dense.map((one) => stateOf<RangeState | LineState>(one)),
      bags: this.#bags.map((one) => stateOf(one)),
    };
  }

  /** Adds the state of another watch of the same features, on later lines. */
  absorb({ lines, dense, bags }: LeakageState): void {
    this.#lines[0] += lines[0];
    this.#lines[1] += lines[1];
    for (const [i, one] of this.#dense.entries()) {
      const state = dense[i];
      if (state === undefined) one.isOpen = false;
      else if (one instanceof DenseRange) one.absorb(state as RangeState);
      else one.absorb(state as LineState);
    }
    for (const [i, one] of this.#bags.entries()) {
      const state = bags[i];
      if (state === undefined) one.isOpen = false;
      else one.absorb(state);
    }
    this.#openDense = this.#dense.filter(({ isOpen }) => isOpen);
    this.#openBags = this.#bags.filter(({ isOpen }) => isOpen);
  }

  /** A warning for each feature that predicts the label of every line, or has no value. */
  warnings(): DataWarning[] {
    const { dense, categorical } = this.#columns;
    const hasEvidence = this.#isNumber || Math.min(...this.#lines) >= evidenceMin;
    const of = (watched: Watched | undefined, name: string, option: string) => {
      if (watched?.isOpen !== true) return [];
      if (!watched.hasValue) return [noValue(name)];
      const separation = hasEvidence ? watched.separation() : undefined;
      return separation === undefined ? [] : [leaks(name, separation, option)];
    };
    return [
      ...dense.flatMap(({ name }, i) => of(this.#dense[i], name, "data.dense")),
      ...categorical.flatMap(({ name }, i) => of(this.#bags[i], name, "data.categorical")),
    ];
  }
}

/** The warning about a column that predicts the label. */
function leaks(name: string, separation: string, option: string): DataWarning {
  const message =
    `The column \`${name}\` predicts the label of every line: ${separation}; if it was made from ` +
    `the label, take it out of \`${option}\``;
  return { code: "FEATURE_PREDICTS_LABEL", message };
}

/** The warning about a column without values. */
function noValue(name: string): DataWarning {
  const message = `The column \`${name}\` has no value in any good line: the model learns nothing of it`;
  return { code: "COLUMN_EMPTY", message };
}
