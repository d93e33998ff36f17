// Warm start: a new job begins with the trained state of an earlier one, that is rows, dense
// weights and optimizer state, for example yesterday's model for the data of today. The numbers of
// its steps continue from that checkpoint, so that Adam's bias corrections, the rounding of rows
// and the eviction of ids continue as if one run had trained on both data sets.

/** The part of a job that defines its initial state. */
interface Begun {
  readonly warmStart?:
    | { readonly step?: number | undefined; readonly digest?: string | undefined }
    | undefined;
}

/** Returns the number of the step before a job's first step. */
export function stepBefore({ warmStart }: Begun): number {
  return warmStart?.step ?? 0;
}

/**
 * Returns the part of a warm start that decides bits: the initial state, independent of its
 * directory.
 */
export function warmStartIdentity({ warmStart }: Begun) {
  return warmStart && { step: warmStart.step, digest: warmStart.digest };
}
