// How long an engine takes for a batch, by the batch's size: a batch of one says little of one of
// a hundred, whose samples are far cheaper, and a turn that the machine gave to another program
// says nothing of any size but its own.

/** Weight of the newest batch in the moving means. */
const meanShare = 0.1;

export class BatchTimes {
  /** Of batches with 2^(i-1) < samples <= 2^i: their mean size, and mean milliseconds. */
  readonly #sizes: number[] = [];
  readonly #times: number[] = [];

  add(samples: number, ms: number): void {
    const at = Math.ceil(Math.log2(Math.max(1, samples)));
    const [size, time] = [this.#sizes[at], this.#times[at]];
    this.#sizes[at] = size === undefined ? samples : size + meanShare * (samples - size);
    this.#times[at] = time === undefined ? ms : time + meanShare * (ms - time);
  }

  /**
   * Most samples that take no longer than `ms`, at least 1; undefined: nothing was measured. A size
   * that was not measured has the time of another in proportion: more than it will take, as each
   * batch has costs that do not grow with it.
   */
  within(ms: number): number | undefined {
    let most: number | undefined;
    for (const [at, time] of this.#times.entries()) {
      if (time === undefined) continue;
      const samples = time > 0 ? ((this.#sizes[at] ?? 1) * ms) / time : Number.POSITIVE_INFINITY;
      most = Math.max(most ?? 1, Math.floor(samples));
    }
    return most;
  }
}
