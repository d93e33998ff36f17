// The inverse keyed jagged tensor (IKJT): a batch that stores the lists of a group of features once
// for all samples with equal lists (RecD: Zhao et al., MLSys 2023, section 4.2). Samples of one
// session repeat most lists that describe their user.
//
// Lists are deduplicated within a slice of the batch, never across slices. The job defines the
// slices, so that the data of a device do not depend on the number of devices (law 4).
//
//   lengths  per slice: the distinct lists of a group in order of first occurrence, at the slice's
//            first positions; its other positions are empty
//   ids      ids of the distinct lists only, feature-major
//   inverse  (G,B): for each group and sample, the index of its list among the group's distinct
//            lists, counted across the slices of the device
//
// B = samples of a device, G = groups, T = features.

import type { BatchMemory } from "../dataset.ts";
import { markSame } from "./repeated-rows.ts";

/**
 * Features, by index, that are deduplicated together: a list is distinct if any of them differs.
 */
export type IkjtGroups = readonly (readonly number[])[];

/** The parts of a batch that an IKJT changes. */
export type IkjtMemory = Pick<BatchMemory, "lengths" | "ids" | "highs" | "weights" | "inverse">;

/** Counts of a group's lists and distinct lists, and of the ids in each. */
export interface GroupCounts {
  lists: number;
  distinctLists: number;
  ids: number;
  distinctIds: number;
}

/** For each feature, whether its ids have upper halves (`wide`) and weights. */
export interface ListShape {
  readonly wide: readonly boolean[];
  readonly weighted: readonly boolean[];
}

/**
 * The lists of some features in a batch without deduplication. `starts` (T,B): first id of each.
 */
export interface Lists {
  readonly features: readonly number[];
  readonly samples: number;
  readonly starts: Int32Array;
}

/** Whether two samples have the same lists. */
export function sameLists(
  { ids, highs, weights }: IkjtMemory,
  { wide, weighted }: ListShape,
  { features, samples, starts }: Lists,
  sample: number,
  other: number,
): boolean {
  for (const feature of features) {
    const [bag, otherBag] = [feature * samples + sample, feature * samples + other];
    const [from, otherFrom] = [starts[bag] ?? 0, starts[otherBag] ?? 0];
    const length = (starts[bag + 1] ?? 0) - from;
    if ((starts[otherBag + 1] ?? 0) - otherFrom !== length) return false;
    for (let i = 0; i < length; i++) if (ids[from + i] !== ids[otherFrom + i]) return false;
    if (wide[feature] === true && highs !== undefined) {
      for (let i = 0; i < length; i++) if (highs[from + i] !== highs[otherFrom + i]) return false;
    }
    if (weighted[feature] === true && weights !== undefined) {
      for (let i = 0; i < length; i++) {
        if (!Object.is(weights[from + i], weights[otherFrom + i])) return false;
      }
    }
  }
  return true;
}

/** Converts batches into IKJTs in place. Keeps scratch memory between batches. */
export class IkjtMaker {
  readonly #groups: IkjtGroups;
  /** Group of each feature; -1 if it is in none. */
  readonly #groupOf: Int32Array;
  readonly #shape: ListShape;
  /** Counts of each group over all batches so far. */
  readonly counts: readonly GroupCounts[];
  /** (T,B): first id of each bag. */
  #starts = new Int32Array(0);
  /** (G,B): the sample in which each distinct list first occurs, by position in its slice. */
  #firsts = new Int32Array(0);
  #hashes = new Int32Array(0);
  #same = new Uint8Array(0);
  readonly #mark = markSame();
  /** Hash table of one slice: 1 + index of a distinct list, or 0 for a free slot. */
  #slots = new Int32Array(0);

  constructor(groups: IkjtGroups, shape: ListShape) {
    this.#groups = groups;
    this.#shape = shape;
    this.#groupOf = new Int32Array(shape.wide.length).fill(-1);
    for (const [group, features] of groups.entries()) {
      for (const feature of features) this.#groupOf[feature] = group;
    }
    this.counts = groups.map(() => ({ lists: 0, distinctLists: 0, ids: 0, distinctIds: 0 }));
  }

