// The incidents of a run, one record each: first cause, secondary failures, the actions of the
// supervisors in order, and the outcome. Rebuilt from the run's events, so that the next leader
// finds them in the journal.
//
// Invariants
//   I1. Every failure in a generation after its first failure is secondary: one incident.
//   I2. An incident that has ended does not change any more.

import type { Incident } from "../../runtime/incident.ts";
import type { IncidentCause, IncidentEnd, IncidentRecord } from "./incident-record.ts";

/** Incidents kept for a run (the oldest are dropped first), and lines kept for an incident. */
const incidentsMax = 1000;
const linesMax = 100;

export class IncidentLog {
  readonly #records: IncidentRecord[] = [];
  #count = 0;

  /** The number of the next incident. */
  get next(): number {
    return this.#count + 1;
  }

  /** Oldest first. */
  all(): readonly IncidentRecord[] {
    return [...this.#records];
  }

  /** Incidents without an end. */
  get open(): readonly IncidentRecord[] {
    return this.#records.filter(({ end }) => end === undefined);
  }

  /** Begins an incident by its first cause, taken from `run.incident`. */
  begin(generation: number, cause: IncidentCause): void {
    this.#count = Math.max(this.#count, cause.incident);
    this.#records.push({ ...cause, generation, followed: [], actions: [] });
    if (this.#records.length > incidentsMax) this.#records.shift();
  }

  /**
   * I1. Whether a failure is secondary to an open incident of its generation. If so, it is added to
   *     the record, unless its actor is already in it.
   */
  follow(generation: number, { offender, reason }: Incident, at: Date): boolean {
    const first = this.open.find((one) => one.generation === generation && generation > 0);
    if (first === undefined) return false;
    const { code, message } = reason;
    const isKnown =
      first.offender === offender ||
      first.noticedBy === offender ||
      first.followed.some(({ actor }) => actor === offender);
    if (isKnown || first.followed.length >= linesMax) return true;
    const line = { actor: offender, code, message, afterMs: since(first, at) };
    this.#replace({ ...first, followed: [...first.followed, line] });
    return true;
  }

  /** Records an action of the supervisor `by` in all open incidents. */
  act(by: string, did: string, at: Date): void {
    for (const one of this.open) {
      if (one.actions.length >= linesMax) continue;
      const action = { by, did, afterMs: since(one, at) };
      this.#replace({ ...one, actions: [...one.actions, action] });
    }
  }

  /** Ends all open incidents and returns them, complete. */
  end(end: Omit<IncidentEnd, "afterMs">, at: Date): IncidentRecord[] {
    const ended = this.open.map((one) => ({ ...one, end: { ...end, afterMs: since(one, at) } }));
    for (const one of ended) this.#replace(one);
    return ended;
  }

  /** Ends all open incidents because the run failed, at the time of their last action. */
  giveUp(generation: number): void {
    for (const one of this.open) {
      const afterMs = one.actions.at(-1)?.afterMs ?? 0;
      this.#replace({ ...one, end: { how: "failed", generation, step: one.step ?? 0, afterMs } });
    }
  }

  /** Replaces incidents by the complete records of an event. I2 */
  take(records: readonly IncidentRecord[]): void {
    for (const one of records) this.#replace(one);
  }

  #replace(record: IncidentRecord): void {
    const at = this.#records.findIndex(({ incident }) => incident === record.incident);
    if (at >= 0) this.#records[at] = record;
  }
}

function since({ at }: IncidentCause, now: Date): number {
  return Math.max(0, now.getTime() - Date.parse(at));
}
