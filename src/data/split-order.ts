// The split order: an order of samples for data larger than memory. The samples are cut into splits
// of consecutive samples. In every epoch the splits come in another order, and so do the samples of
// each split, unless splits are whole sessions (sessions/session-splits.ts). A reader needs only
// the splits that it is in the midst of, so that it reads every byte once, in large reads.
//
// Each slice of the batch goes through a part of the splits of its own:
//
//   splits, permuted   | 7  2  9 | 4  0  5 | 1  8  3 | 6      the end of an epoch
//                        slice 0   slice 1   slice 2   short batch
//
// So a batch mixes as many splits as it has slices, and a host reads only the splits of the slices
// that lie on it. All is a function of (seed, epoch, place): training may go on at any step, and
// any reader may serve it (law 4).

import assert from "node:assert/strict";
import { purposes } from "../ports/random.ts";
import { blockSamples } from "./cache/cache-format.ts";
import type { SampleRange } from "./dataset.ts";
import { Permutation } from "./sample-order.ts";

/** Blocks' bytes of all splits that a batch is drawn from, at most. */
const bytesMax = 0x400_0000;
/** Fewest splits that a slice goes through: at the ends of its part it reads splits in part. */
const splitsMin = 64;

/**
 * Samples of a split: a function of the data and the number of slices. `bytes`: of all the samples
 * in the cache.
 */
export function splitSamplesOf(data: {
  readonly samples: number;
  readonly bytes: number;
  readonly slices: number;
}): number {
  const { samples, bytes, slices } = data;
  const byMemory = Math.floor((bytesMax * samples) / (bytes * slices));
  const byData = Math.floor(samples / (splitsMin * slices));
  // Whole blocks: none is read with two splits.
  const blocks = Math.floor(Math.min(byMemory, byData) / blockSamples);
  return blockSamples * Math.max(1, blocks);
}

/** Bytes of the pieces that a reader holds, at most: those of a batch, and as many read ahead. */
export const heldBytesMax = 0x2000_0000;

/**
 * Splits that a batch is drawn from where they are row groups, of `pieceBytes` at most: as many as
 * `readerBytesMax` hold, each with the next one; no more than the slices; 0: not even one.
 */
export function lanesOf(pieceBytes: number, slices: number, readerBytesMax: number): number {
  return Math.min(slices, Math.floor(readerBytesMax / (2 * Math.max(1, pieceBytes))));
}

/** Splits of equally many samples; the last may have fewer. The first of each, and the end. */
export function evenSplits(samples: number, splitSamples: number): Uint32Array {
  const splits = Math.ceil(samples / splitSamples);
  return Uint32Array.from({ length: splits + 1 }, (_, i) => Math.min(i * splitSamples, samples));
}

/** A whole batch: its samples, and the first of each slice, and the end. */
export interface BatchShape {
  readonly batchSize: number;
  readonly bounds: readonly number[];
}

/** Places of a pass that lie side by side in the permuted splits. `until`: the part's end. */
interface Stretch {
  readonly position: number;
  readonly count: number;
  readonly until: number;
}

/** Splits as `evenSplits` or others cut them. */
interface SplitsOfEpoch extends BatchShape {
  readonly seed: number;
  readonly epoch: number;
  /** The first sample of each, and the end. */
  readonly starts: Uint32Array;
  /** Whether the samples of a split keep their order. @default false */
  readonly keepsOrder?: boolean | undefined;
}

/** Splits of some places of a pass. */
export interface RangesOfPlaces {
  /** Those that these places draw from. */
  readonly now: SampleRange[];
  /** Those that the places of the same slices in later batches draw from next. */
  readonly next: SampleRange[];
  /** Whether the slices come to no other split in this pass: what is next is of the next pass. */
  readonly isEnd: boolean;
}

/** The split order of one epoch. */
export class SplitOrder {
  readonly samples: number;
  readonly #seed: number;
  readonly #epoch: number;
  readonly #batch: BatchShape;
  /** Whole batches of the epoch. */
  readonly #batches: number;
  readonly #starts: Uint32Array;
  readonly #keepsOrder: boolean;
  /** The splits in this epoch's order. */
  readonly #splits: Uint32Array;
  /** Where each of them begins, among all samples in their order, and the end. */
  readonly #positions: Float64Array;

