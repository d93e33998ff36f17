// What is counted of each categorical feature while its cache is written: how many ids a sample
// has, how many there are at all, and how often the same id returns. The planner takes these
// counts instead of guesses. They take a bounded time and memory, however long the data is.

import { mix64Low } from "../murmur-hash.ts";
import type { Sample } from "../sample.ts";
import { DistinctSample } from "./distinct-sample.ts";
import { idCounter } from "./id-counts.ts";

/** Samples of the window in which the reuse of ids is counted: the first of the data. */
export const windowSamplesMax = 65_536;

/** One feature's counts over a data set. Plain data, kept in the cache's description. */
export interface FeatureStatistics {
  /** Ids of all bags, exact. */
  readonly idsSum: number;
  /** Mean ids of a bag: the pooling factor. */
  readonly idsMean: number;
  /** Longest bag. */
  readonly idsMax: number;
  /** Distinct ids: exact up to 2,048, of more estimated to 3 % (standard error). */
  readonly distinctIds: number;
  /**
   * Shares of the ids in 64 even runs of the table's rows, from the first row on, exact; left out:
   * unknown, as ids have 64 bits, or an older release counted.
   */
  readonly idShares?: readonly number[];
  /** The first samples, and how often ids return in them. */
  readonly window: {
    readonly samples: number;
    /** Ids of these samples, repeated ones included. */
    readonly ids: number;
    /**
     * Distinct ids by how often each occurs: once, twice, 3–4, 5–8, …, 16,385–32,768 times, more
     * often. As exact as `distinctIds`.
     */
    readonly reuse: readonly number[];
  };
}

/** As many as a table has row blocks at most. */
const rowRuns = 64;
const noRuns = new Float64Array(0);

/** Ids of a feature that are counted at once: one after the other they find its counts nearby. */
const pendingMax = 1024;
/** Records whose ids are taken feature after feature, while a core's cache has them. */
const recordsTogether = 128;

/** Counts one cache's features, sample by sample. */
export class StatisticsCollector {
  readonly #counter = idCounter();
  readonly #wide: readonly boolean[];
  readonly #sums: Float64Array;
  readonly #idsMax: Uint16Array;
  readonly #distinct: readonly DistinctSample[];
  /** (features, pendingMax): ids that are not counted yet; `highs`: empty where none is wide. */
  readonly #lows: Int32Array;
  readonly #highs: Int32Array;
  readonly #pending: Uint16Array;
  /** (pendingMax): hashes of the ids that are counted at once. */
  readonly #hashes = new Int32Array(pendingMax);
  /** Rows of a run of each feature's table; 0: unknown. */
  readonly #runRows: readonly number[];
  /** By feature, (rowRuns): ids in each run. */
  readonly #inRuns: readonly Float64Array[];
  #windows: FeatureStatistics["window"][] = [];
  #samples = 0;

  /** `wide`: whether the ids of each feature have 64 bits; `rows`: of each feature's table. */
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
    // Looked up once: a sample may have thousands of ids.
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
   * As `add`, of `count` samples that have one id of 32 bits in each feature: records of `width`
   * words from word `first` on, whose last words are the ids.
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

  /** The counts of all samples, by feature. */
  finish(): FeatureStatistics[] {
    if (this.#samples < windowSamplesMax) this.#endWindow();
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

  /** Ids beyond the table's rows (of the policies clamp and hash) count nowhere. */
  #sharesOf(feature: number): Pick<FeatureStatistics, "idShares"> {
    const counts = this.#inRuns[feature] ?? noRuns;
    const all = counts.reduce((sum, ids) => sum + ids, 0);
    return all > 0 ? { idShares: Array.from(counts, (ids) => ids / all) } : {};
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
    this.#countAll();
    this.#windows = this.#distinct.map((distinct, feature) => {
      return { samples: this.#samples, ids: this.#sums[feature] ?? 0, reuse: distinct.reuse() };
    });
  }
}
