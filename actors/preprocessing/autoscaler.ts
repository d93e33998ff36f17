// The autoscaler's law: how many preprocessing workers a run should have, from how long the trainer
// waited, how full the readers' buffers are, and how busy the workers were. Pure: it is told the
// time. DPP (Zhao et al., ISCA 2022, section 3.2.1) names these inputs and the goal, a buffer that
// is never empty with as few, busy workers as possible, and gives no formula; this one is ours.
//
//   demand, in workers      d = workers · busy / (1 - stalled)
//   up      stalled, or a buffer is empty    ceil(d): one more at least, `growthMost` times at most
//   down    full buffers, and fewer would do the least n with d ≤ `busyMost` · n
//
// A trainer that waits for a share of its time would take 1 / (1 - share) times as much; a worker
// that is busy for a share of its time does so much of what a worker can do.

/** What is known of one interval. */
export interface ServiceNews {
  readonly atMs: number;
  /** Workers that live. */
  readonly workers: number;
  /** Share of its time that a worker made splits, on average. */
  readonly busy: number;
  /** Share of the time that readers waited for splits. */
  readonly stalled: number;
  /** Share of the splits that readers need next and have, in the reader with the fewest. */
  readonly buffered: number;
  /** Whether any reader needs a split that it has not. */
  readonly isWanted: boolean;
}

/** How often the law is asked. */
export const intervalMs = 1000;
/** A trainer that waits for less than this share does not starve. */
export const stalledMost = 0.01;
/** How busy workers may be after a drain: above, one that is slow for a moment would starve it. */
export const busyMost = 0.95;
/** A buffer is full from this share on, and empty below that one. */
export const bufferFull = 0.75;
export const bufferEmpty = 0.1;
/** Intervals that must agree before workers are drained. */
export const intervalsDown = 10;
/** Quiet after a change: a worker that starts, or drains, must be seen first. */
export const quietUpMs = 4000;
export const quietDownMs = 10_000;
/** Workers grow to so many times as many at once: what one worker's stall says of many is rough. */
export const growthMost = 4;

export class Autoscaler {
  readonly #least: number;
  readonly #most: number;
  #wanted: number;
  #changedMs: number;
  #calm: ServiceNews[] = [];
  #recent: ServiceNews[] = [];
  /** In the interval before. */
  #workers = 0;

  /** Between `least` and `most` workers; it begins with `least`. */
  constructor(options: { readonly least: number; readonly most: number; readonly atMs: number }) {
    this.#least = options.least;
    this.#most = options.most;
    this.#wanted = options.least;
    this.#changedMs = options.atMs;
  }

  /** How many there should be. */
  get wanted(): number {
    return this.#wanted;
  }

  /** Takes what is known of an interval. Returns how many workers there should be. */
  hear(news: ServiceNews): number {
    const { atMs, workers, stalled, buffered, isWanted } = news;
    if (workers === 0) return this.#go(isWanted ? Math.max(1, this.#wanted) : this.#wanted, atMs);
    // An interval in which workers came or went says what neither number of them can do.
    const isWhole = workers === this.#workers;
    this.#workers = workers;
    if (isWhole) this.#recent = [...this.#recent, news].slice(-quietUpMs / intervalMs);
    const isCalm = stalled <= stalledMost && buffered >= bufferFull;
    this.#calm = isCalm ? [...this.#calm, news].slice(-intervalsDown) : [];
    const sinceMs = atMs - this.#changedMs;
    const isStarving =
      this.#recent.length > 0 && (stalled > stalledMost || (buffered < bufferEmpty && isWanted));
    // Workers that are asked for and not there yet are no reason to ask for more.
    if (isStarving && sinceMs >= quietUpMs && workers >= this.#wanted) {
      const demand = Math.ceil(demandOf(this.#recent) - tolerance);
      return this.#go(Math.min(growthMost * workers, Math.max(workers + 1, demand)), atMs);
    }
    if (this.#calm.length < intervalsDown || sinceMs < quietDownMs) return this.#wanted;
    const enough = Math.ceil(demandOf(this.#calm) / busyMost - tolerance);
    return enough < this.#wanted ? this.#go(Math.max(1, enough), atMs) : this.#wanted;
  }

  #go(workers: number, atMs: number): number {
    const wanted = Math.max(this.#least, Math.min(this.#most, workers));
    if (wanted !== this.#wanted) {
      this.#changedMs = atMs;
      this.#calm = [];
      this.#recent = [];
    }
    this.#wanted = wanted;
    return wanted;
  }
}

const tolerance = 1e-9;

/** The trainer's demand, in workers: the mean over the intervals. */
function demandOf(intervals: readonly ServiceNews[]): number {
  const demands = intervals.map(({ workers, busy, stalled }) => {
    return (workers * busy) / Math.max(0.05, 1 - stalled);
  });
  return demands.reduce((sum, one) => sum + one, 0) / demands.length;
}
