// The registry: the runs of a cluster, in the order in which they were submitted. Plain data that
// no actor owns, so that any of them may die and find it again.

import type { JobSpec } from "../src/job.ts";
import { resolveJob } from "../src/job.ts";
import type { JournalEntry } from "../storage/run-journal.ts";
import type { RunEvent } from "./run-events.ts";
import { RunRecord } from "./run-record.ts";

/** Runs remembered after they are over. */
const finishedMax = 1000;

export class Registry {
  readonly #records = new Map<string, RunRecord>();
  readonly #runOfKey = new Map<string, string>();
  readonly #listeners = new Set<() => void>();
  readonly #publish: (event: RunEvent) => void;
  readonly #keep: (entry: JournalEntry<RunEvent>) => void;
  readonly #prefix: string;
  #nextRun = 1;

  /**
   * `prefix` tells this cluster's runs from those of an earlier one on the same broker; `keep` is
   * told, first, what another root must know to take them up.
   */
  constructor(
    prefix: string,
    publish: (event: RunEvent) => void,
    keep: (entry: JournalEntry<RunEvent>) => void = () => {},
  ) {
    this.#prefix = prefix;
    this.#publish = publish;
    this.#keep = keep;
  }

  /** The run of a job; the one that is there, if the key was used before. */
  add(job: JobSpec, key?: string): RunRecord {
    const known = key === undefined ? undefined : this.#records.get(this.#runOfKey.get(key) ?? "");
    if (known !== undefined) return known;
    const run = `${this.#prefix}${this.#nextRun++}`;
    this.#keep({ kind: "run", run, job, ...(key === undefined ? {} : { key }) });
    const record = this.#remember(run, job, key);
    this.#forget();
    return record;
  }

  /** Takes up the runs of a root that is gone. Left out, and told: jobs of another version. */
  restore(
    entries: Iterable<JournalEntry<RunEvent>>,
    onUnknown: (run: string, error: unknown) => void,
  ): void {
    for (const entry of entries) {
      if (entry.kind !== "run") {
        this.#records.get(entry.run)?.restore(entry);
        continue;
      }
      try {
        this.#remember(entry.run, resolveJob(entry.job), entry.key);
      } catch (error) {
        onUnknown(entry.run, error);
      }
    }
    for (const record of this.all()) record.skipNumbers();
  }

  /** What another root must know to take them up. */
  *entries(): Generator<JournalEntry<RunEvent>> {
    const keys = new Map([...this.#runOfKey].map(([key, run]) => [run, key]));
    for (const record of this.all()) {
      const { run, job } = record;
      const key = keys.get(run);
      yield { kind: "run", run, job, ...(key === undefined ? {} : { key }) };
      yield* record.entries();
    }
  }

  #remember(run: string, job: JobSpec, key: string | undefined): RunRecord {
    const record = new RunRecord(run, job, this.#publish, this.#keep);
    this.#records.set(run, record);
    if (key !== undefined) this.#runOfKey.set(key, run);
    return record;
  }

  get(run: string): RunRecord | undefined {
    return this.#records.get(run);
  }

  /** In the order of submission. */
  all(): RunRecord[] {
    return [...this.#records.values()];
  }

  /** The run to work on: one that was interrupted, else the one that has waited longest. */
  next(): RunRecord | undefined {
    const records = this.all();
    return (
      records.find((record) => record.status === "running") ??
      records.find((record) => record.status === "queued")
    );
  }

  /** Calls `listen` after every `changed`. */
  onChange(listen: () => void): () => void {
    this.#listeners.add(listen);
    return () => this.#listeners.delete(listen);
  }

  /** Tells whoever waits for work, or for a cancellation. */
  changed(): void {
    for (const listen of [...this.#listeners]) listen();
  }

  #forget(): void {
    const over = this.all().filter((record) => record.isOver);
    for (const record of over.slice(0, Math.max(0, over.length - finishedMax))) {
      this.#records.delete(record.run);
    }
  }
}
