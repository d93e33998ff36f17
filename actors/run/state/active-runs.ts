// Active runs: the runs of a registry that are not over, in allocation order, and the number that
// waits. Updated at each change of a run, so that no request scans all runs.
//
//   running or interrupted · then by priority · then by submission

import type { RunStatus } from "./run-events.ts";
import type { RunRecord } from "./run-record.ts";

export class ActiveRuns {
  readonly #ofPriority = new Map<number, Map<string, RunRecord>>();
  readonly #ofDirectory = new Map<string, Map<string, RunRecord>>();
  readonly #running = new Set<RunRecord>();
  readonly #stopping = new Set<RunRecord>();
  readonly #waitingOf = new Map<string | undefined, number>();
  #waiting = 0;

  add(record: RunRecord): void {
    put(this.#ofPriority, record.job.priority, record);
    put(this.#ofDirectory, record.job.checkpoint.directory, record);
    this.#count(record, Number(isWaiting(record.status)));
  }

  /** The status of `record` was `before`, or a cancellation or a pause of it was requested. */
  changed(record: RunRecord, before: RunStatus): void {
    const { status, isCancelRequested, isPauseRequested, job } = record;
    this.#count(record, Number(isWaiting(status)) - Number(isWaiting(before)));
    mark(this.#running, record, status === "running");
    mark(this.#stopping, record, !record.isOver && (isCancelRequested || isPauseRequested));
    if (!record.isOver) return;
    drop(this.#ofPriority, job.priority, record);
    drop(this.#ofDirectory, job.checkpoint.directory, record);
  }

  /** The running and the queued runs, in the order in which they get devices. */
  *inOrder(): Generator<RunRecord> {
    yield* byPriority(this.#running);
    for (const priority of [...this.#ofPriority.keys()].sort((a, b) => b - a)) {
      for (const record of this.#ofPriority.get(priority)?.values() ?? []) {
        if (record.status === "queued") yield record;
      }
    }
  }

  /** Runs with a pending request to cancel or to pause. */
  stopping(): RunRecord[] {
    return [...this.#stopping];
  }

  /**
   * Active runs with this checkpoint directory: candidates for the run of a job submitted again.
   */
  inDirectory(directory: string): Iterable<RunRecord> {
    return this.#ofDirectory.get(directory)?.values() ?? [];
  }

  /** Number of runs that wait for an allocation or are paused. */
  get waiting(): number {
    return this.#waiting;
  }

  /** `waiting` of one tenant; undefined: of the cluster's operator. */
  waitingOf(tenant: string | undefined): number {
    return this.#waitingOf.get(tenant) ?? 0;
  }

  #count({ tenant }: RunRecord, change: number): void {
    if (change === 0) return;
    this.#waiting += change;
    const own = this.waitingOf(tenant) + change;
    if (own === 0) this.#waitingOf.delete(tenant);
    else this.#waitingOf.set(tenant, own);
  }
}

/** By priority, highest first; within a priority in order of arrival. */
export function byPriority(records: Iterable<RunRecord>): RunRecord[] {
  return [...records].sort((a, b) => b.job.priority - a.job.priority);
}

function isWaiting(status: RunStatus): boolean {
  return status === "queued" || status === "paused";
}

function mark(set: Set<RunRecord>, record: RunRecord, isIn: boolean): void {
  if (isIn) set.add(record);
  else set.delete(record);
}

type Groups<Key> = Map<Key, Map<string, RunRecord>>;

function put<Key>(groups: Groups<Key>, key: Key, record: RunRecord): void {
  const group = groups.get(key);
  if (group === undefined) groups.set(key, new Map([[record.run, record]]));
  else group.set(record.run, record);
}

function drop<Key>(groups: Groups<Key>, key: Key, { run }: RunRecord): void {
  const group = groups.get(key);
  group?.delete(run);
  if (group?.size === 0) groups.delete(key);
}
