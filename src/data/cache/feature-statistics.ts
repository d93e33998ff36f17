// Statistics of each categorical feature, collected while the cache is written: ids per sample,
// distinct ids, and how often an id recurs. The planner uses them instead of guesses. Memory, and
// time per sample, do not grow with the data.

import { mix64Low } from "../murmur-hash.ts";
import type { Sample } from "../sample.ts";
import { DistinctSample, type DistinctState } from "./distinct-sample.ts";
import { idCounter } from "./id-counts.ts";

/** Number of samples, from the start of the data, in which the reuse of ids is counted. */
export const windowSamplesMax = 65_536;

/** One feature's statistics over a data set. Plain data, stored in the cache's description. */
export interface FeatureStatistics {
  /** Total ids of all bags, exact. */
  readonly idsSum: number;
  /** Mean ids of a bag: the pooling factor. */
  readonly idsMean: number;
  /** Longest bag. */
  readonly idsMax: number;
  /** Distinct ids: exact up to 2,048, above that an estimate with 3 % standard error. */
  readonly distinctIds: number;
  /**
   * Fractions of the ids that fall into each of 64 equal ranges of the table's rows, in row order,
   * exact. Left out if unknown: ids of 64 bits, or an early index.
   */
  readonly idShares?: readonly number[];
  /** Reuse of ids within the first samples. */
  readonly window: {
    readonly samples: number;
    /** Ids of these samples, repeated ones included. */
    readonly ids: number;
    /**
     * Histogram of the distinct ids by number of occurrences: once, twice, 3–4, 5–8, …,
     * 16,385–32,768, more. As exact as `distinctIds`.
     */
    readonly reuse: readonly number[];
  };
}

/** Number of row ranges: the most row blocks that a table can have. */
const rowRuns = 64;
const noRuns = new Float64Array(0);

/**
 * Ids of one feature that are counted together, while the core's cache holds the feature's
 * counters.
 */
const pendingMax = 1024;
/** Fewest distinct ids of a feature in a state. */
const distinctMin = 64;
/** Records whose ids are collected feature by feature, few enough to stay in the core's cache. */
const recordsTogether = 128;

/** The statistics of some samples, as plain data. */
export interface StatisticsState {
  readonly samples: number;
  readonly sums: Float64Array;
  readonly idsMax: Uint16Array;
  readonly distinct: readonly DistinctState[];
  /** Ids by row range of each feature; empty if unknown. */
  readonly inRuns: readonly Float64Array[];
  /** Reuse in the first samples, if there are more samples. */
  readonly windows: readonly FeatureStatistics["window"][];
}

/** Bytes of the distinct ids of all features in a state. */
const stateBytes = 0x10_0000;

/** Collects the statistics of a cache's features, sample by sample. */
export class StatisticsCollector {
  readonly #counter = idCounter();
  readonly #wide: readonly boolean[];
  readonly #sums: Float64Array;
  readonly #idsMax: Uint16Array;
  readonly #distinct: readonly DistinctSample[];
  /** (features, pendingMax): ids not yet counted. `#highs` is empty if no feature is wide. */
  readonly #lows: Int32Array;
  readonly #highs: Int32Array;
  readonly #pending: Uint16Array;
  /** (pendingMax): hashes of the wide ids that are counted together. */
  readonly #hashes = new Int32Array(pendingMax);
  /** Rows per row range of each feature's table; 0 if unknown. */
  readonly #runRows: readonly number[];
  /** By feature, (rowRuns): ids in each row range. */
  readonly #inRuns: readonly Float64Array[];
  #windows: readonly FeatureStatistics["window"][] = [];
  #samples = 0;
  /** Whether the window is complete. */
  #isWindowOver = false;

  /** `wide`: whether the ids of each feature have 64 bits; `rows`: rows of each feature's table. */
  constructor(wide: readonly boolean[], rows: readonly number[] = []) {
    this.#wide = wide;
    this.#sums = new Float64Array(wide.length);
    this.#idsMax = new Uint16Array(wide.length);
    this.#distinct = wide.map(() => new DistinctSample(this.#counter));
    this.#lows = new Int32Array(pendingMax * wide.length);
    this.#highs = new Int32Array(wide.includes(true) ? this.#lows.length : 0);
    this.#pending = new Uint16Array(wide.length);
    this.#runRows = wide.map((is, i) => (is ? 0 : Math.ceil((rows[i] ?? 0) / rowRuns)));
    this.#inRuns = wide.map(() => new Float64Array(rowRuns));
  }

