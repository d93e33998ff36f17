// Orders of the samples. Each is a function of (seed, epoch, position), so that training can resume
// at any step, and any reader can start anywhere without state (law 4).
//
// The sample order is one permutation per epoch. The split order, for data larger than memory, cuts
// the samples into splits of consecutive samples. Every epoch shuffles the splits, and the samples
// within each split unless splits are whole sessions (sessions/session-splits.ts). A reader holds
// only the splits in use, so that it reads every byte once per epoch, in large reads. Each slice of
// the batch draws from its own part of the permuted splits:
//
//   splits, permuted   | 7  2  9 | 4  0  5 | 1  8  3 | 6      the end of an epoch
//                        slice 0   slice 1   slice 2   short batch
//
// So a batch mixes as many splits as it has slices, and a host reads only the splits of its own
// slices.

import assert from "node:assert/strict";
import { sliceBoundsOf } from "../kernels/contract/slices.ts";
import { purposes } from "../ports/random.ts";
import { blockSamples } from "./cache/cache-format.ts";
import type { RowGroupSplits, RunContents } from "./contents.ts";
import type { SampleNumbers, SampleRange } from "./dataset.ts";
import { Permutation } from "./permutation.ts";
import { type SplitStarts, startsIn } from "./split-starts.ts";

/** Fills `out` with the samples at positions first, first + 1, … of one epoch. */
export function fillOrder(
  out: SampleNumbers,
  order: {
    readonly seed: number;
    readonly epoch: number;
    readonly samples: number;
    readonly first: number;
    readonly shuffle: boolean;
  },
): void {
  const { seed, epoch, samples, first, shuffle } = order;
  assert(first >= 0 && first + out.length <= samples, "places in the pass");
  if (out.length === 0) return;
  if (!shuffle) {
    for (let i = 0; i < out.length; i++) out[i] = first + i;
    return;
  }
  const own = { seed, purpose: purposes.sampleOrder, step: epoch, size: samples };
  const permutation = new Permutation(own);
  for (let i = 0; i < out.length; i++) out[i] = permutation.at(first + i);
}

/** Most bytes of all splits that a batch draws from. */
const bytesMax = 0x400_0000;
/**
 * Fewest splits per slice, because a slice may use only a part of the first and last split of its
 * share.
 */
const splitsMin = 64;

/**
 * Samples per split, from the data and the number of slices. `bytes`: size of all samples in the
 * cache.
 */
export function splitSamplesOf(data: {
  readonly samples: number;
  readonly bytes: number;
  readonly slices: number;
}): number {
  const { samples, bytes, slices } = data;
  const byMemory = Math.floor((bytesMax * samples) / (bytes * slices));
  const byData = Math.floor(samples / (splitsMin * slices));
  // Whole blocks, so that no block belongs to two splits.
  const blocks = Math.floor(Math.min(byMemory, byData) / blockSamples);
  return blockSamples * Math.max(1, blocks);
}

/** Memory limit of a reader for splits: the current batch's splits, and as many prefetched ones. */
export const heldBytesMax = 0x2000_0000;

/**
 * Number of splits that a batch draws from if splits are row groups of up to `pieceBytes`: as many
 * as fit into `readerBytesMax`, each with its prefetched successor, and at most the number of
 * slices. 0 if not even one fits.
 */
export function lanesOf(pieceBytes: number, slices: number, readerBytesMax: number): number {
  return Math.min(slices, Math.floor(readerBytesMax / (2 * Math.max(1, pieceBytes))));
}

/** Splits of equal size, the last possibly shorter: first sample of each, then the end. */
export function evenSplits(samples: number, splitSamples: number): SampleNumbers {
  const splits = Math.ceil(samples / splitSamples);
  return Float64Array.from({ length: splits + 1 }, (_, i) => Math.min(i * splitSamples, samples));
}

/** A whole batch: its number of samples, and the first position of each slice, then the end. */
export interface BatchShape {
  readonly batchSize: number;
  readonly bounds: readonly number[];
}

/** Consecutive positions in the permuted splits. `until`: end of the slice's part. */
interface Stretch {
  readonly position: number;
  readonly count: number;
  readonly until: number;
}

/** Inputs of a `SplitOrder`. */
interface SplitsOfEpoch extends BatchShape {
  readonly seed: number;
  readonly epoch: number;
  /** First sample of each split, then the end. */
  readonly starts: SampleNumbers;
  /** Whether the samples of a split keep their order. @default false */
  readonly keepsOrder?: boolean | undefined;
}

/** Splits that some positions of an epoch need. */
export interface RangesOfPlaces {
  /** Splits that these positions draw from. */
  readonly now: SampleRange[];
  /** Splits that the same slices draw from next, in later batches. */
  readonly next: SampleRange[];
  /**
   * Whether the slices reach no further split in this epoch, so that the next splits are those of
   * the next epoch.
   */
  readonly isEnd: boolean;
}

