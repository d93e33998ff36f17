// Counter-based random numbers: a number depends only on (seed, purpose, index, step), so that any
// device, any generation and any order of calls draws the same number (law 4).
//
// The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC'11). Key = the job's seed; counter = [index low, index high, step, purpose].

/** The purposes of random numbers. The codes are part of the arithmetic: never renumber. */
export const purposes = {
  denseInit: 1,
  sampleOrder: 2,
  split: 3,
  syntheticIds: 4,
  syntheticTruth: 5,
  syntheticLabel: 6,
  syntheticDense: 7,
  faults: 8,
  syntheticWeights: 9,
  sweep: 10,
  /** The order of an epoch's splits, and of the samples of each split. */
  splitOrder: 11,
  splitRows: 12,
  /** The sessions of generated data. */
  sessionLengths: 13,
  sessionIds: 14,
  sessionChanges: 15,
  sessionTimes: 16,
  cacheSizes: 20,
  /** Random placements, with which plans are compared. */
  placements: 21,
  /** The split of measured costs into training and test data of a cost network. */
  costSamples: 22,
  /** The placements whose costs are measured for cost networks. */
  costProbes: 23,
  /** Initial weights of placement policies; the devices and tasks that their training draws. */
  policyInit: 24,
  policyChoices: 25,
  /** Tasks with which policies are trained and measured. */
  policyTasks: 26,
  /** The permutation of a feature's values among samples, to measure its importance. */
  importance: 27,
  /** The mutations of a fuzzer (test/fuzz). */
  fuzz: 28,
  /** Initial rows of table t: `rowInit + t`. */
  rowInit: 0x1000_0000,
  /** Stochastic rounding of new weights of table t: `rowRounding + t`. */
  rowRounding: 0x3000_0000,
  /** Admission of ids to rows of table t by probability: `admission + t`. */
  admission: 0x4000_0000,
  /** Dropout after layer l: `dropout + l`. */
  dropout: 0x2000_0000,
} as const;

/** The key of a generator: two 32-bit words of the job's seed. */
export type Key = readonly [number, number];

/** The key of a seed: its low and high 32 bits. `seed` is an integer below 2^53. */
export function keyOf(seed: number): Key {
  return [seed >>> 0, Math.floor(seed / 0x1_0000_0000) >>> 0];
}

// Words are signed integers, which V8 adds and multiplies in registers. Unsigned words would be
// floats, and a block would take 1.4 times as long.
const m0 = 0xd251_1f53 | 0;
const m1 = 0xcd9e_8d57 | 0;
const w0 = 0x9e37_79b9 | 0;
const w1 = 0xbb67_ae85 | 0;

/** High 32 bits of the 64-bit product of two unsigned 32-bit integers. */
function mulHigh(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const middle = (Math.imul(aHigh, bLow) + (Math.imul(aLow, bLow) >>> 16)) | 0;
  const cross = (Math.imul(aLow, bHigh) + (middle & 0xffff)) | 0;
  return (Math.imul(aHigh, bHigh) + (middle >>> 16) + (cross >>> 16)) | 0;
}

/** Philox4x32: writes the four random 32-bit words of a counter to `out`. */
export function philox(
  out: Uint32Array,
  key: Key,
  counter: readonly [number, number, number, number],
  rounds = 10,
): void {
  let c0 = counter[0] | 0;
  let c1 = counter[1] | 0;
  let c2 = counter[2] | 0;
  let c3 = counter[3] | 0;
  let k0 = key[0] | 0;
  let k1 = key[1] | 0;
  for (let round = 0; round < rounds; round++) {
    const high0 = mulHigh(m0, c0);
    const low0 = Math.imul(m0, c0);
    const high1 = mulHigh(m1, c2);
    const low1 = Math.imul(m1, c2);
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 = (k0 + w0) | 0;
    k1 = (k1 + w1) | 0;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/** A seeded stream of random numbers for control code and generators: words in counter order. */
export class RandomStream {
  readonly #key: Key;
  readonly #purpose: number;
  readonly #step: number;
  readonly #words = new Uint32Array(4);
  #drawn = 0;

  constructor(seed: number, purpose: number, step = 0) {
    this.#key = keyOf(seed);
    this.#purpose = purpose >>> 0;
    this.#step = step >>> 0;
  }

  /** The next 32 random bits. */
  word(): number {
    const lane = this.#drawn % 4;
    if (lane === 0) {
      const block = this.#drawn / 4;
      const low = block >>> 0;
      const high = Math.floor(block / 0x1_0000_0000) >>> 0;
      philox(this.#words, this.#key, [low, high, this.#step, this.#purpose]);
    }
    this.#drawn++;
    return this.#words[lane] ?? 0;
  }

  /** A uniform number in [0, 1) with 53 random bits. */
  uniform(): number {
    const high = this.word() >>> 5;
    const low = this.word() >>> 6;
    return (high * 0x400_0000 + low) / 0x20_0000_0000_0000;
  }

  /** A uniform integer in [0, limit). */
  below(limit: number): number {
    return Math.floor(this.uniform() * limit);
  }

  /** A standard normal number (Box and Muller). */
  normal(): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    return radius * Math.cos(2 * Math.PI * this.uniform());
  }
}