  /** Longest bag of each feature. */
  get idsMax(): number[] {
    return Array.from(this.#idsMax);
  }

  add({ lengths, ids, highs }: Pick<Sample, "lengths" | "ids" | "highs">): void {
    // Private fields are looked up once, because a sample may have thousands of ids.
    const [sums, idsMax, waiting, lows] = [this.#sums, this.#idsMax, this.#pending, this.#lows];
    let end = 0;
    for (let feature = 0; feature < lengths.length; feature++) {
      const length = lengths[feature] ?? 0;
      let at = end;
      end += length;
      sums[feature] = (sums[feature] ?? 0) + length;
      if (length > (idsMax[feature] ?? 0)) idsMax[feature] = length;
      const isWide = this.#wide[feature] === true;
      const first = feature * pendingMax;
      let pending = waiting[feature] ?? 0;
      for (; at < end; at++) {
        lows[first + pending] = ids[at] ?? 0;
        if (isWide) this.#highs[first + pending] = highs[at] ?? 0;
        if (++pending < pendingMax) continue;
        this.#count(feature, pending);
        pending = 0;
      }
      waiting[feature] = pending;
    }
    this.#samples++;
    if (this.#samples === windowSamplesMax) this.#endWindow();
  }

  /**
   * As `add`, for `count` samples with exactly one 32-bit id per feature: records of `width` words
   * from word `first` on, which end in their ids.
   */
  addRecords(words: Int32Array, first: number, count: number, width: number): void {
    for (let done = 0; done < count; ) {
      const untilWindow =
        this.#samples < windowSamplesMax ? windowSamplesMax - this.#samples : count;
      const some = Math.min(count - done, recordsTogether, untilWindow);
      this.#addSome(words, first + done * width, some, width);
      done += some;
      this.#samples += some;
      if (this.#samples === windowSamplesMax) this.#endWindow();
    }
  }

  #addSome(words: Int32Array, first: number, count: number, width: number): void {
    const [sums, idsMax, waiting, lows] = [this.#sums, this.#idsMax, this.#pending, this.#lows];
    const features = sums.length;
    const end = first + count * width;
    for (let feature = 0; feature < features; feature++) {
      sums[feature] = (sums[feature] ?? 0) + count;
      if (idsMax[feature] === 0) idsMax[feature] = 1;
      const start = feature * pendingMax;
      let pending = waiting[feature] ?? 0;
      for (let at = first + width - features + feature; at < end; at += width) {
        lows[start + pending] = words[at] ?? 0;
        if (++pending < pendingMax) continue;
        this.#count(feature, pending);
        pending = 0;
      }
      waiting[feature] = pending;
    }
  }

  /** Completes the statistics, by feature. */
  finish(): FeatureStatistics[] {
    if (!this.#isWindowOver) this.#endWindow();
    this.#countAll();
    return this.#windows.map((window, feature): FeatureStatistics => {
      const idsSum = this.#sums[feature] ?? 0;
      return {
        idsSum,
        idsMean: idsSum / Math.max(1, this.#samples),
        idsMax: this.#idsMax[feature] ?? 0,
        distinctIds: this.#distinct[feature]?.distinct(this.#wide[feature] === true) ?? 0,
        ...this.#sharesOf(feature),
        window,
      };
    });
  }

  /**
   * Fractions of the ids by row range. Ids beyond the table's rows (policies clamp and hash) are
   * not counted.
   */
  #sharesOf(feature: number): Pick<FeatureStatistics, "idShares"> {
    const counts = this.#inRuns[feature] ?? noRuns;
    const all = counts.reduce((sum, ids) => sum + ids, 0);
    return all > 0 ? { idShares: Array.from(counts, (ids) => ids / all) } : {};
  }

  /** The statistics so far, as plain data. */
  state(): StatisticsState {
    this.#countAll();
    const most = Math.floor(stateBytes / (8 * Math.max(1, this.#wide.length)));
    return {
      samples: this.#samples,
      sums: this.#sums,
      idsMax: this.#idsMax,
      distinct: this.#distinct.map((one) => one.state(Math.max(distinctMin, most))),
      inRuns: this.#inRuns.map((runs) => (runs.some((ids) => ids > 0) ? runs : noRuns)),
      windows: this.#isWindowOver ? this.#windows : [],
    };
  }

  /**
   * Adds the statistics of the next file. The window ends before a file that does not fit into it;
   * if not even the first file fits, the window of that file is used.
   */
  absorb({ samples, sums, idsMax, distinct, inRuns, windows }: StatisticsState): void {
    if (!this.#isWindowOver && this.#samples + samples > windowSamplesMax) {
      if (this.#samples > 0) this.#endWindow();
      else {
        this.#windows = windows;
        this.#isWindowOver = true;
      }
    }
    this.#samples += samples;
    for (let i = 0; i < sums.length; i++) {
      this.#sums[i] = (this.#sums[i] ?? 0) + (sums[i] ?? 0);
      this.#idsMax[i] = Math.max(this.#idsMax[i] ?? 0, idsMax[i] ?? 0);
      const [state, runs] = [distinct[i], this.#inRuns[i] ?? noRuns];
      if (state !== undefined) this.#distinct[i]?.absorb(state);
      for (const [run, ids] of inRuns[i]?.entries() ?? []) runs[run] = (runs[run] ?? 0) + ids;
    }
  }

  #countAll(): void {
    for (const [feature, pending] of this.#pending.entries()) this.#count(feature, pending);
    this.#pending.fill(0);
  }

  #count(feature: number, pending: number): void {
    const isWide = this.#wide[feature] === true;
    const [lows, highs, hashes] = [this.#lows, this.#highs, this.#hashes];
    const first = feature * pendingMax;
    const runRows = this.#runRows[feature] ?? 0;
    const end = first + pending;
    if (runRows > 0) {
      const runs = this.#inRuns[feature] ?? noRuns;
      this.#counter.countRuns(runs, lows, first, end, 1 / runRows);
    }
    if (!isWide) {
      this.#distinct[feature]?.add(lows, first, end, false);
      return;
    }
    for (let i = 0; i < pending; i++) {
      hashes[i] = mix64Low(lows[first + i] ?? 0, highs[first + i] ?? 0);
    }
    this.#distinct[feature]?.add(hashes, 0, pending, true);
  }

  #endWindow(): void {
    this.#isWindowOver = true;
    this.#countAll();
    this.#windows = this.#distinct.map((distinct, feature) => {
      return { samples: this.#samples, ids: this.#sums[feature] ?? 0, reuse: distinct.reuse() };
    });
  }
}
