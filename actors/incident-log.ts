// The incidents of a run: one record each, first cause first, then what failed because of it, what
// each supervisor did, in order, and how it ended. Rebuilt from the run's events, so that whoever
// leads next finds them in the journal.
//
// Invariants
//   I1. What fails in a generation after its first failure follows from it: one incident.
//   I2. An incident that has ended is not changed any more.

import type { ErrorRecord } from "../src/errors.ts";
import type { Incident } from "./incident.ts";
import type { Wait } from "./waits.ts";

/** What a supervisor did about an incident. */
export interface IncidentAction {
  /** `host:1`, `job:r1` */
  readonly by: string;
  readonly did: string;
  /** Since the incident was noticed. */
  readonly afterMs: number;
}

/** How an incident ended. */
export interface IncidentEnd {
  /** `restored`: from a checkpoint; `mended`: without; `failed`: the run ended by it. */
  readonly how: "restored" | "mended" | "failed";
  /** The generation that goes on, and the step from which. */
  readonly generation: number;
  readonly step: number;
  /** From when it was noticed to the first step after it. */
  readonly afterMs: number;
}

/** First cause: what, where and when. */
export interface IncidentCause {
  /** Counted from 1 in a run. */
  readonly incident: number;
  /** When it was noticed: ISO 8601. */
  readonly at: string;
  /** The actor that failed: `device:1`. */
  readonly offender: string;
  readonly supervisor: string;
  /** The message that it was at, or the part of its life. */
  readonly context: string;
  readonly error: ErrorRecord;
  readonly host?: number | undefined;
  /** Steps that were done. */
  readonly step?: number | undefined;
  /** The batch of the step that came next: pass, and number in it, both from 0. */
  readonly batch?: { readonly pass: number; readonly index: number } | undefined;
  /** Who noticed, where the offender itself said nothing. */
  readonly noticedBy?: string | undefined;
  /** Who waited for whom. */
  readonly waits?: readonly Wait[] | undefined;
}

/** One incident, whole. */
export interface IncidentRecord extends IncidentCause {
  readonly generation: number;
  /** What failed because of it, as far as it was heard of. */
  readonly followed: readonly {
    readonly actor: string;
    readonly code: string;
    readonly message: string;
    readonly afterMs: number;
  }[];
  readonly actions: readonly IncidentAction[];
  /** Undefined while it lasts. */
  readonly end?: IncidentEnd | undefined;
}

/** Incidents that a run remembers, and what it remembers of one; older ones are forgotten. */
const incidentsMax = 1000;
const linesMax = 100;

export class IncidentLog {
  readonly #records: IncidentRecord[] = [];
  #count = 0;

  /** The number of the next one. */
  get next(): number {
    return this.#count + 1;
  }

  /** Oldest first. */
  all(): readonly IncidentRecord[] {
    return [...this.#records];
  }

  /** Those that last. */
  get open(): readonly IncidentRecord[] {
    return this.#records.filter(({ end }) => end === undefined);
  }

  /** A first cause, from its event. */
  begin(generation: number, cause: IncidentCause): void {
    this.#count = Math.max(this.#count, cause.incident);
    this.#records.push({ ...cause, generation, followed: [], actions: [] });
    if (this.#records.length > incidentsMax) this.#records.shift();
  }

  /** I1. Whether a failure of a generation is a part of what is known, where it is noted then. */
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

  /** What `by` did about all that lasts. */
  act(by: string, did: string, at: Date): void {
    for (const one of this.open) {
      if (one.actions.length >= linesMax) continue;
      const action = { by, did, afterMs: since(one, at) };
      this.#replace({ ...one, actions: [...one.actions, action] });
    }
  }

  /** The end of all that lasts; returns those, whole. */
  end(end: Omit<IncidentEnd, "afterMs">, at: Date): IncidentRecord[] {
    const ended = this.open.map((one) => ({ ...one, end: { ...end, afterMs: since(one, at) } }));
    for (const one of ended) this.#replace(one);
    return ended;
  }

  /** Takes records as an event has them. I2 */
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
