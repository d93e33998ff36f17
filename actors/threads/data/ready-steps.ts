// How far a run can train while its files are still being indexed: the steps whose files have their
// indexes, and the order in which steps read files.

import { pieceWith } from "../../../src/data/cache/pieces.ts";
import type { EpochOrder } from "../../../src/data/sample-order.ts";
import type { Schedule } from "../../../src/training/loop/schedule.ts";
import { heldForStep } from "./batch-source.ts";

/** Stands for the number of steps once all files are indexed. */
export const allSteps = Number.MAX_SAFE_INTEGER;

/** Most steps that are sampled to find the order of files, which decides no bit. */
const looksMax = 65_536;

/** The steps for which all files have their indexes. */
export class ReadySteps {
  readonly #schedule: Schedule;
  readonly #order: EpochOrder;
  readonly #pieces: Float64Array;
  /** First sample of each file, then the end. */
  readonly #firsts: Float64Array;
  readonly #existing = new Set<number>();
  #step: number;

  constructor(
    schedule: Schedule,
    order: EpochOrder,
    pieces: Float64Array,
    samples: readonly number[],
  ) {
    this.#schedule = schedule;
    this.#order = order;
    this.#pieces = pieces;
    this.#firsts = new Float64Array(samples.length + 1);
    for (const [i, count] of samples.entries()) {
      this.#firsts[i + 1] = (this.#firsts[i] ?? 0) + count;
    }
    this.#step = schedule.begin;
  }

  /** The number of the step that can be trained last; `allSteps` if all of an epoch can. */
  upTo(isThere: (file: number) => boolean): number {
    const end = this.#schedule.begin + this.#schedule.stepsPerEpoch;
    const isKnown = (file: number) => {
      if (!this.#existing.has(file) && isThere(file)) this.#existing.add(file);
      return this.#existing.has(file);
    };
    while (this.#step < end && this.filesOf(this.#step).every(isKnown)) this.#step++;
    return this.#step < end ? this.#step : allSteps;
  }

  /** The files that the step after `step` reads. */
  filesOf(step: number): number[] {
    const dataset = { isStreamed: true, pieces: this.#pieces };
    const partsOf = (count: number) => [{ first: 0, count }];
    const input = { schedule: this.#schedule, order: this.#order, dataset, partsOf };
    const files = new Set<number>();
    for (const { first, end } of heldForStep(input, step)?.now ?? []) {
      const last = pieceWith(this.#firsts, end - 1);
      for (let file = pieceWith(this.#firsts, first); file <= last; file++) files.add(file);
    }
    return [...files];
  }

  /** All files, about in the order in which the steps read them. */
  filesInOrder(): number[] {
    const { begin, stepsPerEpoch } = this.#schedule;
    const files = new Set<number>();
    const every = Math.ceil(stepsPerEpoch / looksMax);
    for (let step = 0; step < stepsPerEpoch; step += every) {
      for (const file of this.filesOf(begin + step)) files.add(file);
    }
    for (let file = 0; file + 1 < this.#firsts.length; file++) files.add(file);
    return [...files];
  }
}