  /**
   * Converts a batch into an IKJT, in place; the batch must have `inverse`. `bounds`: first sample
   * of each slice of the device, then the end. Returns the number of remaining ids.
   */
  make(batch: IkjtMemory, bounds: Int32Array): number {
    const samples = bounds.at(-1) ?? 0;
    const features = this.#groupOf.length;
    if (this.#starts.length < features * samples + 1) {
      this.#starts = new Int32Array(features * samples + 1);
    }
    if (this.#firsts.length < this.#groups.length * samples) {
      this.#firsts = new Int32Array(this.#groups.length * samples);
      this.#hashes = new Int32Array(samples);
    }
    let total = 0;
    for (let bag = 0; bag < features * samples; bag++) {
      this.#starts[bag] = total;
      total += batch.lengths[bag] ?? 0;
    }
    this.#starts[features * samples] = total;
    const distinct = this.#groups.map((_, group) => this.#findDistinct(batch, group, bounds));
    return this.#keep(batch, bounds, distinct);
  }

  /** Fills `inverse` of a group. Returns the number of distinct lists of each slice. */
  #findDistinct(batch: IkjtMemory, group: number, bounds: Int32Array): Int32Array {
    const samples = bounds.at(-1) ?? 0;
    const inverse = batch.inverse?.subarray(group * samples, (group + 1) * samples);
    if (inverse === undefined) throw new RangeError("The batch has no memory for an inverse");
    const firsts = this.#firsts.subarray(group * samples, (group + 1) * samples);
    const counts = new Int32Array(bounds.length - 1);
    const same = this.#markSame(batch, group, samples);
    let before = 0;
    for (let slice = 0; slice < counts.length; slice++) {
      const [first, end] = [bounds[slice] ?? 0, bounds[slice + 1] ?? 0];
      const mask = this.#clearSlots(end - first);
      let count = 0;
      for (let sample = first; sample < end; sample++) {
        // Samples of a session are adjacent, so most repeat the list of the sample before.
        if (sample > first && same[sample] === 1) {
          inverse[sample] = inverse[sample - 1] ?? 0;
          continue;
        }
        const hash = this.#hash(batch, group, sample);
        let slot = hash & mask;
        let place = -1;
        for (; this.#slots[slot] !== 0; slot = (slot + 1) & mask) {
          const other = (this.#slots[slot] ?? 0) - 1;
          if (this.#hashes[other] !== hash) continue;
          if (!this.#isSame(batch, group, sample, firsts[first + other] ?? 0)) continue;
          place = other;
          break;
        }
        if (place < 0) {
          place = count++;
          this.#slots[slot] = place + 1;
          this.#hashes[place] = hash;
          firsts[first + place] = sample;
        }
        inverse[sample] = before + place;
      }
      counts[slice] = count;
      before += count;
    }
    return counts;
  }

  /** Marks the samples whose lists are bitwise equal to those of the sample before. */
  #markSame({ ids, highs, weights }: IkjtMemory, group: number, samples: number): Uint8Array {
    if (this.#same.length < samples) this.#same = new Uint8Array(samples);
    this.#same.fill(1, 0, samples);
    for (const feature of this.#groups[group] ?? []) {
      const first = feature * samples;
      const offsets = this.#starts.subarray(first, first + samples + 1);
      const mark = (words: Int32Array) => {
        this.#mark(this.#same, 0, samples, { words, perEntry: 1, offsets });
      };
      mark(ids);
      if (this.#shape.wide[feature] === true && highs !== undefined) mark(highs);
      if (this.#shape.weighted[feature] === true && weights !== undefined) {
        mark(new Int32Array(weights.buffer, weights.byteOffset, weights.length));
      }
    }
    return this.#same;
  }

  /** Clears the hash table for a slice of `samples` samples. Returns the mask of its slots. */
  #clearSlots(samples: number): number {
    const size = 2 ** (33 - Math.clz32(Math.max(1, samples)));
    if (this.#slots.length < size) this.#slots = new Int32Array(size);
    else this.#slots.fill(0, 0, size);
    return size - 1;
  }

  #isSame(batch: IkjtMemory, group: number, sample: number, other: number): boolean {
    const features = this.#groups[group] ?? [];
    const lists = { features, samples: this.#samplesIn(batch), starts: this.#starts };
    return sameLists(batch, this.#shape, lists, sample, other);
  }

  /**
   * A hash over lengths and lower halves of ids. Lists that differ in upper halves or weights only
   * collide, and are distinguished by comparison.
   */
  #hash({ ids, lengths }: IkjtMemory, group: number, sample: number): number {
    const samples = this.#samplesIn({ lengths });
    let hash = 0;
    for (const feature of this.#groups[group] ?? []) {
      const bag = feature * samples + sample;
      const [from, end] = [this.#starts[bag] ?? 0, this.#starts[bag + 1] ?? 0];
      hash = Math.imul(hash ^ (end - from), 0x9e37_79b1);
      for (let i = from; i < end; i++) {
        hash = Math.imul(hash ^ (ids[i] ?? 0), 0x85eb_ca6b);
        hash ^= hash >>> 15;
      }
    }
    return hash ^ (hash >>> 13);
  }

  #samplesIn({ lengths }: Pick<IkjtMemory, "lengths">): number {
    return lengths.length / this.#groupOf.length;
  }

  /**
   * Moves the distinct lists to the first positions of their slices. Reads are never behind writes,
   * so it works in place.
   */
  #keep(batch: IkjtMemory, bounds: Int32Array, distinct: readonly Int32Array[]): number {
    const samples = bounds.at(-1) ?? 0;
    const starts = this.#starts;
    const { lengths } = batch;
    let out = 0;
    for (let feature = 0; feature < this.#groupOf.length; feature++) {
      const group = this.#groupOf[feature] ?? -1;
      const own = lengths.subarray(feature * samples, (feature + 1) * samples);
      const [begin, end] = [starts[feature * samples] ?? 0, starts[(feature + 1) * samples] ?? 0];
      if (group < 0) {
        out = move(batch, out, begin, end);
        continue;
      }
      const firsts = this.#firsts.subarray(group * samples, (group + 1) * samples);
      const before = out;
      for (const [slice, count] of (distinct[group] ?? new Int32Array(0)).entries()) {
        const first = bounds[slice] ?? 0;
        for (let place = first; place < first + count; place++) {
          const bag = feature * samples + (firsts[place] ?? 0);
          const from = starts[bag] ?? 0;
          const to = starts[bag + 1] ?? 0;
          own[place] = to - from;
          out = move(batch, out, from, to);
        }
        own.fill(0, first + count, bounds[slice + 1]);
      }
      this.#count(group, feature, {
        ids: end - begin,
        distinctIds: out - before,
        samples,
        distinct,
      });
    }
    return out;
  }

