// Incidents: one record per failure, first cause first (law 7). Each actor that a failure passes on
// its way up adds missing fields, such as the failed actor and its activity, and replaces none.

import {
  type ErrorRecord,
  type Recovery,
  recordError,
  TrainingError,
} from "../../src/errors/errors.ts";
import type { Wait } from "./wait-graph.ts";

/**
 * A failure as it is reported: the four fields of an OTP supervisor report, and where it happened.
 */
export interface Incident {
  /** The actor that failed: `device:1`. */
  readonly offender: string;
  readonly supervisor: string;
  /** Its activity: the message that it was processing, or the phase of its life cycle. */
  readonly context: string;
  readonly reason: ErrorRecord;
  /** The host of an actor that takes part in a generation. */
  readonly host?: number | undefined;
  /** Completed steps. */
  readonly step?: number | undefined;
  /** The actor that noticed the failure, if the offender did not report it. */
  readonly noticedBy?: string | undefined;
  /** The wait graph when the failure was noticed. */
  readonly waits?: readonly Wait[] | undefined;
}

/** A failure of an actor on its way up the tree. The first offender is never replaced. */
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

/**
 * Wraps `error` as a failure of `offender`. If `error` already names an offender, only its missing
 * fields are filled in.
 */
export function failureOf(error: unknown, at: Omit<Incident, "reason">): ActorFailedError {
  if (!(error instanceof ActorFailedError)) {
    return new ActorFailedError({ ...at, reason: recordError(error) }, { cause: error });
  }
  const { incident } = error;
  const lacking = Object.entries(at).filter(
    ([key]) => incident[key as keyof Incident] === undefined,
  );
  if (lacking.length === 0) return error;
  const whole = { ...incident, ...Object.fromEntries(lacking) };
  return new ActorFailedError(whole, { cause: error.cause });
}
