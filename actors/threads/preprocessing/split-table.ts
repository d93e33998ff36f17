// The table of splits that readers need: which are pending, which are leased to which worker, and
// which are sent. Pure: time is an argument, and actions are return values.
//
//   todo ──leased──▶ doing ──done──▶ sent ──no longer wanted by its reader──▶ gone
//    ▲                 │               │
//    └──its worker failed, or is lost──┴──still wanted, after `resendMs`
//
// Invariants
//   S1. A split is leased to one worker at a time, until the lease expires.
//   S2. The pending splits follow from the readers' requests alone: a lost table is complete again
//       once each reader has sent its request.
//   S3. A split that failed `attemptsMax` times is reported to its reader and no longer made.

import {
  type ErrorRecord,
  PeerLostError,
  recordError,
  StepTimeoutError,
} from "../../../src/errors/errors.ts";
import { nameOf, type Split } from "../../../src/exchange/splits/split-frames.ts";

export interface SplitTableOptions {
  /** Deadline of a lease. */
  readonly deadlineMs: number;
  /** Failures after which a split is given up. S3 */
  readonly attemptsMax: number;
  /** Time after which a sent split that is still wanted is made again. */
  readonly resendMs: number;
  /** Silence after which a worker is lost. */
  readonly silenceMs: number;
}

/** A split that is leased to a worker. */
export interface Lease {
  readonly lease: number;
  readonly reader: number;
  readonly split: Split;
}

/** A split that is given up. S3 */
export interface GivenUp {
  readonly reader: number;
  readonly split: Split;
  readonly error: ErrorRecord;
  readonly attempts: number;
}

/** Counts of splits, by state and outcome. */
export interface SplitCounts {
  readonly todo: number;
  readonly doing: number;
  readonly done: number;
  readonly samples: number;
  /** Leases that expired, or whose worker was lost. */
  readonly expired: number;
  readonly failed: number;
  /** Splits that were made again because they did not arrive. */
  readonly resent: number;
}

interface Entry {
  readonly reader: number;
  readonly split: Split;
  /** Its place in the reader's request, most urgent first. */
  place: number;
  state: "todo" | "doing" | "sent" | "givenUp";
  lease: number;
  worker: string;
  /** Time of its last change of state. */
  sinceMs: number;
  failures: number;
  /** Workers lost while making it. */
  losses: number;
}

/** Workers lost while making a split after which the split is given up. S3 */
const lossesMax = 10;

export class SplitTable {
  readonly #options: SplitTableOptions;
  readonly #entries = new Map<string, Entry>();
  /** When each worker last sent a message. */
  readonly #workers = new Map<string, number>();
  #lastLease = 0;
  #counts = { done: 0, samples: 0, expired: 0, failed: 0, resent: 0 };

  constructor(options: SplitTableOptions) {
    this.#options = options;
  }

  /** Replaces the request of a reader: it wants these splits and no others, most urgent first. */
  want(reader: number, splits: readonly Split[], nowMs: number): void {
    const wanted = new Map(splits.map((split, place) => [keyOf(reader, split), { split, place }]));
    for (const [key, entry] of this.#entries) {
      if (entry.reader === reader && !wanted.has(key)) this.#entries.delete(key);
    }
    for (const [key, { split, place }] of wanted) {
      const entry = this.#entries.get(key);
      if (entry !== undefined) {
        entry.place = place;
        continue;
      }
      const fresh = {
        state: "todo",
        lease: 0,
        worker: "",
        sinceMs: nowMs,
        failures: 0,
        losses: 0,
      } as const;
      this.#entries.set(key, { reader, split, place, ...fresh });
    }
  }

  /** Leases a split to a worker; undefined: none is pending. */
  lease(worker: string, nowMs: number): Lease | undefined {
    this.seen(worker, nowMs);
    let best: Entry | undefined;
    for (const entry of this.#entries.values()) {
      // A worker has one split at a time: it never received this lease.
      if (entry.state === "doing" && entry.worker === worker) entry.state = "todo";
      if (entry.state === "todo" && (best === undefined || isBefore(entry, best))) best = entry;
    }
    if (best === undefined) return undefined;
    const { reader, split } = best;
    const lease = ++this.#lastLease;
    Object.assign(best, { state: "doing", lease, worker, sinceMs: nowMs });
    return { lease, reader, split };
  }

