// The registry: the runs of a cluster, in the order in which they were submitted. Plain data that
// no actor owns, so that any of them may die and find it again.

import type { JobSpec } from "../src/job.ts";
import { resolveJob } from "../src/job.ts";
import { KeyTakenError } from "../src/service-errors.ts";
import type { JournalEntry } from "../storage/run-journal.ts";
import type { RunEvent } from "./run-events.ts";
import { type PublishEvent, type RunKeeper, RunRecord } from "./run-record.ts";

/** Runs remembered after they are over. */
const finishedMax = 1000;
/** Submissions after which it is looked who is to be forgotten. */
const forgetEvery = 64;

/** For a root whose runs end with it. */
export const keptNowhere: RunKeeper = { keep() {}, kept: async () => {}, forget() {} };

/** Who submits a job, and under which key of its own. */
export interface Submitter {
  readonly key?: string | undefined;
  /** Left out: whoever runs the cluster. */
  readonly tenant?: string | undefined;
}

export class Registry {
  readonly #records = new Map<string, RunRecord>();
  readonly #runOfKey = new Map<string, string>();
  readonly #listeners = new Set<() => void>();
  readonly #publish: PublishEvent;
  readonly #keeper: RunKeeper;
  readonly #prefix: string;
  #nextRun = 1;
  #isTelling = false;

  /** `prefix` tells this cluster's runs from those of an earlier one on the same broker. */
  constructor(prefix: string, publish: PublishEvent, keeper: RunKeeper = keptNowhere) {
    this.#prefix = prefix;
    this.#publish = publish;
    this.#keeper = keeper;
  }

  /** The run of a job, which waits for its turn. */
  add(job: JobSpec, { key, tenant }: Submitter = {}): RunRecord {
    const run = `${this.#prefix}${this.#nextRun++}`;
    this.#keeper.keep({ kind: "run", run, job, key, tenant });
    const record = this.#remember({ run, job, tenant }, key);
    record.append(0, { type: "run.queued", name: job.name });
    this.#forget();
    return record;
  }

  /**
   * The run that a submission asks for and that is there: the tenant's of that key, or, without a
   * key, its run of the very same job that is not over.
   *
   * @throws KeyTakenError where the key belongs to another job
   */
  find(job: JobSpec, { key, tenant }: Submitter): RunRecord | undefined {
    if (key === undefined) {
      const text = JSON.stringify(job);
      return this.all().find((one) => !one.isOver && one.tenant === tenant && one.jobText === text);
    }
    const known = this.#records.get(this.#runOfKey.get(ownKey(key, tenant)) ?? "");
    if (known !== undefined && known.jobText !== JSON.stringify(job)) {
      throw new KeyTakenError(key, known.run);
    }
    return known;
  }

  /** Resolves once another root will find all that was submitted and asked for so far. */
  kept(): Promise<void> {
    return this.#keeper.kept();
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
        const { run, tenant } = entry;
        this.#remember({ run, job: resolveJob(entry.job), tenant }, entry.key);
      } catch (error) {
        onUnknown(entry.run, error);
      }
    }
    for (const record of this.all()) record.skipNumbers();
  }

  /** What another root must know to take them up. */
  *entries(): Generator<JournalEntry<RunEvent>> {
    for (const record of this.all()) {
      const { run, job, tenant, key } = record;
      yield { kind: "run", run, job, key, tenant };
      yield* record.entries();
    }
  }

  #remember(
    of: { readonly run: string; readonly job: JobSpec; readonly tenant: string | undefined },
    key: string | undefined,
  ): RunRecord {
    const record = new RunRecord({ ...of, key }, this.#publish, this.#keeper);
    this.#records.set(of.run, record);
    if (key !== undefined) this.#runOfKey.set(ownKey(key, of.tenant), of.run);
    return record;
  }

  get(run: string): RunRecord | undefined {
    return this.#records.get(run);
  }

  /** In the order of submission. */
  all(): RunRecord[] {
    return [...this.values()];
  }

  /** The same, one by one. */
  values(): Iterable<RunRecord> {
    return this.#records.values();
  }

  /** Calls `listen` after every `changed`. */
  onChange(listen: () => void): () => void {
    this.#listeners.add(listen);
    return () => this.#listeners.delete(listen);
  }

  /** Tells whoever waits for work, or for a cancellation: once of all that changed in one turn. */
  changed(): void {
    if (this.#isTelling) return;
    this.#isTelling = true;
    queueMicrotask(() => {
      this.#isTelling = false;
      for (const listen of [...this.#listeners]) listen();
    });
  }

  #forget(): void {
    if (this.#records.size <= finishedMax || this.#nextRun % forgetEvery !== 0) return;
    const over = this.all().filter((record) => record.isOver);
    if (over.length <= finishedMax) return;
    for (const record of over.slice(0, over.length - finishedMax)) {
      this.#records.delete(record.run);
      this.#keeper.forget(record.run);
    }
    for (const [key, run] of [...this.#runOfKey]) {
      if (!this.#records.has(run)) this.#runOfKey.delete(key);
    }
  }
}

/** Keys of tenants are apart: no name of a tenant has a `.` in it. */
function ownKey(key: string, tenant = ""): string {
  return `${tenant}.${key}`;
}
