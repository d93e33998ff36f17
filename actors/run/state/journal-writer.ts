// Journal writer: appends a leader's entries to the run journal, then publishes their events. All
// entries of one turn of the event loop, of any run, are one write. While the disk syncs one round,
// the next round collects entries (group commit).
//
//   keep … keep … kept? ─end of the turn─▶ write ─▶ sync if requested ─▶ publish ─▶ resolve
//
// Invariants
//   K1. The end of a run is on the disk before it is published, or the disk has refused it.
//   K2. A refused write is reported once and retried until the disk accepts it; a request that
//       waits for an entry of it fails with the reason.
//   K3. Events are published in the order in which they happened, also while writes are refused. A
//       remote journal is synced in each round, and refused events are not published until it
//       accepts them: another machine could not detect missing events.
//   K4. Before an event that the journal lacks is published, the mark of a complete journal is
//       removed.
//   K5. A reset crash count is on the disk before the event that reset it is published: the old
//       count may be on the disk already, and a power loss would restore it.

import { LeadershipLostError } from "../../../src/errors/errors.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import type { Mark } from "../../../storage/cluster/kept-mark.ts";
import type { Awaitable } from "../../../storage/cluster/lease.ts";
import type { JournalEntry, RunJournal } from "../../../storage/cluster/run-journal.ts";
import type { RunEvent } from "./run-events.ts";
import type { PublishEvent, RunKeeper } from "./run-record.ts";

export interface RunKeeperOptions {
  readonly journal: RunJournal<RunEvent>;
  readonly clock: Clock;
  /** Delay before a refused write is retried. */
  readonly retryMs: number;
  /** @throws LeadershipLostError once this process knows that another one leads */
  readonly assertLeading: () => void;
  /** Checks that no other process has become the leader. @throws LeadershipLostError */
  readonly confirm: () => Awaitable<void>;
  /** All entries of a new journal that replaces the present one. */
  readonly entries: () => Iterable<JournalEntry<RunEvent>>;
  readonly publish: PublishEvent;
  /** Mark for the next leader: the journal has every published event (kept-mark.ts). */
  readonly mark: Pick<Mark, "set" | "drop">;
  /** Receives refused writes, and errors of publishing an event. */
  readonly onError: (error: unknown, context: string) => void;
}

/** Called once the entries so far are persisted, or with the reason why they are not. */
type Waiter = (refusal: unknown) => void;

/** The writer of a journal, and the function that publishes an event once its entry is written. */
export function openRunKeeper(options: RunKeeperOptions): {
  readonly keeper: RunKeeper;
  readonly publish: PublishEvent;
} {
  const { journal, clock } = options;
  let round: JournalEntry<RunEvent>[] = [];
  let unpublished: Parameters<PublishEvent>[] = [];
  let waiters: Waiter[] = [];
  let isRound = false;
  let isSyncing = false;
  let isRefused = false;
  /** Whether a retry of a refused write is scheduled. */
  let isRetried = false;
  /** Whether the round must be synced although no request waits for it. K1, K5 */
  let isDue = false;
  /** Whether a sync has failed: the system may then drop the bytes, and a later sync succeeds. */
  let isUnsynced = false;

  const markWhole = markerOf(options);
  const write = () => {
    // Nothing is written once another process leads: if that one dies before it begins its journal,
    // the next leader reads this one. Until then the lease, if not held, may be held again.
    if (round.length > 0 && !isLost(options)) journal.append(round);
    round = [];
    const mustBegin = journal.isLong || (isUnsynced && !journal.isRemote);
    return mustBegin ? journal.begin(options.entries()) : undefined;
  };
  const endRound = async () => {
    isRound = false;
    if (isSyncing) return; // The end of the sync starts this round.
    let events = unpublished;
    const waiting = waiters;
    [unpublished, waiters] = [[], []];
    const isAwaited = waiting.length > 0;
    let refusal: unknown;
    try {
      isSyncing = journal.isRemote;
      const begun = write();
      if (begun !== undefined) await begun;
      if (isAwaited || isDue || journal.isRemote) {
        isSyncing = true;
        isDue = false;
        isUnsynced = true;
        await journal.synced(); // K1
        isUnsynced = false;
      }
      if (isRefused) markWhole(true);
      isRefused = false;
    } catch (error) {
      refusal = error;
      if (!isRefused) options.onError(error, "writing the journal"); // K2
      isRefused = true;
      isDue = true;
      markWhole(false);
      tryAgain();
    }
    if (isAwaited && refusal === undefined) {
      const confirmed = thrownBy(options.confirm);
      refusal = confirmed instanceof Promise ? await confirmed : confirmed;
    }
    isSyncing = false;
    if (journal.isRemote && isRefused) {
      unpublished = [...events, ...unpublished]; // K3
      events = [];
    }
    publishAll(options, events);
    for (const answer of waiting) answer(refusal);
    // These requests have already waited for a whole sync, so the next round starts at once.
    if (waiters.length > 0) void endRound();
    else if (journal.isRemote && isRefused)
      return; // `tryAgain` goes on.
    else if (unpublished.length > 0) inRound();
    else if (round.length > 0 && (refusal === undefined || journal.isRemote)) inRound();
  };
  const tryAgain = () => {
    if (isRetried) return;
    isRetried = true;
    clock.after(options.retryMs, () => {
      isRetried = false;
      void endRound();
    });
  };
  const inRound = () => {
    if (isRound) return;
    isRound = true;
    clock.after(0, () => void endRound());
  };
  return {
    publish: (...event) => {
      unpublished.push(event);
      inRound();
    },
    keeper: {
      keep: (entry) => {
        round.push(entry);
        isDue ||= isKeptAtOnce(entry);
        inRound();
      },
      kept: () =>
        new Promise((resolve, reject) => {
          waiters.push((refusal) => (refusal === undefined ? resolve() : reject(refusal)));
          inRound();
        }),
      forget() {}, // The run's entries are dropped when the journal is rewritten.
    },
  };
}

/** K3. Publishes events in order; an error of one event does not stop the next. */
function publishAll(options: RunKeeperOptions, events: readonly Parameters<PublishEvent>[]): void {
  for (const event of events) {
    const error = thrownBy(() => options.publish(...event));
    if (error !== undefined) options.onError(error, "publishing an event");
  }
}

/** Whether another process leads. @throws errors of the disk */
function isLost({ assertLeading }: RunKeeperOptions): boolean {
  try {
    assertLeading();
    return false;
  } catch (error) {
    if (error instanceof LeadershipLostError) return true;
    throw error;
  }
}

/** K4. Sets and drops the mark. */
function markerOf(options: RunKeeperOptions) {
  const { mark, onError } = options;
  return (isWhole: boolean) => {
    if (isWhole && isLost(options)) return; // The next leader has its own mark.
    const error = thrownBy(() => (isWhole ? mark.set() : mark.drop()));
    if (error !== undefined) onError(error, "marking the journal as complete");
  };
}

/** The error that `body` throws, or a promise of the one that it rejects with; undefined: none. */
function thrownBy(body: () => Awaitable<void>): unknown {
  try {
    const done = body();
    if (!(done instanceof Promise)) return undefined;
    return done.then(
      () => undefined,
      (error: unknown) => error,
    );
  } catch (error) {
    return error;
  }
}

/** Whether an entry is the end of a run (K1) or resets its crash count (K5). */
function isKeptAtOnce(entry: JournalEntry<RunEvent>): boolean {
  if (entry.kind === "request") return entry.crashes === 0;
  return (
    entry.kind === "event" &&
    (entry.event.type === "run.finished" || entry.event.type === "run.failed")
  );
}
