// Goodput: the share of the time that trains samples which are kept, where hosts fail and the run
// restores its last checkpoint. Failures come independently, at exponential times, as in Daly (FGCS
// 2006): with M the mean time between failures of the cluster, T the training between two
// checkpoints, S the time that a checkpoint holds training up, and R that of a restart and restore,
// a stretch of T takes M e^(R/M) (e^((T+S)/M) - 1) in the mean. Its first-order form is
// S/T + (T/2 + R)/M (Check-N-Run, CPR), and the least of that is at T = sqrt(2 S M) (Young 1974).

export interface Failures {
  /** Mean seconds between failures of the whole cluster. Infinity: nothing fails. */
  readonly mtbf: number;
  /** Seconds that a checkpoint holds training up. */
  readonly save: number;
  /** Seconds until a checkpoint is written, during which no other can begin. */
  readonly write: number;
  /** Seconds of a restart and restore, until the run trains again. */
  readonly restore: number;
  /** Seconds of training between checkpoints. Left out: the best. */
  readonly every?: number | undefined;
}

export interface Goodput extends Omit<Failures, "every"> {
  readonly every: number;
  /** Share of the time; 0: the run makes no progress. */
  readonly share: number;
}

/** A smaller share counts as 0: the run would take over a million times as long. */
const leastShare = 1e-6;

export function goodputOf({ every: given, ...failures }: Failures): Goodput {
  const { mtbf, save, write, restore } = failures;
  const best = Math.max(write, Math.sqrt(2 * save * mtbf));
  const every = given ?? best;
  if (mtbf === Number.POSITIVE_INFINITY) {
    const share = every === Number.POSITIVE_INFINITY ? 1 : every / (every + save);
    return { ...failures, every, share };
  }
  // If checkpoints cost nothing, the best stretch has length 0, in which nothing could be trained.
  const stretch = Math.max(every, Number.MIN_VALUE);
  const mean = mtbf * Math.exp(restore / mtbf) * Math.expm1((stretch + save) / mtbf);
  const share = stretch / mean;
  return { ...failures, every, share: share < leastShare ? 0 : share };
}
