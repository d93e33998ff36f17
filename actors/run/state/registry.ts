// The registry: the runs of a cluster, in order of submission. Plain data that no actor owns, so
// that it survives the restart of any actor.

import { KeyTakenError } from "../../../src/errors/errors.ts";
import { type JobSpec, resolvingJob } from "../../../src/job/job.ts";
import { atOnce, type Steps } from "../../../src/ports/turns.ts";
import type { JournalEntry } from "../../../storage/cluster/run-journal.ts";
import { ActiveRuns } from "./active-runs.ts";
import { CrashCounts } from "./crash-counts.ts";
import type { RunEvent } from "./run-events.ts";
import { type PublishEvent, type RunIdentity, type RunKeeper, RunRecord } from "./run-record.ts";

/** Finished runs that are remembered by default. */
export const usualFinishedMax = 1000;

/**
 * Events of all finished runs together. If there are more, the runs submitted first keep only their
 * last ones: a new leader reads the events, and a leader writes them, in one turn.
 */
const finishedEventsMax = 100_000;
const lastEvents = 100;

/** The keeper of a leader without a journal: its runs end with its process. */
export const keptNowhere: RunKeeper = { keep() {}, kept: async () => {}, forget() {} };

/** The tenant that submits a job, and its idempotency key. */
export interface Submitter {
  readonly key?: string | undefined;
  /** Left out: the cluster's operator. */
  readonly tenant?: string | undefined;
}

export class Registry {
  /** Runs that are not over. */
  readonly active = new ActiveRuns();
  /** Per run, how many leader processes it has ended. */
  readonly crashes: CrashCounts;
  readonly #records = new Map<string, RunRecord>();
  /** Finished runs by tenant, oldest first. */
  readonly #over = new Map<string | undefined, Set<RunRecord>>();
  readonly #runOfKey = new Map<string, string>();
  readonly #listeners = new Set<() => void>();
  readonly #publish: PublishEvent;
  readonly #keeper: RunKeeper;
  readonly #prefix: string;
  readonly #finishedMax: number;
  /**
   * Runs per tenant so far. Numbers count per tenant, so that the number of a run reveals nothing
   * of other tenants.
   */
  readonly #added = new Map<string | undefined, number>();
  #isTelling = false;