  seen(worker: string, nowMs: number): void {
    this.#workers.set(worker, nowMs);
  }

  /** Removes an ended worker: the next `expire` makes its split pending again. */
  gone(worker: string): void {
    this.#workers.delete(worker);
  }

  /**
   * Ends a lease: the worker has sent the split, or failed. Returns the split if it is given up.
   */
  done({ worker, lease, samples, error }: DoneLease, nowMs: number): GivenUp | undefined {
    this.seen(worker, nowMs);
    // The numbers of a former table's leases begin at 1, too: the worker distinguishes them.
    const entry = [...this.#entries.values()].find(
      (one) => one.lease === lease && one.worker === worker,
    );
    if (entry === undefined || entry.state !== "doing") return undefined; // Too late: S1.
    if (error !== undefined) return this.#fail(entry, error, nowMs);
    Object.assign(entry, { state: "sent", sinceMs: nowMs });
    this.#counts.done++;
    this.#counts.samples += samples;
    return undefined;
  }

  /** Expires leases and silent workers. Returns the splits that are given up. */
  expire(nowMs: number): GivenUp[] {
    const { deadlineMs, resendMs, silenceMs } = this.#options;
    for (const [worker, seenMs] of this.#workers) {
      if (nowMs - seenMs > silenceMs) this.#workers.delete(worker);
    }
    const givenUp: GivenUp[] = [];
    for (const entry of this.#entries.values()) {
      const { state, worker, sinceMs } = entry;
      if (state === "sent" && nowMs - sinceMs > resendMs) {
        this.#counts.resent++;
        Object.assign(entry, { state: "todo", sinceMs: nowMs });
      } else if (state === "doing" && !this.#workers.has(worker)) {
        this.#counts.expired++;
        const up = this.#lose(entry, nowMs);
        if (up !== undefined) givenUp.push(up);
      } else if (state === "doing" && nowMs - sinceMs > deadlineMs) {
        this.#counts.expired++;
        const up = this.#fail(entry, late(worker, entry.split, deadlineMs), nowMs);
        if (up !== undefined) givenUp.push(up);
      }
    }
    return givenUp;
  }

  /** The live workers. */
  get workers(): readonly string[] {
    return [...this.#workers.keys()];
  }

  get counts(): SplitCounts {
    const count = (state: Entry["state"]) =>
      [...this.#entries.values()].filter((entry) => entry.state === state).length;
    return { todo: count("todo"), doing: count("doing"), ...this.#counts };
  }

  /** Makes the split of a lost worker pending again: another worker may succeed. */
  #lose(entry: Entry, nowMs: number): GivenUp | undefined {
    const { worker, split } = entry;
    entry.losses++;
    if (entry.losses >= lossesMax) return this.#fail(entry, killer(worker, split), nowMs, true);
    Object.assign(entry, { state: "todo", sinceMs: nowMs });
    return undefined;
  }

  #fail(entry: Entry, error: ErrorRecord, nowMs: number, isLast = false): GivenUp | undefined {
    const { reader, split } = entry;
    this.#counts.failed++;
    const attempts = entry.failures + 1;
    const isOver = isLast || attempts >= this.#options.attemptsMax; // S3
    const state = isOver ? "givenUp" : "todo";
    Object.assign(entry, { state, failures: attempts, sinceMs: nowMs });
    return isOver ? { reader, split, error, attempts } : undefined;
  }
}

/** A worker's report at the end of a lease. */
export interface DoneLease {
  readonly worker: string;
  readonly lease: number;
  readonly samples: number;
  readonly error?: ErrorRecord | undefined;
}

/** Order of leases: the most urgent split first, over all readers, then the longest pending. */
function isBefore(one: Entry, other: Entry): boolean {
  return one.place !== other.place ? one.place < other.place : one.sinceMs < other.sinceMs;
}

function late(worker: string, split: Split, deadlineMs: number): ErrorRecord {
  return recordError(
    new StepTimeoutError(`split ${nameOf(split)} of worker ${worker}`, deadlineMs),
  );
}

function killer(worker: string, split: Split): ErrorRecord {
  const reason = `this worker and ${lossesMax - 1} others ended while they made split ${nameOf(split)}`;
  return recordError(new PeerLostError(`worker ${worker}`, reason));
}

const keyOf = (reader: number, split: Split) => `${reader} ${nameOf(split)}`;
