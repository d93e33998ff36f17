// The order in which a job trains the samples of its epochs: the file's order, a random permutation
// of all samples, or the split order, which goes through splits of the data or session by session.

import type { RunContents } from "../../data/contents.ts";
import { fillOrder } from "../../data/sample-order.ts";
import { evenSplits, type RangesOfPlaces, SplitOrder } from "../../data/split-order.ts";
import { sliceBoundsOf } from "../../kernels/contract/slices.ts";
import type { Schedule } from "./schedule.ts";

/** The options that decide the order: the job's seed and shuffle, and the splits of its data. */
export interface EpochOrderOptions {
  readonly seed: number;
  readonly shuffle: boolean;
  /** The splits and the job's slices, if the samples come in the split order. */
  readonly split?: SplitCut | undefined;
}

/** The splits of a run's data, and the job's slices. */
export interface SplitCut extends Pick<RunContents, "splitSamples" | "splits"> {
  readonly slices: number;
}

/** Returns the splits of a run's samples; undefined: they do not come in the split order. */
export function cutOf(
  { splitSamples, splits }: Pick<RunContents, "splitSamples" | "splits">,
  slices: number,
): SplitCut | undefined {
  return splitSamples === undefined && splits === undefined
    ? undefined
    : { splitSamples, splits, slices };
}

export class EpochOrder {
  readonly #options: EpochOrderOptions;
  readonly #schedule: Pick<Schedule, "samples" | "batchSize">;
  readonly #batch: Pick<
    ConstructorParameters<typeof SplitOrder>[0],
    "starts" | "bounds" | "keepsOrder"
  >;
  /** The split orders of the two epochs that were requested last. */
  #last: readonly { readonly epoch: number; readonly order: SplitOrder }[] = [];

  constructor(options: EpochOrderOptions, schedule: Pick<Schedule, "samples" | "batchSize">) {
    const { split } = options;
    const { samples, batchSize } = schedule;
    this.#options = options;
    this.#schedule = schedule;
    this.#batch = batchOf(split, samples, batchSize);
  }

  /** Fills `out` with the samples at places first, first + 1, … of an epoch. */
  fill(out: Uint32Array, epoch: number, first: number): void {
    const { seed, shuffle, split } = this.#options;
    const { samples } = this.#schedule;
    if (split !== undefined) this.#orderOf(epoch).fill(out, first);
    else fillOrder(out, { seed, epoch, samples, first, shuffle });
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
    const { seed } = this.#options;
    const { batchSize } = this.#schedule;
    const order = new SplitOrder({ ...this.#batch, batchSize, seed, epoch });
    this.#last = [...this.#last.slice(-1), { epoch, order }];
    return order;
  }
}

/**
 * The splits of an epoch, and the bounds of the parts of a batch that each go through splits of
 * their own.
 */
function batchOf(split: SplitCut | undefined, samples: number, batchSize: number) {
  if (split === undefined) return { starts: new Uint32Array(0), bounds: [] };
  const { slices, splits, splitSamples = samples } = split;
  const bounds = sliceBoundsOf(slices, batchSize);
  if (splits === undefined) return { starts: evenSplits(samples, splitSamples), bounds };
  const { lanes, starts, keepsOrder } = splits;
  const lanesOf = (_: unknown, lane: number) => bounds[Math.floor((lane * slices) / lanes)] ?? 0;
  return {
    starts: Uint32Array.from(starts),
    keepsOrder,
    bounds: [...Array.from({ length: lanes }, lanesOf), batchSize],
  };
}
