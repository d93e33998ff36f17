// The order in which a job trains the samples of its epochs: the file's order, any order of all
// samples, or the split order: in pieces of the data, or session by session.

import type { RunContents } from "../../data/contents.ts";
import { fillOrder } from "../../data/sample-order.ts";
import { evenSplits, type RangesOfPlaces, SplitOrder } from "../../data/split-order.ts";
import { sliceBoundsOf } from "../../kernels/contract/slices.ts";
import type { Schedule } from "./schedule.ts";

/** What decides the order: the job's seed and shuffle, and how its batches are cut. */
export interface EpochOrderOptions {
  readonly seed: number;
  readonly shuffle: boolean;
  /** Where the samples come in the split order: how they are cut, and the job's slices. */
  readonly split?: SplitCut | undefined;
}

/** The splits of a run's data, and the job's slices. */
export interface SplitCut extends Pick<RunContents, "splitSamples" | "splits"> {
  readonly slices: number;
}

/** How the samples of a run are cut into splits; undefined: they do not come in the split order. */
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
  /** The split orders of the two epochs that were asked for last. */
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
   * The splits that these places draw from, and the next ones; undefined where the samples of a
   * batch lie anywhere.
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

/** The splits of an epoch, and the parts of a batch that go through splits of their own. */
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
