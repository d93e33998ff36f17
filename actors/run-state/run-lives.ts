// How often each run was begun without coming to its first step: a run that ends its leader's
// process, by its data or its options, would end the next leader's too, and with it everybody's
// runs. The count is in the journal before the run begins, and a leader leaves alone what has ended
// two of them.
//
// Invariants
//   L1. Only an end of the process counts: a leader that stops as it should takes the count back,
//       and so do a first step and a pause. A restart of an actor is no end of the process.

import type { JournalEntry } from "../../storage/cluster/run-journal.ts";
import type { RunEvent } from "./run-events.ts";
import type { RunKeeper } from "./run-record.ts";

/** Leaders that a run may end before it is left alone. */
export const livesMax = 2;

/** Events after which a run has ended no leader. L1 */
const harmless: ReadonlySet<RunEvent["type"]> = new Set([
  ...(["run.started", "run.paused", "run.preempted", "run.finished", "run.failed"] as const),
]);

export class RunLives {
  readonly #keeper: Pick<RunKeeper, "keep">;
  /** By run: leaders that began it, and no more was heard of either. */
  readonly #lives = new Map<string, number>();
  /** Runs that this process has begun. */
  readonly #begun = new Set<string>();

  constructor(keeper: Pick<RunKeeper, "keep">) {
    this.#keeper = keeper;
  }

  /** Whether the run has ended as many leaders as it may. */
  isSetAside(run: string): boolean {
    return !this.#begun.has(run) && this.of(run) >= livesMax;
  }

  of(run: string): number {
    return this.#lives.get(run) ?? 0;
  }

  /** Its devices are given to the run; a second time in this process it counts no more. */
  begin(run: string): void {
    if (this.#begun.has(run)) return;
    this.#begun.add(run);
    this.#set(run, this.of(run) + 1);
  }

  /** It happened to the run, now or under a leader before. */
  note({ run, type }: Pick<RunEvent, "run" | "type">): void {
    if (harmless.has(type)) this.#lives.delete(run);
  }

  /** What the journal has. */
  restore(run: string, lives: number): void {
    this.#lives.set(run, lives);
  }

  /** The leader before has ended as it should: no run has ended it. */
  forgive(): void {
    for (const run of [...this.#lives.keys()]) this.#set(run, 0);
  }

  forget(run: string): void {
    this.#lives.delete(run);
    this.#begun.delete(run);
  }

  /** What a journal must have of the run, behind its events. */
  *entries(run: string): Generator<JournalEntry<RunEvent>> {
    const lives = this.of(run);
    if (lives > 0) yield { kind: "wish", run, lives };
  }

  #set(run: string, lives: number): void {
    this.#lives.set(run, lives);
    this.#keeper.keep({ kind: "wish", run, lives });
  }
}