  constructor(spec: SplitsOfEpoch) {
    const { seed, epoch, starts, batchSize, bounds, keepsOrder = false } = spec;
    assert(bounds[0] === 0 && bounds.at(-1) === batchSize, "slices that make up a batch");
    this.samples = starts.at(-1) ?? 0;
    this.#seed = seed;
    this.#epoch = epoch;
    this.#batch = { batchSize, bounds };
    this.#batches = Math.floor(this.samples / batchSize);
    this.#starts = starts;
    this.#keepsOrder = keepsOrder;
    const size = starts.length - 1;
    const permutation = new Permutation({ seed, purpose: purposes.splitOrder, step: epoch, size });
    this.#splits = Uint32Array.from({ length: size }, (_, i) => permutation.at(i));
    this.#positions = new Float64Array(size + 1);
    for (let i = 0; i < size; i++) {
      const { first, end } = this.#rangeOf(i);
      this.#positions[i + 1] = (this.#positions[i] ?? 0) + end - first;
    }
  }

  /** Fills `out` with the samples at places first, first + 1, … of the epoch. */
  fill(out: Uint32Array, first: number): void {
    assert(first >= 0 && first + out.length <= this.samples, "places in the pass");
    let at = 0;
    for (const { position, count } of this.#stretches(first, out.length)) {
      const end = position + count;
      for (let i = this.#indexAt(position), from = position; from < end; i++) {
        const { first: start, end: stop } = this.#rangeOf(i);
        const begin = this.#positions[i] ?? 0;
        const until = Math.min(end, begin + stop - start);
        if (this.#keepsOrder) {
          for (; from < until; from++) out[at++] = start + from - begin;
          continue;
        }
        const rows = new Permutation({
          seed: this.#seed,
          purpose: purposes.splitRows,
          step: this.#epoch,
          part: this.#splits[i] ?? 0,
          size: stop - start,
        });
        for (; from < until; from++) out[at++] = start + rows.at(from - begin);
      }
    }
  }

  rangesAt(first: number, count: number): RangesOfPlaces {
    const now = new Map<number, SampleRange>();
    const next = new Map<number, SampleRange>();
    let isEnd = true;
    for (const { position, count: places, until } of this.#stretches(first, count)) {
      const from = this.#indexAt(position);
      const last = this.#indexAt(position + places - 1);
      for (let i = from; i <= last; i++) now.set(i, this.#rangeOf(i));
      // In the batch that ends a split, the one before is still held: the next one waits.
      const isLast = (this.#positions[last + 1] ?? until) >= until;
      if (from === last && !isLast) next.set(last + 1, this.#rangeOf(last + 1));
      // The short batch is behind all splits of the slices.
      if (position < this.#batches * this.#batch.batchSize) isEnd &&= isLast && from === last;
    }
    for (const split of now.keys()) next.delete(split);
    return { now: [...now.values()], next: [...next.values()], isEnd };
  }

  *#stretches(first: number, count: number): Generator<Stretch> {
    const { batchSize, bounds } = this.#batch;
    const whole = this.#batches * batchSize;
    let place = first;
    for (const end = first + count; place < Math.min(end, whole); ) {
      const batch = Math.floor(place / batchSize);
      const inBatch = place - batch * batchSize;
      const slice = bounds.findLastIndex((bound) => bound <= inBatch);
      const [from = 0, to = batchSize] = [bounds[slice], bounds[slice + 1]];
      const places = Math.min(end - place, to - inBatch);
      const position = this.#batches * from + batch * (to - from) + (inBatch - from);
      yield { position, count: places, until: this.#batches * to };
      place += places;
    }
    if (first + count > place) {
      yield { position: place, count: first + count - place, until: this.samples };
    }
  }

  /** The samples of the split that is the `i`-th of this epoch. */
  #rangeOf(i: number): SampleRange {
    const split = this.#splits[i] ?? 0;
    return { first: this.#starts[split] ?? 0, end: this.#starts[split + 1] ?? 0 };
  }

  /** Which of the permuted splits has this position. */
  #indexAt(position: number): number {
    let [low, high] = [0, this.#splits.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if ((this.#positions[middle] ?? 0) <= position) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
