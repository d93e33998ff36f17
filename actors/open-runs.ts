// Open runs: those of a registry that are not over, in the order of submission, and how many of
// them wait. Counted as they change, so that no submission has to look at all the others.

import type { RunStatus } from "./run-events.ts";
import type { RunRecord } from "./run-record.ts";

export class OpenRuns {
  readonly #records = new Map<string, RunRecord>();
  readonly #inDirectory = new Map<string, Set<RunRecord>>();
  readonly #waitingOf = new Map<string | undefined, number>();
  #waiting = 0;

  add(record: RunRecord): void {
    this.#records.set(record.run, record);
    const { directory } = record.job.checkpoint;
    const there = this.#inDirectory.get(directory);
    if (there === undefined) this.#inDirectory.set(directory, new Set([record]));
    else there.add(record);
    if (isWaiting(record.status)) this.#count(record, 1);
  }

  /** A run of these has another status than `before`. */
  changed(record: RunRecord, before: RunStatus): void {
    const change = Number(isWaiting(record.status)) - Number(isWaiting(before));
    if (change !== 0) this.#count(record, change);
    if (!record.isOver) return;
    this.#records.delete(record.run);
    const { directory } = record.job.checkpoint;
    const there = this.#inDirectory.get(directory);
    there?.delete(record);
    if (there?.size === 0) this.#inDirectory.delete(directory);
  }

  /** In the order of submission. */
  values(): Iterable<RunRecord> {
    return this.#records.values();
  }

  /** Those that may be of the same job as another of this directory. */
  inDirectory(directory: string): Iterable<RunRecord> {
    return this.#inDirectory.get(directory) ?? [];
  }

  /** How many wait for their turn or are paused. */
  get waiting(): number {
    return this.#waiting;
  }

  /** The same, of a tenant; undefined: of whoever runs the cluster. */
  waitingOf(tenant: string | undefined): number {
    return this.#waitingOf.get(tenant) ?? 0;
  }

  #count({ tenant }: RunRecord, change: number): void {
    this.#waiting += change;
    const own = this.waitingOf(tenant) + change;
    if (own === 0) this.#waitingOf.delete(tenant);
    else this.#waitingOf.set(tenant, own);
  }
}

function isWaiting(status: RunStatus): boolean {
  return status === "queued" || status === "paused";
}
