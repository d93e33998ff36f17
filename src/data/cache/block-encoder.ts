// Writes samples into the blocks of a cache: 32 samples and where each of them begins, in words
// (cache-format.ts has the format). A cache keeps the blocks; where there is an index alone,
// readers make them again.

import type { Sample } from "../sample.ts";
import { oneLabel, type Targets } from "../targets.ts";
import { blockSamples, sampleHeadWords } from "./cache-format.ts";

/** What decides the words of a sample. */
export interface BlockShape {
  readonly dense: number;
  readonly features: number;
  /** Whether the ids of each feature have 64 bits. */
  readonly wide: readonly boolean[];
  /** Whether the ids of each feature have weights; `[]`: no feature has them. */
  readonly weighted: readonly boolean[];
  /** What a sample has beside its features. @default one label */
  readonly targets?: Targets | undefined;
}

/** Words of a block before its first record. */
const startsWords = blockSamples + 1;

/** Collects samples until they are a block. */
export class BlockEncoder {
  readonly #shape: BlockShape;
  readonly #headWords: number;
  /** Whether ids have 32 bits and no weights: bags then lie side by side, as in a sample. */
  readonly #isPlain: boolean;
  /** The current block: room for where its samples begin, then their records. */
  #words = new Int32Array(4096);
  #floats = new Float32Array(this.#words.buffer);
  #used = startsWords;
  #samples = 0;

  constructor(shape: BlockShape) {
    this.#shape = shape;
    this.#headWords = sampleHeadWords(shape);
    this.#isPlain = !shape.wide.includes(true) && !shape.weighted.includes(true);
  }

  /** Appends a copy of a sample. Returns the block that it completes, valid until the next call. */
  append(sample: Sample): Int32Array | undefined {
    const { dense, lengths, idCount } = sample;
    this.#reserve(this.#headWords + 3 * idCount);
    // Looked up once: a sample may have thousands of words.
    const [words, floats] = [this.#words, this.#floats];
    let at = this.#writeTargets(sample, this.#used);
    for (let i = 0; i < dense.length; i++) floats[at++] = dense[i] ?? 0;
    for (let feature = 0; feature < lengths.length; feature += 2) {
      words[at++] = (lengths[feature] ?? 0) | ((lengths[feature + 1] ?? 0) << 16);
    }
    if (this.#isPlain) {
      const { ids } = sample;
      for (let i = 0; i < idCount; i++) words[at++] = ids[i] ?? 0;
    } else at = this.#writeBags(sample, at);
    this.#used = at;
    this.#words[++this.#samples] = this.#used;
    return this.#samples === blockSamples ? this.#end() : undefined;
  }

  /** Samples that the block has room for. */
  get room(): number {
    return blockSamples - this.#samples;
  }

  /**
   * Appends records that are written already: `count` of them, for which there is room, of `width`
   * words each, side by side from word `from` on. As `append`.
   */
  appendRecords(
    records: Int32Array,
    from: number,
    count: number,
    width: number,
  ): Int32Array | undefined {
    this.#reserve(count * width);
    const words = this.#words;
    words.set(records.subarray(from, from + count * width), this.#used);
    for (let i = 0; i < count; i++) {
      this.#used += width;
      words[++this.#samples] = this.#used;
    }
    return this.#samples === blockSamples ? this.#end() : undefined;
  }

  /** The last block, which has fewer samples; undefined: there is none. */
  rest(): Int32Array | undefined {
    return this.#samples === 0 ? undefined : this.#end();
  }

  /** Writes what a sample has beside its features from word `start` on. Returns the end. */
  #writeTargets({ labels, sampleWeight, group }: Sample, start: number): number {
    const { hasSampleWeights, hasGroups } = this.#shape.targets ?? oneLabel;
    let at = start;
    for (let i = 0; i < labels.length; i++) this.#floats[at++] = labels[i] ?? 0;
    if (hasSampleWeights) this.#floats[at++] = sampleWeight;
    if (hasGroups) for (let i = 0; i < group.length; i++) this.#floats[at++] = group[i] ?? 0;
    return at;
  }

  /** Writes the bags of a sample from word `start` on. Returns their end. */
  #writeBags({ lengths, ids, highs, weights }: Sample, start: number): number {
    let at = start;
    let first = 0;
    for (let feature = 0; feature < lengths.length; feature++) {
      const length = lengths[feature] ?? 0;
      const end = first + length;
      for (let i = first; i < end; i++) this.#words[at++] = ids[i] ?? 0;
      if (this.#shape.wide[feature] === true) {
        for (let i = first; i < end; i++) this.#words[at++] = highs[i] ?? 0;
      }
      if (this.#shape.weighted[feature] === true) {
        for (let i = first; i < end; i++) this.#floats[at++] = weights[i] ?? 0;
      }
      first = end;
    }
    return at;
  }

  #reserve(words: number): void {
    if (this.#used + words <= this.#words.length) return;
    const larger = new Int32Array(2 * (this.#used + words));
    larger.set(this.#words.subarray(0, this.#used));
    this.#words = larger;
    this.#floats = new Float32Array(larger.buffer);
  }

  #end(): Int32Array {
    const count = this.#samples;
    // Of a block with fewer samples, all begins so much earlier.
    const unused = blockSamples - count;
    this.#words[0] = startsWords;
    for (let i = count; i >= 0; i--) this.#words[unused + i] = (this.#words[i] ?? 0) - unused;
    const block = this.#words.subarray(unused, this.#used);
    this.#used = startsWords;
    this.#samples = 0;
    return block;
  }
}
