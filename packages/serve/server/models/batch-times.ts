// Time of an engine per batch, by batch size. Sizes are measured separately, because samples are
// far cheaper in large batches, and because a delay of the machine should affect only one size.

/** Weight of the newest batch in the moving means. */
const meanShare = 0.1;

export class BatchTimes {
  /** For batches with 2^(i-1) < samples <= 2^i: mean size, and mean milliseconds. */
  readonly #sizes: number[] = [];
  readonly #times: number[] = [];

  add(samples: number, ms: number): void {
    const at = Math.ceil(Math.log2(Math.max(1, samples)));
    const [size, time] = [this.#sizes[at], this.#times[at]];
    this.#sizes[at] = size === undefined ? samples : size + meanShare * (samples - size);
    this.#times[at] = time === undefined ? ms : time + meanShare * (ms - time);
  }

  /**
   * The most samples that take no longer than `ms`, at least 1; undefined: no measurement. The time
   * of an unmeasured size is extrapolated in proportion, which overestimates it, as each batch has
   * fixed costs.
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
