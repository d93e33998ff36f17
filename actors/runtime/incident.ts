// Incidents: one record for one failure, first cause first (law 7). Each actor that a failure
// passes adds what the record lacks: the actor that failed, and what it was doing. No actor
// replaces what the record has.

import {
  type ErrorRecord,
  type Recovery,
  recordError,
  TrainingError,
} from "../../src/errors/errors.ts";
import type { Wait } from "./wait-graph.ts";

/** A failure as it is told: OTP's four fields, and where it happened. */
export interface Incident {
  /** The actor that failed: `device:1`. */
  readonly offender: string;
  readonly supervisor: string;
  /** What it was doing: the message that it handled, or the part of its life. */
  readonly context: string;
  readonly reason: ErrorRecord;
  /** The host of an actor that takes part in a generation. */
  readonly host?: number | undefined;
  /** Steps that were done. */
  readonly step?: number | undefined;
  /** The actor that noticed, if the offender itself said nothing. */
  readonly noticedBy?: string | undefined;
  /** Who waited for whom when it was noticed. */
  readonly waits?: readonly Wait[] | undefined;
}

/** A failure of an actor on its way up the tree. The offender named first stays. */
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

/** `error` as the failure of `offender`; if `error` names one already, with what it lacks. */
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
