// Encodes samples into the blocks of a cache: 32 samples, preceded by the first word of each
// (cache-format.ts has the format). A full cache stores the blocks; with an index only, readers
// encode them again from the data.

import assert from "node:assert/strict";
import type { PlainRecords } from "../columnar/plain-records.ts";
import type { Sample } from "../sample.ts";
import { oneLabel } from "../targets.ts";
import { type BlockShape, blockSamples } from "./cache-format.ts";
import { type Folder, folderOf, layoutOf, repeatWords } from "./folded-records.ts";

/** Words of a full block before its first record. */
const startsWords = blockSamples + 1;

/** Collects samples until a block is full. */
export class BlockEncoder {
  readonly #shape: BlockShape;
  readonly #headWords: number;
  /**
   * Whether all ids have 32 bits and no weights. Bags are then stored back to back, as in a sample.
   */
  readonly #isPlain: boolean;
  readonly #folder: Folder;
  /** Extra words that folding a record may need. */
  readonly #foldWords: number;
  /** The current block: space for the starts of its samples, then their records. */
  #words = new Int32Array(4096);
  #floats = new Float32Array(this.#words.buffer);
  /** Positions of the bags of its last record (folded-records.ts). */
  readonly #last: Int32Array;
  #used = startsWords;
  #samples = 0;

  constructor(shape: BlockShape) {
    this.#shape = shape;
    const layout = layoutOf(shape);
    this.#headWords = layout.headWords;
    this.#foldWords = repeatWords(layout);
    this.#folder = folderOf(layout);
    this.#last = new Int32Array(3 * shape.features).fill(-1);
    this.#isPlain = !shape.wide.includes(true) && !shape.weighted.includes(true);
  }

  /**
   * Appends a copy of a sample. Returns the block if the sample completes it, valid until the next
   * call.
   */
  append(sample: Sample): Int32Array | undefined {
    const { dense, lengths, idCount } = sample;
    this.#reserve(this.#headWords + 3 * idCount + this.#foldWords);
    // Private fields are looked up once, because a sample may have thousands of words.
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
    return this.#mayRepeat(sample) ? this.#fold(at) : this.#take(at);
  }

  /** Free samples in the current block. */
  get room(): number {
    return blockSamples - this.#samples;
  }

  /**
   * Appends `count` encoded records from record `first` on; `count` must not exceed `room`. Returns
   * as `append`.
   */
  appendRecords(
    { words: records, starts, width }: Omit<PlainRecords, "isPlain">,
    first: number,
    count: number,
  ): Int32Array | undefined {
    assert(count <= this.room, "room for the records");
    const [from, to] = [starts[first] ?? 0, starts[first + count] ?? 0];
    this.#reserve(to - from + this.#foldWords);
    if (width !== undefined) {
      // Records of a fixed width have bags of one word, which are never folded.
      this.#words.set(records.subarray(from, to), this.#used);
      const back = this.#used - from;
      for (let i = first + 1; i <= first + count; i++) {
        this.#words[++this.#samples] = (starts[i] ?? 0) + back;
      }
      this.#used = to + back;
      return this.#samples === blockSamples ? this.#end() : undefined;
    }
    const block = { words: this.#words, last: this.#last };
    const place = { samples: this.#samples, used: this.#used };
    this.#used = this.#folder.append(block, place, { words: records, starts }, first, count);
    this.#samples += count;
    return this.#samples === blockSamples ? this.#end() : undefined;
  }

  /** The last, partial block; undefined if there are no samples left. */
  rest(): Int32Array | undefined {
    return this.#samples === 0 ? undefined : this.#end();
  }

  /** Writes labels, sample weight and group of a sample from word `start` on. Returns the end. */
  #writeTargets({ labels, sampleWeight, group }: Sample, start: number): number {
    const { hasSampleWeights, hasGroups } = this.#shape.targets ?? oneLabel;
    let at = start;
    for (let i = 0; i < labels.length; i++) this.#floats[at++] = labels[i] ?? 0;
    if (hasSampleWeights) this.#floats[at++] = sampleWeight;
    if (hasGroups) for (let i = 0; i < group.length; i++) this.#floats[at++] = group[i] ?? 0;
    return at;
  }

  /** Writes the bags of a sample from word `start` on. Returns the end. */
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

  /** Folds the record that ends before word `end`. Returns the block if the record completes it. */
  #fold(end: number): Int32Array | undefined {
    const folded = this.#folder.fold({ words: this.#words, last: this.#last }, this.#used, end);
    if (folded < 0) this.#words[this.#samples] = ~this.#used;
    return this.#take(folded < 0 ? ~folded : folded);
  }

  /** Adds the record that ends before word `end`. Returns the block if the record completes it. */
  #take(end: number): Int32Array | undefined {
    this.#used = end;
    this.#words[++this.#samples] = end;
    return this.#samples === blockSamples ? this.#end() : undefined;
  }

  /**
   * Whether a bag has more than one word. Bags of one word are not folded, and the next record
   * cannot repeat them.
   */
  #mayRepeat({ lengths }: Sample): boolean {
    const wordsMin = this.#isPlain ? 2 : 1;
    for (let t = 0; t < lengths.length; t++) if ((lengths[t] ?? 0) >= wordsMin) return true;
    this.#last.fill(-1);
    return false;
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
    // A partial block has fewer starts, so every record moves `unused` words forward.
    const unused = blockSamples - count;
    this.#words[0] = startsWords; // The first record of a block is never folded.
    for (let i = count; i >= 0; i--) {
      const start = this.#words[i] ?? 0;
      this.#words[unused + i] = start < 0 ? start + unused : start - unused;
    }
    this.#last.fill(-1);
    const block = this.#words.subarray(unused, this.#used);
    this.#used = startsWords;
    this.#samples = 0;
    return block;
  }
}