/** The split order of one epoch. */
export class SplitOrder {
  readonly samples: number;
  readonly #seed: number;
  readonly #epoch: number;
  readonly #batch: BatchShape;
  /** Number of whole batches of the epoch. */
  readonly #batches: number;
  readonly #starts: SampleNumbers;
  readonly #keepsOrder: boolean;
  /** The splits, in this epoch's order. */
  readonly #splits: Uint32Array;
  /** First position of each permuted split in the epoch, then the end. */
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

  /** Fills `out` with the samples at positions first, first + 1, … of the epoch. */
  fill(out: SampleNumbers, first: number): void {
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
      // A batch that crosses into another split holds both; prefetching waits, to bound memory.
      const isLast = (this.#positions[last + 1] ?? until) >= until;
      if (from === last && !isLast) next.set(last + 1, this.#rangeOf(last + 1));
      // The short last batch comes after the parts of all slices.
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

  /** The samples of this epoch's `i`-th split. */
  #rangeOf(i: number): SampleRange {
    const split = this.#splits[i] ?? 0;
    return { first: this.#starts[split] ?? 0, end: this.#starts[split + 1] ?? 0 };
  }

  /** Index of the permuted split that contains a position. */
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

/** Samples of an epoch, and of a whole batch. */
interface EpochSize {
  readonly samples: number;
  readonly batchSize: number;
}

/** The job's seed and shuffle, and the splits of its data. */
export interface EpochOrderOptions {
  readonly seed: number;
  readonly shuffle: boolean;
  /** The splits and the job's slices, if the samples come in the split order. */
  readonly split?: SplitCut | undefined;
}

/** The splits of a run's data, and the job's slices. */
export interface SplitCut extends Pick<RunContents, "splitSamples"> {
  readonly splits?:
    | (Omit<RowGroupSplits, keyof SplitStarts> & { starts: SampleNumbers })
    | undefined;
  readonly slices: number;
}

/**
 * Returns the splits of a run's samples; undefined: they do not come in the split order. `pieces`:
 * those of the training samples. @throws as `startsIn`
 */
export function cutOf(
  { splitSamples, splits }: Pick<RunContents, "splitSamples" | "splits">,
  slices: number,
  pieces?: SampleNumbers,
): SplitCut | undefined {
  if (splitSamples === undefined && splits === undefined) return undefined;
  if (splits === undefined) return { splitSamples, splits, slices };
  const { lanes, keepsOrder } = splits;
  const starts = startsIn(splits, pieces);
  return { splitSamples, splits: { starts, lanes, keepsOrder }, slices };
}

/**
 * The order in which a job trains the samples of its epochs: the file's order, a random permutation
 * of all samples, or the split order, which goes through splits of the data or session by session.
 */
export class EpochOrder {
  readonly #options: EpochOrderOptions;
  readonly #size: EpochSize;
  readonly #batch: Pick<
    ConstructorParameters<typeof SplitOrder>[0],
    "starts" | "bounds" | "keepsOrder"
  >;
  /** The split orders of the two epochs that were requested last. */
  #last: readonly { readonly epoch: number; readonly order: SplitOrder }[] = [];

  constructor(options: EpochOrderOptions, size: EpochSize) {
    const { split } = options;
    const { samples, batchSize } = size;
    this.#options = options;
    this.#size = size;
    this.#batch = batchOf(split, samples, batchSize);
  }

  /** Fills `out` with the samples at places first, first + 1, … of an epoch. */
  fill(out: SampleNumbers, epoch: number, first: number): void {
    const { seed, shuffle, split } = this.#options;
    if (split !== undefined) this.#orderOf(epoch).fill(out, first);
    else fillOrder(out, { seed, epoch, samples: this.#size.samples, first, shuffle });
  }

  /**
   * The splits that the `count` places from `first` draw from, and the next splits. Undefined
   * outside the split order: the samples of a batch may lie anywhere in the file.
   */
  rangesAt(epoch: number, first: number, count: number): RangesOfPlaces | undefined {
    if (this.#options.split === undefined) return undefined;
    return this.#orderOf(epoch).rangesAt(first, count);
  }

  #orderOf(epoch: number): SplitOrder {
    const known = this.#last.find((one) => one.epoch === epoch);
    if (known !== undefined) return known.order;
    const { batchSize } = this.#size;
    const order = new SplitOrder({ ...this.#batch, batchSize, seed: this.#options.seed, epoch });
    this.#last = [...this.#last.slice(-1), { epoch, order }];
    return order;
  }
}

/**
 * The splits of an epoch, and the bounds of the parts of a batch: each part draws from separate
 * splits.
 */
function batchOf(split: SplitCut | undefined, samples: number, batchSize: number) {
  if (split === undefined) return { starts: new Float64Array(0), bounds: [] };
  const { slices, splits, splitSamples = samples } = split;
  const bounds = sliceBoundsOf(slices, batchSize);
  if (splits === undefined) return { starts: evenSplits(samples, splitSamples), bounds };
  const { lanes, starts, keepsOrder } = splits;
  const lanesOf = (_: unknown, lane: number) => bounds[Math.floor((lane * slices) / lanes)] ?? 0;
  return {
    starts,
    keepsOrder,
    bounds: [...Array.from({ length: lanes }, lanesOf), batchSize],
  };
}
