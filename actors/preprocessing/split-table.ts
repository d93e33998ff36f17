// The table of splits that readers need: which ones nobody makes yet, which worker makes which, and
// which are sent. Pure: it is told the time, and says what follows.
//
//   todo ──leased──▶ doing ──done──▶ sent ──its reader wants it no more──▶ gone
//    ▲                 │               │
//    └──its worker failed, or is lost──┴──wanted still, after `resendMs`
//
// Invariants
//   S1. A split is with one worker at a time, until its lease has run out.
//   S2. What is to be made follows from what readers say alone: a table that was lost is whole
//       again when each reader has spoken.
//   S3. A split that failed `attemptsMax` times is told to its reader, and is made no more.

import {
  type ErrorRecord,
  PeerLostError,
  recordError,
  StepTimeoutError,
} from "../../src/errors/errors.ts";
import { nameOf, type Split } from "../../src/wire/splits/split-frames.ts";

export interface SplitTableOptions {
  /** How long a worker may take for a split. */
  readonly deadlineMs: number;
  /** Failures of a split until it is given up. S3 */
  readonly attemptsMax: number;
  /** When a split that was sent, and is wanted still, is made again. */
  readonly resendMs: number;
  /** When a worker that says nothing is lost. */
  readonly silentMs: number;
}

/** A split in the hand of a worker. */
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

/** What the table has counted. */
export interface SplitCounts {
  readonly todo: number;
  readonly doing: number;
  readonly done: number;
  readonly samples: number;
  /** Leases that ran out, with their workers or without. */
  readonly expired: number;
  readonly failed: number;
  /** Splits that were made again, as they did not arrive. */
  readonly resent: number;
}

interface Entry {
  readonly reader: number;
  readonly split: Split;
  /** Its place in what its reader wants, first first. */
  place: number;
  state: "todo" | "doing" | "sent" | "givenUp";
  lease: number;
  worker: string;
  /** When its state began. */
  sinceMs: number;
  failures: number;
  /** Workers that died while they made it. */
  losses: number;
}

/** Workers that die while they make one split, until it is given up. S3 */
const lossesMax = 10;

export class SplitTable {
  readonly #options: SplitTableOptions;
  readonly #entries = new Map<string, Entry>();
  /** When each worker was last heard. */
  readonly #workers = new Map<string, number>();
  #lastLease = 0;
  #counts = { done: 0, samples: 0, expired: 0, failed: 0, resent: 0 };

  constructor(options: SplitTableOptions) {
    this.#options = options;
  }

  /** A reader wants these splits and no others, what it waits for first. */
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

  /** A worker asks for a split; undefined: there is none. */
  lease(worker: string, nowMs: number): Lease | undefined {
    this.heard(worker, nowMs);
    let best: Entry | undefined;
    for (const entry of this.#entries.values()) {
      // A worker has one split at a time: it never heard of this one.
      if (entry.state === "doing" && entry.worker === worker) entry.state = "todo";
      if (entry.state === "todo" && (best === undefined || isBefore(entry, best))) best = entry;
    }
    if (best === undefined) return undefined;
    const { reader, split } = best;
    const lease = ++this.#lastLease;
    Object.assign(best, { state: "doing", lease, worker, sinceMs: nowMs });
    return { lease, reader, split };
  }

  heard(worker: string, nowMs: number): void {
    this.#workers.set(worker, nowMs);
  }

  /** A worker has ended: its split is another one's when `expire` is called next. */
  gone(worker: string): void {
    this.#workers.delete(worker);
  }

  /** A worker has sent a split, or could not make it. Returns it if it is given up. */
  done({ worker, lease, samples, error }: DoneLease, nowMs: number): GivenUp | undefined {
    this.heard(worker, nowMs);
    const entry = [...this.#entries.values()].find((one) => one.lease === lease);
    if (entry === undefined || entry.state !== "doing") return undefined; // Too late: S1.
    if (error !== undefined) return this.#fail(entry, error, nowMs);
    Object.assign(entry, { state: "sent", sinceMs: nowMs });
    this.#counts.done++;
    this.#counts.samples += samples;
    return undefined;
  }

  /** Lets time pass: leases run out, and workers are lost. Returns what is given up. */
  expire(nowMs: number): GivenUp[] {
    const { deadlineMs, resendMs, silentMs } = this.#options;
    for (const [worker, heardMs] of this.#workers) {
      if (nowMs - heardMs > silentMs) this.#workers.delete(worker);
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

  /** The workers that are heard. */
  get workers(): readonly string[] {
    return [...this.#workers.keys()];
  }

  get counts(): SplitCounts {
    const count = (state: Entry["state"]) =>
      [...this.#entries.values()].filter((entry) => entry.state === state).length;
    return { todo: count("todo"), doing: count("doing"), ...this.#counts };
  }

  /** Its worker died, which says little against the split: another one of it may. */
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

/** What a worker says at the end of a lease. */
export interface DoneLease {
  readonly worker: string;
  readonly lease: number;
  readonly samples: number;
  readonly error?: ErrorRecord | undefined;
}

/** What is waited for first goes first, whichever reader waits. */
function isBefore(one: Entry, other: Entry): boolean {
  return one.place !== other.place ? one.place < other.place : one.sinceMs < other.sinceMs;
}

function late(worker: string, split: Split, deadlineMs: number): ErrorRecord {
  return recordError(
    new StepTimeoutError(`split ${nameOf(split)} of worker ${worker}`, deadlineMs),
  );
}

function killer(worker: string, split: Split): ErrorRecord {
  const reason = `it and ${lossesMax - 1} others ended while they made split ${nameOf(split)}`;
  return recordError(new PeerLostError(`worker ${worker}`, reason));
}

const keyOf = (reader: number, split: Split) => `${reader} ${nameOf(split)}`;
