// The phases of an incident, in milliseconds since it was detected, as far as its record and the
// events after it give them.
//
//   detect ──▶ decide ──▶ restore ──▶ replay ──▶ caught up
//
// detect   the longest wait for the offender before its detection: known for unresponsive actors,
//          as a thrown error is detected at once
// decide   until the first action of a supervisor
// restore  until the first step of the new generation
// replay   until the run reaches its former step again: known only for events received live

import type { IncidentRecord } from "../../../../internal.ts";

/** One phase: its beginning and its end. */
export interface Phase {
  readonly name: "detect" | "decide" | "restore" | "replay";
  readonly fromMs: number;
  readonly toMs: number;
}

/** An incident, and the time at which the run had caught up, in milliseconds since 1970. */
export interface ShownIncident {
  readonly record: IncidentRecord;
  readonly caughtUpAtMs?: number | undefined;
}

/** The known phases of an incident, in order. */
export function phasesOf({ record, caughtUpAtMs }: ShownIncident): Phase[] {
  const { actions, end, waits = [] } = record;
  const waited = Math.max(0, ...waits.map(({ forMs }) => forMs));
  const decided = actions[0]?.afterMs ?? end?.afterMs;
  const phases: Phase[] = waited > 0 ? [{ name: "detect", fromMs: -waited, toMs: 0 }] : [];
  if (decided === undefined) return phases;
  phases.push({ name: "decide", fromMs: 0, toMs: decided });
  if (end === undefined || end.how !== "restored") return phases;
  phases.push({ name: "restore", fromMs: decided, toMs: end.afterMs });
  if (caughtUpAtMs === undefined) return phases;
  const caughtUp = Math.max(end.afterMs, caughtUpAtMs - Date.parse(record.at));
  return [...phases, { name: "replay", fromMs: end.afterMs, toMs: caughtUp }];
}
