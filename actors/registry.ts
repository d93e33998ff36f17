// The registry: the runs of a cluster, in the order in which they were submitted. Plain data that
// no actor owns, so that any of them may die and find it again.

import type { JobSpec } from "../src/job.ts";
import { type RunEvent, RunRecord } from "./run-record.ts";

/** Runs remembered after they are over. */
const finishedMax = 1000;

export class Registry {
  readonly #records = new Map<string, RunRecord>();
  readonly #runOfKey = new Map<string, string>();
  readonly #listeners = new Set<() => void>();
  readonly #publish: (event: RunEvent) => void;
  readonly #prefix: string;
  #nextRun = 1;

  /** `prefix` tells this cluster's runs from those of an earlier one on the same broker. */
  constructor(prefix: string, publish: (event: RunEvent) => void) {
    this.#prefix = prefix;
    this.#publish = publish;
  }

  /** The run of a job; the one that is there, if the key was used before. */
  add(job: JobSpec, key?: string): RunRecord {
    const known = key === undefined ? undefined : this.#records.get(this.#runOfKey.get(key) ?? "");
    if (known !== undefined) return known;
    const record = new RunRecord(`${this.#prefix}${this.#nextRun++}`, job, this.#publish);
    this.#records.set(record.run, record);
    if (key !== undefined) this.#runOfKey.set(key, record.run);
    this.#forget();
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
