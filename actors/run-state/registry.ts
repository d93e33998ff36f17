// The registry: the runs of a cluster, in the order in which they were submitted. Plain data that
// no actor owns, so that any of them may die and find it again.

import { KeyTakenError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { resolveJob } from "../../src/job/job.ts";
import type { JournalEntry } from "../../storage/cluster/run-journal.ts";
import { OpenRuns } from "./active-runs.ts";
import type { RunEvent } from "./run-events.ts";
import { RunLives } from "./run-lives.ts";
import { type PublishEvent, type RunIdentity, type RunKeeper, RunRecord } from "./run-record.ts";

/** Finished runs that are remembered by default. */
export const usualFinishedMax = 1000;

/** For a leader that keeps no journal: its runs end with its process. */
export const keptNowhere: RunKeeper = { keep() {}, kept: async () => {}, forget() {} };

/** Who submits a job, and under which key of its own. */
export interface Submitter {
  readonly key?: string | undefined;
  /** Left out: the cluster's operator. */
  readonly tenant?: string | undefined;
}

export class Registry {
  /** Those that are not over. */
  readonly open = new OpenRuns();
  /** How many leaders each has ended. */
  readonly lives: RunLives;
  readonly #records = new Map<string, RunRecord>();
  /** Finished runs by tenant, oldest first. */
  readonly #over = new Map<string | undefined, Set<RunRecord>>();
  readonly #runOfKey = new Map<string, string>();
  readonly #listeners = new Set<() => void>();
  readonly #publish: PublishEvent;
  readonly #keeper: RunKeeper;
  readonly #prefix: string;
  readonly #finishedMax: number;
  /** Runs that each tenant has had: a run's number tells a tenant nothing of other tenants. */
  readonly #added = new Map<string | undefined, number>();
  #isTelling = false;

  /**
   * `prefix` tells this cluster's runs from the runs of an earlier cluster on the same broker.
   * `finishedMax`: how many runs are remembered after they are over.
   */
  constructor(
    prefix: string,
    publish: PublishEvent,
    keeper: RunKeeper = keptNowhere,
    finishedMax: number = usualFinishedMax,
  ) {
    this.#prefix = prefix;
    this.#publish = publish;
    this.#keeper = keeper;
    this.lives = new RunLives(keeper);
    this.#finishedMax = finishedMax;
  }

  /** The run of a job, which waits for its allocation. */
  add(job: JobSpec, { key, tenant }: Submitter = {}): RunRecord {
    const number = (this.#added.get(tenant) ?? 0) + 1;
    this.#added.set(tenant, number);
    const run = `${this.#prefix}${tenant === undefined ? "" : `${tenant}-`}${number}`;
    this.#keeper.keep({ kind: "run", run, job, key, tenant });
    const record = this.#remember({ run, job, tenant, key });
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
      for (const one of this.open.inDirectory(job.checkpoint.directory)) {
        if (one.tenant === tenant && one.jobText === text) return one;
      }
      return undefined;
    }
    const known = this.#records.get(this.#runOfKey.get(ownKey(key, tenant)) ?? "");
    if (known !== undefined && known.jobText !== JSON.stringify(job)) {
      throw new KeyTakenError(key, known.run);
    }
    return known;
  }

  /** Resolves once another leader will find all that was submitted and asked for so far. */
  kept(): Promise<void> {
    return this.#keeper.kept();
  }

  /**
   * Takes up the runs of a leader that is gone. Left out, and told: jobs of another version.
   * `isWhole`: the entries have every event that was told, and numbers go on without a gap.
   * Otherwise a block of numbers is left out of each run that is not over; returned are the events
   * that say so, to be told once the entries are kept.
   */
  restore(
    entries: Iterable<JournalEntry<RunEvent>>,
    onUnknown: (run: string, error: unknown) => void,
    isWhole: boolean,
  ): readonly Parameters<PublishEvent>[] {
    for (const entry of entries) {
      if (entry.kind !== "run") {
        this.#records.get(entry.run)?.restore(entry);
        if (entry.kind === "event") this.lives.note(entry.event);
        else if (entry.lives !== undefined) this.lives.restore(entry.run, entry.lives);
        continue;
      }
      try {
        const { run, tenant, key } = entry;
        this.#remember({ run, job: resolveJob(entry.job), tenant, key });
      } catch (error) {
        onUnknown(entry.run, error);
      }
    }
    const open = isWhole ? [] : this.all().filter(({ isOver }) => !isOver);
    return open.map((record) => [record.renumber(), record.tenant]);
  }

  /** What another leader must know to take them up. */
  *entries(): Generator<JournalEntry<RunEvent>> {
    for (const record of this.values()) {
      const { run, job, tenant, key } = record;
      yield { kind: "run", run, job, key, tenant };
      yield* record.entries();
      yield* this.lives.entries(run);
    }
  }

  #remember(of: RunIdentity): RunRecord {
    const record = new RunRecord(of, this.#publish, this.#keeper, (changed, before) => {
      this.open.changed(changed, before);
      if (changed.isOver) this.#overOf(changed.tenant).add(changed);
    });
    record.onEvent((event) => this.lives.note(event));
    this.#records.set(of.run, record);
    this.open.add(record);
    if (of.key !== undefined) this.#runOfKey.set(ownKey(of.key, of.tenant), of.run);
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

  /** Tells all listeners that wait for work or a cancellation, once for all changes of one turn. */
  changed(): void {
    if (this.#isTelling) return;
    this.#isTelling = true;
    queueMicrotask(() => {
      this.#isTelling = false;
      for (const listen of [...this.#listeners]) listen();
    });
  }

  /** Forgets a run of the tenant with most runs: no tenant displaces the runs of another. */
  #forget(): void {
    const count = () => [...this.#over.values()].reduce((sum, { size }) => sum + size, 0);
    for (let there = count(); there > this.#finishedMax; there--) {
      const most = [...this.#over.values()].reduce((a, b) => (b.size > a.size ? b : a));
      const [record] = most;
      if (record === undefined) return;
      const { run, key, tenant } = record;
      most.delete(record);
      this.#records.delete(run);
      if (key !== undefined) this.#runOfKey.delete(ownKey(key, tenant));
      this.lives.forget(run);
      this.#keeper.forget(run);
    }
  }

  #overOf(tenant: string | undefined): Set<RunRecord> {
    const known = this.#over.get(tenant) ?? new Set<RunRecord>();
    this.#over.set(tenant, known);
    return known;
  }
}

/** Keys of tenants are apart: no name of a tenant has a `.` in it. */
function ownKey(key: string, tenant = ""): string {
  return `${tenant}.${key}`;
}
