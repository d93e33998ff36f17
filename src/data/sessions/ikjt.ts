// The inverse keyed jagged tensor (IKJT): a batch in which the lists of a group of features stand
// once for all samples that have the same (RecD: Zhao et al., MLSys 2023, section 4.2). Samples of
// one session repeat most of what describes their user.
//
// The lists of a group are distinct within a slice of the batch, never beyond it: slices are the
// job's, so that what a device is given does not depend on how many devices there are (law 4).
//
//   lengths  in each slice, the distinct lists of a group, in the order in which its samples first
//            have them, lie at its first places; the other places are empty
//   ids      of distinct lists alone, feature after feature
//   inverse  (G,B): for each group and sample, which of the group's distinct lists it has, counted
//            through the slices of the device
//
// B = samples of a device, G = groups, T = features.

import type { BatchMemory } from "../dataset.ts";
import { markSame } from "./same-rows.ts";

/**
 * Features, by index, that are deduplicated together: a list is distinct if any of them differs.
 */
export type IkjtGroups = readonly (readonly number[])[];

/** What of a batch an IKJT changes. */
export type IkjtMemory = Pick<BatchMemory, "lengths" | "ids" | "highs" | "weights" | "inverse">;

/** How many lists a group had, and how many of them were distinct; and the ids of both. */
export interface GroupCounts {
  lists: number;
  distinctLists: number;
  ids: number;
  distinctIds: number;
}

/** What lists have: of each feature, whether ids have upper halves, or weights. */
export interface ListShape {
  readonly wide: readonly boolean[];
  readonly weighted: readonly boolean[];
}

/** The lists of some features in a plain batch. `starts` (T,B): where each begins. */
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

/** Turns plain batches into IKJTs, in their own memory. Keeps scratch memory between batches. */
export class IkjtMaker {
  readonly #groups: IkjtGroups;
  /** For each feature its group; -1: none. */
  readonly #groupOf: Int32Array;
  readonly #shape: ListShape;
  /** What was counted of each group so far. */
  readonly counts: readonly GroupCounts[];
  /** (T,B): where each bag begins. */
  #starts = new Int32Array(0);
  /** (B): the sample that first had each distinct list, by place in its slice. */
  #firsts = new Int32Array(0);
  #hashes = new Int32Array(0);
  #same = new Uint8Array(0);
  readonly #mark = markSame();
  /** Hash table of one slice: 1 + place of a distinct list; 0: free. */
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
   * Makes an IKJT of a plain batch, in place; `inverse` must be there. `bounds`: the first sample
   * of each slice of the device, and the end. Returns the number of ids that are left.
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

  /** Fills `inverse` of a group. Returns the distinct lists of each slice. */
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
        // A session's samples stand beside each other: most repeat the list just before.
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

  /** Marks the samples that have, bit by bit, the lists of the sample before. */
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

  /** An empty hash table for a slice of `samples`. Returns the mask of its slots. */
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

  /** Of lengths and ids: lists that differ in the rest are told apart by comparing them. */
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
   * Moves the distinct lists to the first places of their slices. What is read never lies before
   * what is written, so the batch's own memory serves both.
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

/** Moves the ids from..to-1, and what goes with them, to `out`. Returns where they end. */
function move({ ids, highs, weights }: IkjtMemory, out: number, from: number, to: number): number {
  if (out !== from) {
    ids.copyWithin(out, from, to);
    highs?.copyWithin(out, from, to);
    weights?.copyWithin(out, from, to);
  }
  return out + to - from;
}

/** The lists of an axis on one device: where they lie among its samples. */
export interface AxisRows {
  /** All of them. */
  readonly rows: number;
  /** Runs of samples, in order, that have one each. */
  readonly runs: readonly { readonly first: number; readonly count: number }[];
}

/** The rows of an axis: 0, the samples; 1 + g, the distinct lists of group g. */
export function axisAt(axes: readonly AxisRows[], axis = 0): AxisRows {
  const own = axes[axis];
  if (own === undefined) throw new RangeError(`There is no group ${axis - 1} of features`);
  return own;
}

/** The axis of samples: each has a list of its own. */
export function samplesAxis(samples: number): AxisRows {
  return { rows: samples, runs: [{ first: 0, count: samples }] };
}

/** The axis of a group with these distinct lists in each slice. `bounds`: as of `make`. */
export function groupAxis(bounds: Int32Array, counts: Int32Array): AxisRows {
  const runs = Array.from(counts, (count, slice) => ({ first: bounds[slice] ?? 0, count }));
  return { rows: counts.reduce((sum, count) => sum + count, 0), runs };
}

/** The distinct lists of each slice of a device, by the `inverse` (B) of a group. */
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
