// Warm start: a new job that begins with the trained state of another one, its rows, dense weights
// and optimizer state, as yesterday's model for the data of today. Steps are numbered on from the
// checkpoint that it begins with, so that Adam's corrections, the rounding of rows and the eviction
// of ids go on as if one run had trained on both data sets.

/** A job, as far as its beginning goes. */
interface Begun {
  readonly warmStart?:
    | { readonly step?: number | undefined; readonly digest?: string | undefined }
    | undefined;
}

/** The number of the step before a job's first. */
export function stepBefore({ warmStart }: Begun): number {
  return warmStart?.step ?? 0;
}

/** The part of a warm start that decides bits: the state that it begins with, wherever it lies. */
export function warmStartIdentity({ warmStart }: Begun) {
  return warmStart && { step: warmStart.step, digest: warmStart.digest };
}
