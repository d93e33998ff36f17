// Incidents: one record for one failure, first cause first (law 7). Whoever sees a failure adds who
// it was and what was being done; nobody replaces what was there before.

import {
  type ErrorRecord,
  type Recovery,
  recordError,
  TrainingError,
} from "../../src/errors/errors.ts";
import type { Wait } from "./wait-graph.ts";

/** A failure as it is told: OTP's four fields, and where it was. */
export interface Incident {
  /** The actor that failed: `device:1`. */
  readonly offender: string;
  readonly supervisor: string;
  /** What it was doing: the message that it was at, or the part of its life. */
  readonly context: string;
  readonly reason: ErrorRecord;
  /** The host that it is on, where it takes part in a generation. */
  readonly host?: number | undefined;
  /** Steps that were done. */
  readonly step?: number | undefined;
  /** Who noticed, where the offender itself said nothing. */
  readonly noticedBy?: string | undefined;
  /** Who waited for whom when it was noticed. */
  readonly waits?: readonly Wait[] | undefined;
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

/** `error` as the failure of `offender`; where it names one already, with what that lacks. */
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