  /**
   * `prefix` distinguishes this cluster's runs from those of an earlier cluster on the same broker.
   * `finishedMax`: how many runs are kept after they are over.
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
    this.crashes = new CrashCounts(keeper);
    this.#finishedMax = finishedMax;
  }

  /** Adds a run of a job to the queue. */
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
   * Finds the run of a repeated submission: the tenant's run with that key or, without a key, its
   * active run of an identical job.
   *
   * @throws KeyTakenError where the key belongs to another job
   */
  find(job: JobSpec, { key, tenant }: Submitter): RunRecord | undefined {
    if (key === undefined) {
      const text = JSON.stringify(job);
      for (const one of this.active.inDirectory(job.checkpoint.directory)) {
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

  /** Resolves once everything submitted and requested so far is persisted for the next leader. */
  kept(): Promise<void> {
    return this.#keeper.kept();
  }

  /**
   * Restores the runs of the former leader from its journal. Jobs of another version are left out
   * and reported. `isWhole`: the journal has every published event, so numbers go on without a gap.
   * Otherwise each active run skips a block of numbers; the returned events say so, to be published
   * once the entries are kept.
   */
  restore(...of: Parameters<Registry["restoring"]>): readonly Parameters<PublishEvent>[] {
    return atOnce(this.restoring(...of));
  }

  /** Restores the runs as `restore`, in steps. */
  *restoring(
    entries: Iterable<JournalEntry<RunEvent>>,
    onUnknown: (run: string, error: unknown) => void,
    isWhole: boolean,
  ): Steps<readonly Parameters<PublishEvent>[]> {
    for (const entry of entries) {
      if (entry.kind !== "run") {
        this.#records.get(entry.run)?.restore(entry);
        this.crashes.restore(entry);
        continue;
      }
      try {
        const { run, tenant, key } = entry;
        this.#remember({ run, job: yield* resolvingJob(entry.job), tenant, key });
      } catch (error) {
        onUnknown(entry.run, error);
      }
    }
    const open = isWhole ? [] : this.all().filter(({ isOver }) => !isOver);
    return open.map((record) => [record.renumber(), record.tenant]);
  }

  /** The journal entries from which another leader restores all runs. */
  *entries(): Generator<JournalEntry<RunEvent>> {
    for (const record of this.values()) {
      const { run, job, tenant, key } = record;
      yield { kind: "run", run, job, key, tenant };
      yield* record.entries();
      yield* this.crashes.entries(run);
    }
  }

  #remember(of: RunIdentity): RunRecord {
    const record = new RunRecord(of, this.#publish, this.#keeper, (changed, before) => {
      this.active.changed(changed, before);
      if (!changed.isOver) return;
      this.#overOf(changed.tenant).add(changed);
      this.#dropEvents();
    });
    record.onEvent((event) => this.crashes.note(event));
    this.#records.set(of.run, record);
    this.active.add(record);
    if (of.key !== undefined) this.#runOfKey.set(ownKey(of.key, of.tenant), of.run);
    return record;
  }

  get(run: string): RunRecord | undefined {
    return this.#records.get(run);
  }

  /** All runs in order of submission. */
  all(): RunRecord[] {
    return [...this.values()];
  }

  /** All runs in order of submission, as an iterable. */
  values(): Iterable<RunRecord> {
    return this.#records.values();
  }

  /** Calls `listen` after `changed`. The returned function removes the listener. */
  onChange(listen: () => void): () => void {
    this.#listeners.add(listen);
    return () => this.#listeners.delete(listen);
  }

  /** Notifies the listeners, once for all changes of one turn of the event loop. */
  changed(): void {
    if (this.#isTelling) return;
    this.#isTelling = true;
    queueMicrotask(() => {
      this.#isTelling = false;
      for (const listen of [...this.#listeners]) listen();
    });
  }

  /**
   * Evicts the oldest finished run of the tenant with most runs, so that no tenant displaces the
   * runs of another.
   */
  #forget(): void {
    const count = () => [...this.#over.values()].reduce((sum, { size }) => sum + size, 0);
    for (let remaining = count(); remaining > this.#finishedMax; remaining--) {
      const most = [...this.#over.values()].reduce((a, b) => (b.size > a.size ? b : a));
      const [record] = most;
      if (record === undefined) return;
      const { run, key, tenant } = record;
      most.delete(record);
      this.#records.delete(run);
      if (key !== undefined) this.#runOfKey.delete(ownKey(key, tenant));
      this.crashes.forget(run);
      this.#keeper.forget(run);
    }
  }

  /** Drops events of finished runs, of those submitted first, beyond `finishedEventsMax`. */
  #dropEvents(): void {
    const over = [...this.#over.values()].flatMap((some) => [...some]);
    let events = over.reduce((sum, { eventsKept }) => sum + eventsKept, 0);
    if (events <= finishedEventsMax) return;
    for (const record of this.values()) {
      if (!record.isOver || record.eventsKept <= lastEvents) continue;
      events -= record.eventsKept - lastEvents;
      record.keepEvents(lastEvents);
      if (events <= finishedEventsMax) return;
    }
  }

  #overOf(tenant: string | undefined): Set<RunRecord> {
    const known = this.#over.get(tenant) ?? new Set<RunRecord>();
    this.#over.set(tenant, known);
    return known;
  }
}

/** Keys of different tenants never collide: no tenant name has a `.` in it. */
function ownKey(key: string, tenant = ""): string {
  return `${tenant}.${key}`;
}
