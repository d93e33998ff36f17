// The autoscaler's control law: determines the number of preprocessing workers of a run from the
// stall of the trainer, the fill of the readers' buffers and the load of the workers. Pure: time is
// an argument. DPP (Zhao et al., ISCA 2022, section 3.2.1) names these inputs and the goal, a
// buffer that is never empty with as few, busy workers as possible, and gives no formula; this
// formula is our own.
//
//   demand, in workers      d = workers · busy / (1 - stalled)
//   up      stalled, or a buffer is empty    ceil(d): at least one more, at most `growthMost` times
//   down    full buffers, and fewer suffice  the least n with d ≤ `busyMost` · n
//
// A trainer that stalls for a share of its time would consume 1 / (1 - share) times as much; a
// worker that is busy for a share of its time does that share of its possible work.

/** Measurements of one interval. */
export interface ServiceLoad {
  readonly atMs: number;
  /** Live workers. */
  readonly workers: number;
  /** Share of the time in which a worker made splits, on average. */
  readonly busy: number;
  /** Share of the time in which readers waited for splits. */
  readonly stalled: number;
  /** Share of the splits needed next that are buffered, in the reader with the fewest. */
  readonly buffered: number;
  /** Whether any reader lacks a split that it needs. */
  readonly isWanted: boolean;
}

/** Interval of the control law. */
export const intervalMs = 1000;
/** Stall share up to which a trainer is not starving. */
export const stalledMost = 0.01;
/**
 * Highest load of the workers after a drain: above it, one briefly slow worker would starve the
 * trainer.
 */
export const busyMost = 0.95;
/** Buffer shares: full from `bufferFull` on, empty below `bufferEmpty`. */
export const bufferFull = 0.75;
export const bufferEmpty = 0.1;
/** Consecutive calm intervals before workers are drained. */
export const intervalsDown = 10;
/** Pause after a change, in which the effect of a started or drained worker becomes visible. */
export const quietUpMs = 4000;
export const quietDownMs = 10_000;
/**
 * Largest growth factor at once: from the stall of few workers, the demand is only a rough
 * estimate.
 */
export const growthMost = 4;

export class Autoscaler {
  readonly #least: number;
  readonly #most: number;
  #wanted: number;
  #changedMs: number;
  #idle: ServiceLoad[] = [];
  #recent: ServiceLoad[] = [];
  /** Live workers in the previous interval. */
  #workers = 0;

  /** Scales between `least` and `most` workers, starting with `least`. */
  constructor(options: { readonly least: number; readonly most: number; readonly atMs: number }) {
    this.#least = options.least;
    this.#most = options.most;
    this.#wanted = options.least;
    this.#changedMs = options.atMs;
  }

  /** Wanted number of workers. */
  get wanted(): number {
    return this.#wanted;
  }

  /** Takes the measurements of an interval. Returns the wanted number of workers. */
  decide(load: ServiceLoad): number {
    const { atMs, workers, stalled, buffered, isWanted } = load;
    if (workers === 0) return this.#go(isWanted ? Math.max(1, this.#wanted) : this.#wanted, atMs);
    // An interval with a change of workers measures neither number.
    const isWhole = workers === this.#workers;
    this.#workers = workers;
    if (isWhole) this.#recent = [...this.#recent, load].slice(-quietUpMs / intervalMs);
    const isIdle = stalled <= stalledMost && buffered >= bufferFull;
    this.#idle = isIdle ? [...this.#idle, load].slice(-intervalsDown) : [];
    const sinceMs = atMs - this.#changedMs;
    const isStarving =
      this.#recent.length > 0 && (stalled > stalledMost || (buffered < bufferEmpty && isWanted));
    // While wanted workers are still starting, no more are added.
    if (isStarving && sinceMs >= quietUpMs && workers >= this.#wanted) {
      const demand = Math.ceil(demandOf(this.#recent) - tolerance);
      return this.#go(Math.min(growthMost * workers, Math.max(workers + 1, demand)), atMs);
    }
    if (this.#idle.length < intervalsDown || sinceMs < quietDownMs) return this.#wanted;
    const enough = Math.ceil(demandOf(this.#idle) / busyMost - tolerance);
    return enough < this.#wanted ? this.#go(Math.max(1, enough), atMs) : this.#wanted;
  }

  #go(workers: number, atMs: number): number {
    const wanted = Math.max(this.#least, Math.min(this.#most, workers));
    if (wanted !== this.#wanted) {
      this.#changedMs = atMs;
      this.#idle = [];
      this.#recent = [];
    }
    this.#wanted = wanted;
    return wanted;
  }
}

const tolerance = 1e-9;

/** The trainer's demand, in workers: the mean over the intervals. */
function demandOf(intervals: readonly ServiceLoad[]): number {
  const demands = intervals.map(({ workers, busy, stalled }) => {
    return (workers * busy) / Math.max(0.05, 1 - stalled);
  });
  return demands.reduce((sum, one) => sum + one, 0) / demands.length;
}
