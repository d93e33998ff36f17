// What is counted of each categorical feature while its cache is written: how many ids a sample
// has, how many there are at all, and how often the same id returns. The planner takes these
// counts instead of guesses. They take a bounded time and memory, however long the data is.

import { mix32, mix64Low } from "../murmur-hash.ts";
import type { Sample } from "../sample.ts";
import { HyperLogLog } from "./hyper-log-log.ts";
import { type ReuseCounts, ReuseWindow } from "./reuse-window.ts";

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
  /** Distinct ids, estimated: to 1.6 % (standard error). */
  readonly distinctIds: number;
  /** How often ids return within the first samples. */
  readonly window: ReuseCounts & { readonly samples: number };
}

/** Counts one cache's features, sample by sample. */
export class StatisticsCollector {
  readonly #wide: readonly boolean[];
  readonly #sums: Float64Array;
  readonly #idsMax: Uint16Array;
  readonly #distinct: readonly HyperLogLog[];
  /** Undefined once the window is over, so that its memory is free. */
  #windows: readonly ReuseWindow[] | undefined;
  #counts: readonly ReuseCounts[] = [];
  #samples = 0;

  /** `wide`: whether the ids of each feature have 64 bits. */
  constructor(wide: readonly boolean[]) {
    this.#wide = wide;
    this.#sums = new Float64Array(wide.length);
    this.#idsMax = new Uint16Array(wide.length);
    this.#distinct = wide.map((isWide) => new HyperLogLog(isWide));
    this.#windows = wide.map(() => new ReuseWindow());
  }

  /** Longest bag of each feature. */
  get idsMax(): number[] {
    return Array.from(this.#idsMax);
  }

  add({ lengths, ids, highs }: Sample): void {
    const windows = this.#windows;
    let end = 0;
    for (let feature = 0; feature < lengths.length; feature++) {
      const length = lengths[feature] ?? 0;
      let at = end;
      end += length;
      this.#sums[feature] = (this.#sums[feature] ?? 0) + length;
      if (length > (this.#idsMax[feature] ?? 0)) this.#idsMax[feature] = length;
      const distinct = this.#distinct[feature];
      const window = windows?.[feature];
      const isWide = this.#wide[feature] === true;
      for (; at < end; at++) {
        const low = ids[at] ?? 0;
        const hash = isWide ? mix64Low(low, highs[at] ?? 0) : mix32(low);
        distinct?.add(hash);
        window?.add(hash);
      }
    }
    this.#samples++;
    if (this.#samples === windowSamplesMax) this.#endWindow();
  }

  /** The counts so far, by feature. */
  finish(): FeatureStatistics[] {
    if (this.#windows !== undefined) this.#endWindow();
    const samples = Math.min(this.#samples, windowSamplesMax);
    return this.#counts.map((counts, feature): FeatureStatistics => {
      const idsSum = this.#sums[feature] ?? 0;
      return {
        idsSum,
        idsMean: idsSum / Math.max(1, this.#samples),
        idsMax: this.#idsMax[feature] ?? 0,
        distinctIds: this.#distinct[feature]?.count() ?? 0,
        window: { samples, ...counts },
      };
    });
  }

  #endWindow(): void {
    this.#counts = this.#windows?.map((window) => window.counts()) ?? [];
    this.#windows = undefined;
  }
}
