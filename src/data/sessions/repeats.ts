// Measures how often the lists of features repeat from one sample to the next, and which features
// change together. Lists repeat if samples of one session are adjacent, in the data and in the
// sample order; otherwise hardly any list repeats.

import { type IkjtGroups, type IkjtMemory, sameLists } from "./ikjt.ts";

/** Features form a group if they change together in at least this fraction of adjacent pairs. */
const agreementMin = 0.99;

/**
 * Deduplication factor: lists per distinct list, if this fraction of a batch's samples repeats the
 * list before. It is 1 / (1 - d (S-1) / S) for sessions of S samples that keep a list with
 * probability d (RecD: Zhao et al., MLSys 2023, section 4.2).
 */
export function dedupeFactor(repeatedShare: number): number {
  return 1 / Math.max(1 - repeatedShare, Number.EPSILON);
}

/** The shape of the samples. */
interface Shape {
  readonly features: number;
  readonly wide: readonly boolean[];
  readonly weighted: readonly boolean[];
}

/** Counts, over batches, the samples whose lists equal those of the sample before. */
export class RepeatCounter {
  readonly groups: IkjtGroups;
  readonly #shape: Shape;
  /**
   * By group: samples that repeat. By pair of groups: adjacent samples in which both or neither
   * repeat.
   */
  readonly #repeated: Float64Array;
  readonly #agreed: Float64Array;
  /** Number of samples, and of samples with a predecessor in their slice. */
  #samples = 0;
  #pairs = 0;

  /** `groups`: left out, each feature is a group of its own. */
  constructor(shape: Shape, groups?: IkjtGroups) {
    this.groups = groups ?? Array.from({ length: shape.features }, (_, feature) => [feature]);
    this.#shape = shape;
    const count = this.groups.length;
    this.#repeated = new Float64Array(count);
    this.#agreed = new Float64Array(groups === undefined ? count * count : 0);
  }

  /** Counts a batch without deduplication. `bounds`: first sample of each slice, then the end. */
  count(batch: IkjtMemory, bounds: Int32Array): void {
    const samples = bounds.at(-1) ?? 0;
    const starts = new Int32Array(batch.lengths.length + 1);
    for (const [bag, length] of batch.lengths.entries())
      starts[bag + 1] = (starts[bag] ?? 0) + length;
    const repeats = new Uint8Array(this.groups.length);
    let slice = 0;
    for (let sample = 0; sample < samples; sample++) {
      while ((bounds[slice + 1] ?? samples) <= sample) slice++;
      if (bounds[slice] === sample) continue;
      for (const [group, features] of this.groups.entries()) {
        const lists = { features, samples, starts };
        const isSame = sameLists(batch, this.#shape, lists, sample, sample - 1);
        repeats[group] = isSame ? 1 : 0;
        if (isSame) this.#repeated[group] = (this.#repeated[group] ?? 0) + 1;
      }
      this.#countPairs(repeats);
      this.#pairs++;
    }
    this.#samples += samples;
  }

  /** Fraction of the samples whose lists of a group equal those of the sample before. */
  repeatedShare(group: number): number {
    return (this.#repeated[group] ?? 0) / Math.max(1, this.#samples);
  }

  /** Fraction of adjacent samples in which both groups change, or neither does. */
  agreement(group: number, other: number): number {
    return (this.#agreed[group * this.groups.length + other] ?? 0) / Math.max(1, this.#pairs);
  }

  #countPairs(repeats: Uint8Array): void {
    if (this.#agreed.length === 0) return;
    const count = repeats.length;
    for (let group = 0; group < count; group++) {
      for (let other = 0; other < group; other++) {
        if (repeats[group] !== repeats[other]) continue;
        const at = group * count + other;
        this.#agreed[at] = (this.#agreed[at] ?? 0) + 1;
      }
    }
  }
}

/**
 * Proposes groups: features with a deduplication factor of at least `threshold`, grouped by which
 * of them change together.
 */
export function proposeGroups(repeats: RepeatCounter, threshold: number): number[][] {
  const groups: number[][] = [];
  for (const [feature] of repeats.groups.entries()) {
    if (dedupeFactor(repeats.repeatedShare(feature)) < threshold) continue;
    const own = groups.find(([first = feature]) => {
      return repeats.agreement(feature, first) >= agreementMin;
    });
    if (own === undefined) groups.push([feature]);
    else own.push(feature);
  }
  return groups;
}
