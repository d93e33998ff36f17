// The order in which a job trains the samples of its epochs: the file's order, any order of all
// samples, or the split order.

import type { SampleRange } from "../../data/dataset.ts";
import { fillOrder } from "../../data/sample-order.ts";
import { evenSplits, SplitOrder } from "../../data/split-order.ts";
import { sliceBoundsOf } from "../../kernels/contract/slices.ts";
import type { Schedule } from "./schedule.ts";

/** What decides the order: the job's seed and shuffle, and how its batches are cut. */
export interface EpochOrderOptions {
  readonly seed: number;
  readonly shuffle: boolean;
  /** Where the samples come in the split order: the samples of a split, and the job's slices. */
  readonly split?: { readonly splitSamples: number; readonly slices: number } | undefined;
}

export class EpochOrder {
  readonly #options: EpochOrderOptions;
  readonly #schedule: Pick<Schedule, "samples" | "batchSize">;
  readonly #batch: Pick<ConstructorParameters<typeof SplitOrder>[0], "starts" | "bounds">;
  /** The split order of the epoch that was asked for last. */
  #last: { readonly epoch: number; readonly order: SplitOrder } | undefined;

  constructor(options: EpochOrderOptions, schedule: Pick<Schedule, "samples" | "batchSize">) {
    const { split } = options;
    const { samples, batchSize } = schedule;
    this.#options = options;
    this.#schedule = schedule;
    this.#batch =
      split === undefined
        ? { starts: new Uint32Array(0), bounds: [] }
        : {
            starts: evenSplits(samples, split.splitSamples),
            bounds: sliceBoundsOf(split.slices, batchSize),
          };
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
  rangesAt(
    epoch: number,
    first: number,
    count: number,
  ): { now: SampleRange[]; next: SampleRange[] } | undefined {
    if (this.#options.split === undefined) return undefined;
    return this.#orderOf(epoch).rangesAt(first, count);
  }

  #orderOf(epoch: number): SplitOrder {
    if (this.#last?.epoch !== epoch) {
      const { seed } = this.#options;
      const { batchSize } = this.#schedule;
      this.#last = { epoch, order: new SplitOrder({ ...this.#batch, batchSize, seed, epoch }) };
    }
    return this.#last.order;
  }
}