  #count(
    group: number,
    feature: number,
    found: {
      readonly ids: number;
      readonly distinctIds: number;
      readonly samples: number;
      readonly distinct: readonly Int32Array[];
    },
  ): void {
    const counts = this.counts[group];
    if (counts === undefined) return;
    counts.ids += found.ids;
    counts.distinctIds += found.distinctIds;
    if (feature !== this.#groups[group]?.[0]) return;
    counts.lists += found.samples;
    for (const own of found.distinct[group] ?? []) counts.distinctLists += own;
  }
}

/**
 * Moves the ids from..to-1, with their upper halves and weights, to `out`. Returns their new end.
 */
function move({ ids, highs, weights }: IkjtMemory, out: number, from: number, to: number): number {
  if (out !== from) {
    ids.copyWithin(out, from, to);
    highs?.copyWithin(out, from, to);
    weights?.copyWithin(out, from, to);
  }
  return out + to - from;
}

/** The lists of an axis on one device, and their positions among its samples. */
export interface AxisRows {
  /** Number of lists. */
  readonly rows: number;
  /** Ranges of sample positions that hold the lists, in order. */
  readonly runs: readonly { readonly first: number; readonly count: number }[];
}

/**
 * The rows of an axis: axis 0 has one row per sample, axis 1 + g one per distinct list of group g.
 */
export function axisAt(axes: readonly AxisRows[], axis = 0): AxisRows {
  const own = axes[axis];
  if (own === undefined) throw new RangeError(`There is no group ${axis - 1} of features`);
  return own;
}

/** The axis of samples: each sample has its own list. */
export function samplesAxis(samples: number): AxisRows {
  return { rows: samples, runs: [{ first: 0, count: samples }] };
}

/**
 * The axis of a group, with `counts` distinct lists per slice. `bounds`: as for `IkjtMaker.make`.
 */
export function groupAxis(bounds: Int32Array, counts: Int32Array): AxisRows {
  const runs = Array.from(counts, (count, slice) => ({ first: bounds[slice] ?? 0, count }));
  return { rows: counts.reduce((sum, count) => sum + count, 0), runs };
}

/** Number of distinct lists in each slice of a device, from the `inverse` (B) of a group. */
export function distinctIn(inverse: Int32Array, bounds: Int32Array): Int32Array {
  let before = 0;
  return Int32Array.from({ length: bounds.length - 1 }, (_, slice) => {
    let end = before;
    for (let b = bounds[slice] ?? 0; b < (bounds[slice + 1] ?? 0); b++) {
      end = Math.max(end, (inverse[b] ?? 0) + 1);
    }
    const count = end - before;
    before = end;
    return count;
  });
}
