// Sessions of generated samples: which session a sample is of, and which list each feature shows
// there. A session has an endless row of ids for each feature, of which a sample shows a window:
//
//   ids of the session   a b c d e f …
//   sample 0             a b c           the first list
//   sample 1             a b c           kept, with probability d
//   sample 2               b c d         shifted by one id
//
// So S samples of a session have 1 + (S - 1)(1 - d) distinct lists on average, and deduplication
// stores 1 / (1 - d (S - 1) / S) times fewer ids.
//
// A sample remains a function of (seed, index). Only where each session begins is kept, 4 bytes a
// session, and in time order where each sample lies.

import { type Key, keyOf, philox, purposes } from "../../ports/random.ts";
import { type ResolvedSessionOptions, sessionSamplesMax } from "./session-options.ts";

/** A batch of 2,048 samples then has about 1.15 of a session of 16.5, as RecD found in its logs. */
const usualOpen = 6400;

/** Where a sample stands. */
export interface SessionPlace {
  readonly session: number;
  /** Samples of its session before it. */
  readonly position: number;
}

/** What decides the sessions. */
interface SessionsShape {
  readonly seed: number;
  readonly samples: number;
  readonly sessions: ResolvedSessionOptions;
  /** Names of the features, in their order. */
  readonly features: readonly string[];
}

/** The sessions of the samples of one seed. */
export class Sessions {
  readonly #key: Key;
  readonly #samples: number;
  readonly #options: ResolvedSessionOptions;
  /** First sample of each session, in session order; then the number of samples. */
  readonly #starts: Uint32Array;
  /** Of each sample in time order, its index in session order; undefined: that is the order. */
  readonly #order: Uint32Array | undefined;
  /** Of each feature, the feature whose draws say when it changes; undefined: not in sessions. */
  readonly #leaders: readonly (number | undefined)[];
  readonly #kept: readonly number[];
  readonly #words = new Uint32Array(4);

  constructor({ seed, samples, sessions, features }: SessionsShape) {
    this.#key = keyOf(seed);
    this.#samples = samples;
    this.#options = sessions;
    const own = features.map((name) => {
      return Object.hasOwn(sessions.features, name) ? sessions.features[name] : undefined;
    });
    this.#kept = own.map((feature) => feature?.d ?? 0);
    this.#leaders = own.map((feature, i) => {
      if (feature?.group === undefined) return feature && i;
      return own.findIndex((other) => other?.group === feature.group);
    });
    this.#starts = this.#lengths();
    this.#order = sessions.order === "time" ? this.#arrivals() : undefined;
  }

  /** Sessions of all samples. The last may be cut. */
  get count(): number {
    return this.#starts.length - 1;
  }

  /** Whether the lists of a feature repeat. */
  has(feature: number): boolean {
    return this.#leaders[feature] !== undefined;
  }

  /** Where the sample at `index` stands. Samples after the last one are the first ones again. */
  placeOf(index: number): SessionPlace {
    const at = index % this.#samples;
    const sorted = this.#order?.[at] ?? at;
    let low = 0;
    let high = this.count;
    while (high - low > 1) {
      const middle = (low + high) >>> 1;
      if ((this.#starts[middle] ?? 0) <= sorted) low = middle;
      else high = middle;
    }
    return { session: low, position: sorted - (this.#starts[low] ?? 0) };
  }

  /** How often the list of a feature has changed in its session, up to this sample. */
  changesOf(feature: number, { session, position }: SessionPlace): number {
    const kept = (this.#kept[feature] ?? 0) * 0x1_0000_0000;
    const leader = this.#leaders[feature] ?? feature;
    let changes = 0;
    for (let i = 0; i < position; i++) {
      if (i % 4 === 0) this.#draw(session, i / 4, leader, purposes.sessionChanges);
      if ((this.#words[i % 4] ?? 0) >= kept) changes++;
    }
    return changes;
  }

  /**
   * When the sample came, in ticks since the first session began: one sample a tick comes of all
   * sessions that are under way.
   */
  timeOf({ session, position }: SessionPlace): number {
    const open = this.#options.open ?? usualOpen;
    let time = session * (this.#options.mean ?? this.#options.samples ?? 1);
    for (let i = 0; i < position; i++) {
      if (i % 4 === 0) this.#draw(session, i / 4, 0, purposes.sessionTimes);
      time -= open * Math.log(((this.#words[i % 4] ?? 0) + 0.5) / 0x1_0000_0000);
    }
    return Math.floor(time);
  }

  /** Where sessions begin. */
  #lengths(): Uint32Array {
    const { mean = 1, samples: fixed } = this.#options;
    const starts: number[] = [];
    let start = 0;
    for (let session = 0; start < this.#samples; session++) {
      starts.push(start);
      start += fixed ?? this.#geometric(session, mean);
    }
    return Uint32Array.from([...starts, this.#samples]);
  }

  #geometric(session: number, mean: number): number {
    if (session % 4 === 0) this.#draw(session / 4, 0, 0, purposes.sessionLengths);
    const uniform = ((this.#words[session % 4] ?? 0) + 0.5) / 0x1_0000_0000;
    const more = mean === 1 ? 0 : Math.floor(Math.log(uniform) / Math.log(1 - 1 / mean));
    return Math.min(sessionSamplesMax, 1 + more);
  }

  /** The samples by their times; where these are equal, in session order. */
  #arrivals(): Uint32Array {
    const keys = new BigUint64Array(this.#samples); // The time above the index: sorted as numbers.
    const halves = new Uint32Array(keys.buffer);
    for (let session = 0; session < this.count; session++) {
      const start = this.#starts[session] ?? 0;
      const end = this.#starts[session + 1] ?? 0;
      for (let i = start; i < end; i++) {
        halves[2 * i] = i;
        halves[2 * i + 1] = this.timeOf({ session, position: i - start });
      }
    }
    keys.sort();
    return Uint32Array.from({ length: this.#samples }, (_, i) => halves[2 * i] ?? 0);
  }

  #draw(index: number, block: number, lane: number, purpose: number): void {
    philox(this.#words, this.#key, [index, block, lane, purpose]);
  }
}
