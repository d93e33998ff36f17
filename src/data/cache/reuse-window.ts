// How often each id returns among the first samples, as a histogram over the distinct ids. Up to
// 8,192 distinct ids are all counted. Of more, a sample is: the ids whose hash ends in so many zero
// bits (distinct sampling: Gibbons, VLDB 2001). Each counted id then stands for 2^bits.

/** Bins: ids seen once, twice, 3–4, 5–8, …, 16,385–32,768 times, and more often. */
export const reuseBins = 17;

/** Distinct ids that are counted one by one. */
const countedMax = 8192;
const slotsMin = 64;
/** At most half of the slots are taken. */
const slotsMax = 2 * countedMax;

/** How often ids returned within a window. */
export interface ReuseCounts {
  /** Ids of the window, repeated ones included. */
  readonly ids: number;
  /** Distinct ids by how often each occurs; the sum is the number of distinct ids. */
  readonly reuse: readonly number[];
}

/** The ids of one feature, while the window lasts. */
export class ReuseWindow {
  #ids = 0;
  /** (slots): hashes, open addressing with linear probing; a free slot has the count 0. */
  #hashes = new Int32Array(slotsMin);
  #counts = new Uint32Array(slotsMin);
  #counted = 0;
  /** Zero bits at the end of every counted hash. */
  #bits = 0;

  /** Counts an id by its hash: 32 bits, as good as distinct for distinct ids. */
  add(hash: number): void {
    this.#ids++;
    if ((hash & ((1 << this.#bits) - 1)) !== 0) return;
    const at = this.#slotOf(hash | 0);
    const count = this.#counts[at] ?? 0;
    this.#counts[at] = count + 1;
    if (count > 0) return;
    this.#hashes[at] = hash;
    this.#counted++;
    if (2 * this.#counted > this.#counts.length) this.#makeRoom();
  }

  counts(): ReuseCounts {
    const reuse = new Array<number>(reuseBins).fill(0);
    for (const count of this.#counts) {
      if (count === 0) continue;
      const bin = Math.min(reuseBins - 1, 32 - Math.clz32(count - 1));
      reuse[bin] = (reuse[bin] ?? 0) + 2 ** this.#bits;
    }
    return { ids: this.#ids, reuse };
  }

  #slotOf(hash: number): number {
    const mask = this.#counts.length - 1;
    // The upper half decides the slot: the lower bits of a sampled hash are all zero.
    let at = (hash >>> 16) & mask;
    while ((this.#counts[at] ?? 0) > 0 && this.#hashes[at] !== hash) at = (at + 1) & mask;
    return at;
  }

  /** Doubles the slots, or, where they are as many as may be, halves the sample. */
  #makeRoom(): void {
    const [hashes, counts] = [this.#hashes, this.#counts];
    const isFull = counts.length >= slotsMax;
    if (isFull) this.#bits++;
    const slots = isFull ? counts.length : 2 * counts.length;
    this.#hashes = new Int32Array(slots);
    this.#counts = new Uint32Array(slots);
    this.#counted = 0;
    for (let i = 0; i < counts.length; i++) {
      const [hash, count] = [hashes[i] ?? 0, counts[i] ?? 0];
      if (count === 0 || (hash & ((1 << this.#bits) - 1)) !== 0) continue;
      const at = this.#slotOf(hash);
      this.#hashes[at] = hash;
      this.#counts[at] = count;
      this.#counted++;
    }
  }
}
