// Sessions of generated samples: the session of each sample, and the list of each feature in it. A
// session has an endless sequence of ids per feature, and a sample's list is a window of it:
//
//   ids of the session   a b c d e f …
//   sample 0             a b c           the first list
//   sample 1             a b c           kept, with probability d
//   sample 2               b c d         shifted by one id
//
// So S samples of a session have 1 + (S - 1)(1 - d) distinct lists on average, and deduplication
// stores 1 / (1 - d (S - 1) / S) times fewer ids.
//
// A sample stays a function of (seed, index). Memory holds only the start of each session, 4 bytes
// per session, and in time order also the position of each sample.

import { type Key, keyOf, philox, purposes } from "../../ports/random.ts";
import { type ResolvedSessionOptions, sessionSamplesMax } from "./session-options.ts";

/**
 * Default number of concurrent sessions: a batch of 2,048 samples then has about 1.15 samples of a
 * session of 16.5, as RecD measured in its logs.
 */
const usualOpen = 6400;

/** Position of a sample in its session. */
export interface SessionPlace {
  readonly session: number;
  /** Number of earlier samples of its session. */
  readonly position: number;
}

/** The inputs that determine the sessions. */
interface SessionsShape {
  readonly seed: number;
  readonly samples: number;
  readonly sessions: ResolvedSessionOptions;
  /** Names of the features, in order. */
  readonly features: readonly string[];
}

/** The sessions of the samples of one seed. */
export class Sessions {
  readonly #key: Key;
  readonly #samples: number;
  readonly #options: ResolvedSessionOptions;
  /** First sample of each session, in session order; then the number of samples. */
  readonly #starts: Uint32Array;
  /**
   * Index in session order of each sample in time order; undefined if samples come in session
   * order.
   */
  readonly #order: Uint32Array | undefined;
  /**
   * For each feature, the feature whose random draws determine when its list changes; undefined if
   * its lists do not repeat.
   */
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

  /** Number of sessions. The last session may be truncated. */
  get count(): number {
    return this.#starts.length - 1;
  }

  /** Whether the lists of a feature repeat. */
  has(feature: number): boolean {
    return this.#leaders[feature] !== undefined;
  }

  /** The position of the sample at `index`. Indices beyond the last sample wrap around. */
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

  /** Number of changes of a feature's list in its session, up to this sample. */
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
   * Time of the sample, in ticks since the start of the first session. All concurrent sessions
   * together produce one sample per tick on average.
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

  /** Draws the lengths of the sessions. Returns their starts. */
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

  /** The samples sorted by time; samples of equal time stay in session order. */
  #arrivals(): Uint32Array {
    const keys = new BigUint64Array(this.#samples); // High half: the time; low half: the index.
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
