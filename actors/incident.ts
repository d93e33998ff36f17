// Incidents: one record for one failure, first cause first (law 7). Whoever sees a failure adds who
// it was and what was being done; nobody replaces what was there before.

import { type ErrorRecord, type Recovery, recordError, TrainingError } from "../src/errors.ts";

/** A failure as it is told: OTP's four fields, and what came of it. */
export interface Incident {
  /** The actor that failed: `device:1`. */
  readonly offender: string;
  readonly supervisor: string;
  readonly context: string;
  readonly reason: ErrorRecord;
}

/** A failure of an actor on its way up the tree. The first one that names an offender stays. */
export class ActorFailedError extends TrainingError {
  readonly code: string;
  readonly recovery: Recovery;
  readonly incident: Incident;

  constructor(incident: Incident, options?: ErrorOptions) {
    super(`${incident.offender} failed: ${incident.reason.message}`, options);
    this.code = incident.reason.code;
    this.recovery = incident.reason.recovery;
    this.incident = incident;
  }
}

/** `error` as the failure of `offender`, unless it already names one. */
export function failureOf(
  error: unknown,
  at: { offender: string; supervisor: string; context: string },
): ActorFailedError {
  if (error instanceof ActorFailedError) return error;
  return new ActorFailedError({ ...at, reason: recordError(error) }, { cause: error });
}
