// Crash-loop guard: counts how often each run was begun without reaching its first step. A run
// whose data or options crash the leader's process would crash the next leader too, and with it the
// runs of all tenants. The count is in the journal before the run begins, and a leader does not
// start a run that has ended two leaders.
//
// Invariants
//   L1. Only a crash of the process counts: a leader that stops in order resets the counts, and so
//       do a run's first step and a pause. A restart of an actor does not count.
//   L2. A reset is an entry of the journal, as the count is, and is synced (K5 of
//       journal-writer.ts): a power loss may lose the event that reset the count.

import type { JournalEntry } from "../../../storage/cluster/run-journal.ts";
import type { RunEvent } from "./run-events.ts";
import type { RunKeeper } from "./run-record.ts";

/** Leaders that a run may end before it is no longer started. */
export const crashesMax = 2;

/** Events that reset the count of a run. L1 */
const harmless: ReadonlySet<RunEvent["type"]> = new Set([
  ...(["run.started", "run.paused", "run.preempted", "run.finished", "run.failed"] as const),
]);

export class CrashCounts {
  readonly #keeper: Pick<RunKeeper, "keep">;
  /** Per run: leaders that began it and crashed before its first step. */
  readonly #crashes = new Map<string, number>();
  /** Runs that this process has started. */
  readonly #begun = new Set<string>();

  constructor(keeper: Pick<RunKeeper, "keep">) {
    this.#keeper = keeper;
  }

  /** Whether the run has reached `crashesMax` and must not be started. */
  isSetAside(run: string): boolean {
    return !this.#begun.has(run) && this.of(run) >= crashesMax;
  }

  of(run: string): number {
    return this.#crashes.get(run) ?? 0;
  }

  /** Counts a start of the run, when it gets its devices; at most once per process. */
  begin(run: string): void {
    if (this.#begun.has(run)) return;
    this.#begun.add(run);
    this.#set(run, this.of(run) + 1);
  }

  /** Observes an event of the run. L2 */
  note({ run, type }: Pick<RunEvent, "run" | "type">): void {
    if (harmless.has(type) && this.of(run) > 0) this.#set(run, 0);
  }

  /** Restores the count from an entry of the former leader's journal. */
  restore(entry: JournalEntry<RunEvent>): void {
    if (entry.kind === "event" && harmless.has(entry.event.type)) this.#crashes.delete(entry.run);
    if (entry.kind !== "request" || entry.crashes === undefined) return;
    this.#crashes.set(entry.run, entry.crashes);
  }

  /** Resets all counts: the former leader stopped in order, so no run has ended it. */
  reset(): void {
    for (const run of [...this.#crashes.keys()]) this.#set(run, 0);
  }

  forget(run: string): void {
    this.#crashes.delete(run);
    this.#begun.delete(run);
  }

  /** The journal entries of the run, which follow its events. */
  *entries(run: string): Generator<JournalEntry<RunEvent>> {
    const crashes = this.of(run);
    if (crashes > 0) yield { kind: "request", run, crashes };
  }

  #set(run: string, crashes: number): void {
    this.#crashes.set(run, crashes);
    this.#keeper.keep({ kind: "request", run, crashes });
  }
}
