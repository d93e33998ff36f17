// Run keeper: brings what a leader keeps of its runs to the journal, and then tells it. What is
// kept in one turn of the event loop, for any run, is written in one go. While the disk syncs one
// round, the next round gathers.
//
//   keep … keep … kept? ──end of the turn──▶ written ─▶ synced, if asked ─▶ told ─▶ answered
//
// Invariants
//   K1. A run's end is on the disk before it is told, or the disk has refused it.
//   K2. What the disk refuses is told once, and tried again until the disk takes it; a request that
//       waits for an entry to be kept is told that it is not.
//   K3. Events are told in the order in which they happened, also while the disk refuses.
//   K4. Before an event is told that the journal lacks, the mark of a whole journal is taken away.

import type { Clock } from "../../src/ports/clock.ts";
import type { KeptMark } from "../../storage/cluster/kept-mark.ts";
import type { JournalEntry, RunJournal } from "../../storage/cluster/run-journal.ts";
import type { RunEvent } from "./run-events.ts";
import type { PublishEvent, RunKeeper } from "./run-record.ts";

export interface RunKeeperOptions {
  readonly journal: RunJournal<RunEvent>;
  readonly clock: Clock;
  /** Wait before what the disk refused is tried again. */
  readonly retryMs: number;
  /** Whether this leader may still write. */
  readonly isHeld: () => boolean;
  /** Looks whether somebody else leads by now. @throws LeadershipLostError */
  readonly confirm: () => void;
  /** All that a journal must have that begins anew. */
  readonly entries: () => Iterable<JournalEntry<RunEvent>>;
  readonly publish: PublishEvent;
  /** Says to the next leader that the journal has all that was told (kept-mark.ts). */
  readonly mark: Pick<KeptMark, "set" | "drop">;
  /** Told what the disk refused, and an event that could not be told. */
  readonly onError: (error: unknown, context: string) => void;
}

/** Whoever waits until something is kept: told why it is not. */
type Waiter = (refusal: unknown) => void;

/** The keeper of a journal, and what tells an event once it is there. */
export function openRunKeeper(options: RunKeeperOptions): {
  readonly keeper: RunKeeper;
  readonly publish: PublishEvent;
} {
  const { journal, clock } = options;
  let round: JournalEntry<RunEvent>[] = [];
  let told: Parameters<PublishEvent>[] = [];
  let waiters: Waiter[] = [];
  let isRound = false;
  let isSyncing = false;
  let isRefused = false;
  /** Whether what was refused will be tried again without being asked. */
  let isRetried = false;
  /** Whether the entry must reach the disk even if no request waits for it. */
  let isDue = false;

  const markWhole = markerOf(options);
  const write = () => {
    // A leader that leads no more tells the next leader nothing either.
    if (round.length > 0 && options.isHeld()) journal.append(round);
    else if (round.length > 0) markWhole(false, "for good");
    round = [];
    if (journal.isLong) journal.begin(options.entries());
  };
  const endRound = async () => {
    isRound = false;
    if (isSyncing) return; // Its end begins this one.
    const [events, waiting] = [told, waiters];
    [told, waiters] = [[], []];
    const isAsked = waiting.length > 0;
    let refusal: unknown;
    try {
      write();
      if (isAsked || isDue) {
        isSyncing = true;
        isDue = false;
        await journal.synced(); // K1
      }
      if (isRefused) markWhole(true);
      isRefused = false;
    } catch (error) {
      refusal = error;
      if (!isRefused) options.onError(error, "writing it"); // K2
      isRefused = true;
      isDue = true;
      markWhole(false);
      tryAgain();
    }
    isSyncing = false;
    if (isAsked) refusal ??= thrownBy(options.confirm);
    tell(options, events);
    for (const answer of waiting) answer(refusal);
    // Those have waited for a whole sync.
    if (waiters.length > 0) void endRound();
    else if (told.length > 0 || (round.length > 0 && refusal === undefined)) inRound();
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
      told.push(event);
      inRound();
    },
    keeper: {
      keep: (entry) => {
        round.push(entry);
        isDue ||= entry.kind === "event" && isEnd(entry.event);
        inRound();
      },
      kept: () =>
        new Promise((resolve, reject) => {
          waiters.push((refusal) => (refusal === undefined ? resolve() : reject(refusal)));
          inRound();
        }),
      forget() {}, // Its entries go when the journal is rewritten.
    },
  };
}

/** K3 */
function tell(options: RunKeeperOptions, events: readonly Parameters<PublishEvent>[]): void {
  for (const event of events) {
    const error = thrownBy(() => options.publish(...event));
    if (error !== undefined) options.onError(error, "telling an event");
  }
}

/** K4. What is left out of the journal for good takes the mark away for good. */
function markerOf({ mark, onError }: RunKeeperOptions) {
  let isForGood = false;
  return (isWhole: boolean, howLong?: "for good") => {
    isForGood ||= howLong !== undefined;
    const error = thrownBy(() => (isWhole && !isForGood ? mark.set() : mark.drop()));
    if (error !== undefined) onError(error, "marking it");
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
