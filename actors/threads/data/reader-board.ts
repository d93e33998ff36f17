// The board of a host's readers: some words of shared memory per reader, with its commands and its
// counters. It outlives the reader's thread and actor, so that a replacement thread obeys the same
// commands and continues the counters.
//
//   orders    written by the reader's actor (actors/host/reader.ts)
//   figures   written by the reader's thread (../reader-program.ts), once a batch
//
// Weights do not depend on the board.

import { placesOf, type Schedule } from "../../../src/training/loop/schedule.ts";

/**
 * Activities of a reader's thread: waiting for room in the ring, reading, or delayed by the limit.
 */
export const activities = ["starting", "waiting", "reading", "limited"] as const;
export type Activity = (typeof activities)[number];

/**
 * The orders. `limit`: limit in samples per second of all readers together, 0: none;
 * `limitCommand`, `drainCommand`: the last executed request, so that a repeat is not executed
 * again; `isDraining`: the thread must exit after its current batch; `wasForced`: the last drained
 * thread was terminated instead; `activity`: index of an activity; `failures`, `drains`: threads
 * that failed in this place, and threads replaced on request.
 */
const orders = [
  "limit",
  "limitCommand",
  "drainCommand",
  "isDraining",
  "wasForced",
  "activity",
  "failures",
  "drains",
] as const;
type Order = (typeof orders)[number];

const figures = ["samples", "batches", "bytes", "readMs", "limitedMs", "tickets"] as const;
const readerBytes = 4 * orders.length + 8 * figures.length;

/** Bytes for this many readers. */
export function boardBytes(readers: number): number {
  return readerBytes * readers;
}

/** Counters of a reader since the generation began, over all its threads. */
export interface ReaderFigures {
  readonly samples: number;
  readonly batches: number;
  /** Bytes read from files. */
  readonly bytes: number;
  readonly readMs: number;
  /** Delay by the rate limit. */
  readonly limitedMs: number;
  /**
   * Position in the training stream: batches from the first of the generation to the last served.
   */
  readonly tickets: number;
}

/** The part of the board of one reader. */
export interface ReaderBoard {
  get(order: Order): number;
  set(order: Order, value: number): void;
  readonly activity: Activity;
  /** Sets the activity of its thread. */
  does(activity: Activity): void;
  readonly figures: ReaderFigures;
  /** Adds to the counters. `tickets` is not added but raised to the new position. */
  add(done: Partial<ReaderFigures>): void;
}

/** The board of the reader at an index among those of its host. */
export function boardOf(memory: ArrayBufferLike, index: number): ReaderBoard {
  const first = index * readerBytes;
  const words = new Int32Array(memory, first, orders.length);
  const counts = new Float64Array(memory, first + 4 * orders.length, figures.length);
  const get = (order: Order) => Atomics.load(words, orders.indexOf(order));
  const set = (order: Order, value: number) =>
    void Atomics.store(words, orders.indexOf(order), value);
  return {
    get,
    set,
    get activity() {
      return activities[get("activity")] ?? "starting";
    },
    does: (activity) => set("activity", activities.indexOf(activity)),
    get figures() {
      const [samples = 0, batches = 0, bytes = 0, readMs = 0, limitedMs = 0, tickets = 0] = counts;
      return { samples, batches, bytes, readMs, limitedMs, tickets };
    },
    add(done) {
      for (const [at, figure] of figures.entries()) {
        const [before = 0, more = 0] = [counts[at], done[figure]];
        counts[at] = figure === "tickets" ? Math.max(before, more) : before + more;
      }
    },
  };
}

/** Position of a reader in the data of its run: the next batch that it reads. */
export interface ReaderPosition {
  readonly step: number;
  /** The epoch, and the first sample of the step in it. */
  readonly pass: number;
  readonly sample: number;
}

/** The position of a reader after `tickets` batches of a generation that began at `fromStep`. */
export function positionOf(schedule: Schedule, fromStep: number, tickets: number): ReaderPosition {
  const step = fromStep + tickets;
  const { epoch: pass, first: sample } = placesOf(schedule, step);
  return { step, pass, sample };
}
