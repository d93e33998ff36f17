// Run keeper: brings what a root keeps of its runs to the journal, and then tells it. What is kept
// in one turn of the process comes to the disk in one go, whoever asked for it.
//
//   keep … keep … kept? ──end of the turn──▶ written (and synced, if asked) ─▶ told ─▶ answered
//
// Invariants
//   K1. A run's end is on the disk when `keep` returns.
//   K2. What the disk refuses is told once, and tried again until it takes it; whoever has to know
//       that something is kept is told that it is not.
//   K3. Whatever becomes of the journal, events are told, in the order in which they happened.

import type { Clock } from "../src/clock.ts";
import type { JournalEntry, RunJournal } from "../storage/run-journal.ts";
import type { RunEvent } from "./run-events.ts";
import type { PublishEvent, RunKeeper } from "./run-record.ts";

export interface RunKeeperOptions {
  readonly journal: RunJournal<RunEvent>;
  readonly clock: Clock;
  /** Wait before what the disk refused is tried again. */
  readonly retryMs: number;
  /** Whether this root may still write. */
  readonly isHeld: () => boolean;
  /** Looks whether somebody else leads by now. @throws LeadershipLostError */
  readonly confirm: () => void;
  /** All that a journal must have that begins anew. */
  readonly entries: () => Iterable<JournalEntry<RunEvent>>;
  readonly publish: PublishEvent;
  /** Told what the disk refused, and an event that could not be told. */
  readonly onError: (error: unknown, context: string) => void;
}

/** Whoever waits until something is kept. */
interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** The keeper of a journal, and what tells an event once it is there. */
export function openRunKeeper(options: RunKeeperOptions): {
  readonly keeper: RunKeeper;
  readonly publish: PublishEvent;
} {
  const { journal, clock } = options;
  let turn: JournalEntry<RunEvent>[] = [];
  let told: Parameters<PublishEvent>[] = [];
  let waiters: Waiter[] = [];
  let isTurn = false;
  let isRefused = false;
  const write = (isSynced: boolean) => {
    // A root that leads no more says nothing to whoever leads next either.
    if (options.isHeld()) journal.append(turn, isSynced);
    turn = [];
  };
  /** K3 */
  const tell = () => {
    const events = told;
    told = [];
    for (const event of events) {
      try {
        options.publish(...event);
      } catch (error) {
        options.onError(error, "telling an event");
      }
    }
  };
  /** What the disk refused; undefined: nothing. K2 */
  const refusalOf = (body: () => void): unknown => {
    try {
      body();
      isRefused = false;
      return undefined;
    } catch (error) {
      if (!isRefused) options.onError(error, "writing it");
      isRefused = true;
      clock.after(options.retryMs, endTurn);
      return error;
    }
  };
  const endTurn = () => {
    isTurn = false;
    const waiting = waiters;
    waiters = [];
    const isAsked = waiting.length > 0;
    let refusal = refusalOf(() => {
      if (isAsked || turn.length > 0) write(isAsked);
      if (journal.isLong) journal.begin(options.entries());
    });
    if (isAsked) refusal ??= thrownBy(options.confirm);
    tell();
    for (const { resolve, reject } of waiting) {
      if (refusal === undefined) resolve();
      else reject(refusal);
    }
  };
  const inTurn = () => {
    if (!isTurn) clock.after(0, endTurn);
    isTurn = true;
  };
  return {
    publish: (...event) => {
      told.push(event);
      inTurn();
    },
    keeper: {
      keep: (entry) => {
        turn.push(entry);
        if (entry.kind === "event" && isEnd(entry.event))
          write(true); // K1
        else inTurn();
      },
      kept: () =>
        new Promise((resolve, reject) => {
          waiters.push({ resolve, reject });
          inTurn();
        }),
      forget: (run) => journal.forget(run),
    },
  };
}

function thrownBy(body: () => void): unknown {
  try {
    body();
    return undefined;
  } catch (error) {
    return error;
  }
}

function isEnd({ type }: RunEvent): boolean {
  return type === "run.finished" || type === "run.failed";
}
