// Collects facts about the good lines of all files while they are read: means of dense columns,
// value counts, and warnings.

import type { CacheMeta, DataWarning } from "../cache/cache-format.ts";
import type { FieldColumns } from "../columnar/named-columns.ts";
import { type PlainRecords, placesOf } from "../columnar/plain-records.ts";
import { ValueWatch } from "../columnar/value-watch.ts";
import type { Sample } from "../sample.ts";
import { meanFeatures } from "./columns.ts";
import { type LeakageState, LeakageWatch } from "./leakage.ts";

/** The facts of some files that depend on all lines, as plain data. */
export interface TextFactsState {
  readonly leakage: LeakageState | undefined;
  /** Sum and count of the values of each feature whose mean is wanted. */
  readonly sums: readonly number[];
  readonly counts: readonly number[];
}

/**
 * The facts that are collected: all; only facts that depend on all `lines`; or only the `values` of
 * the first samples, to which `absorb` adds the facts of lines.
 */
export type FactsScope = "all" | "lines" | "values";

/** The facts of the files so far. */
export class TextFacts {
  readonly #scope: FactsScope;
  #leakage: LeakageWatch | undefined;
  #values: ValueWatch | undefined;
  #denseAt = 0;
  #meanFeatures: readonly number[] = [];
  /**
   * For each of `#meanFeatures`: sums of values over earlier files and over the present file, and
   * the count. Sums per file are added, so that the result is the same if threads share the files.
   */
  #sums: number[] = [];
  #fileSums: number[] = [];
  #counts: number[] = [];
  readonly #emptyFiles: DataWarning[] = [];

  constructor(scope: FactsScope = "all") {
    this.#scope = scope;
  }

  /**
   * Starts the next file. Returns its columns, with value watches attached. All files have the same
   * names and features.
   */
  of<Columns extends FieldColumns>(columns: Columns): Columns {
    this.#endFile();
    if (this.#leakage !== undefined) return this.#values?.attachedTo(columns) ?? columns;
    this.#leakage = new LeakageWatch(columns);
    this.#denseAt = placesOf(columns)?.denseAt ?? 0; // Unused without a record layout.
    this.#meanFeatures = meanFeatures(columns);
    this.#sums = this.#meanFeatures.map(() => 0);
    this.#fileSums = this.#meanFeatures.map(() => 0);
    this.#counts = this.#meanFeatures.map(() => 0);
    if (this.#scope !== "lines") this.#values = new ValueWatch(columns);
    return this.#values?.attachedTo(columns) ?? columns;
  }

  /** Whether values of further samples are counted. */
  get needsValues(): boolean {
    return this.#values === undefined || this.#values.isOpen;
  }

  /** Whether only the facts that `addRecords` collects are still open. */
  get needsRecordsAlone(): boolean {
    return this.#leakage?.isOver === true && this.#values?.isOpen !== true;
  }

  /** Adds the next good line. */
  add(sample: Sample): void {
    if (Number.isNaN(sample.label))
      this.#values?.drop(); // The label is missing.
    else {
      if (this.#scope !== "values") this.#leakage?.add(sample);
      this.#values?.add(sample);
    }
    if (this.#scope === "values") return;
    for (let i = 0; i < this.#meanFeatures.length; i++) {
      this.#addValue(i, sample.dense[this.#meanFeatures[i] ?? 0] ?? 0);
    }
  }

  /** Discards the values of a bad line, which is no sample. */
  drop(): void {
    this.#values?.drop();
  }

  /** Adds the next good lines: `count` records from record `first` on. */
  addRecords({ words, starts }: PlainRecords, first: number, count: number): void {
    if (this.#meanFeatures.length === 0) return;
    const floats = new Float32Array(words.buffer, words.byteOffset, words.length);
    for (const [i, at] of this.#meanFeatures.entries()) {
      for (let record = first; record < first + count; record++) {
        this.#addValue(i, floats[(starts[record] ?? 0) + this.#denseAt + at] ?? 0);
      }
    }
  }

  #addValue(i: number, value: number): void {
    if (Number.isNaN(value)) return;
    this.#fileSums[i] = (this.#fileSums[i] ?? 0) + value;
    this.#counts[i] = (this.#counts[i] ?? 0) + 1;
  }

  #endFile(): void {
    for (let i = 0; i < this.#sums.length; i++) {
      this.#sums[i] = (this.#sums[i] ?? 0) + (this.#fileSums[i] ?? 0);
      this.#fileSums[i] = 0;
    }
  }

  /** The facts of the lines so far, as plain data. */
  state(): TextFactsState {
    this.#endFile();
    return { leakage: this.#leakage?.state(), sums: this.#sums, counts: this.#counts };
  }

  /** Adds the facts of the lines of the next file. */
  absorb({ leakage, sums, counts }: TextFactsState): void {
    if (leakage !== undefined) this.#leakage?.absorb(leakage);
    for (let i = 0; i < this.#sums.length; i++) {
      this.#sums[i] = (this.#sums[i] ?? 0) + (sums[i] ?? 0);
      this.#counts[i] = (this.#counts[i] ?? 0) + (counts[i] ?? 0);
    }
  }

  /**
   * Adds a warning about a file without a good line: among many files, its bad lines may be too few
   * to reach `rejectedMax`.
   */
  addEmptyFile(path: string, bad: number, word: "line" | "row" = "line"): void {
    if (this.#emptyFiles.length === emptyFilesMax) return;
    const none = word === "row" ? "it has none" : "it has no line but the header";
    const why = bad === 0 ? none : `it has ${bad} bad ones`;
    const message = `The data file ${path} has no good ${word}: ${why}`;
    this.#emptyFiles.push({ code: "FILE_WITHOUT_SAMPLES", message });
  }

  meta(): Pick<CacheMeta, "means" | "warnings" | "values"> {
    this.#endFile();
    const leaks = this.#leakage?.warnings() ?? [];
    const isKnown = (name: string) => leaks.some(({ message }) => message.includes(`\`${name}\``));
    const ofValues = this.#values?.warnings(isKnown) ?? [];
    const warnings = [...leaks, ...ofValues, ...this.#emptyFiles];
    const values = this.#values?.values() ?? [];
    if (this.#meanFeatures.length === 0) return { warnings, values };
    const means = this.#meanFeatures.map((at, i): [number, number] => {
      const count = this.#counts[i] ?? 0;
      return [at, count === 0 ? 0 : (this.#sums[i] ?? 0) / count];
    });
    return { means: Object.fromEntries(means), warnings, values };
  }
}

/** Most files without a good line that are reported. */
const emptyFilesMax = 10;
