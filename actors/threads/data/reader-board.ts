// The board of a host's readers: for each of them a few words of shared memory, with what it is
// told and what it counts. It outlives the reader's thread and its actor, so that another thread in
// the same place obeys the same orders and counts on.
//
//   orders    written by the reader's actor (actors/host/reader.ts)
//   figures   written by the reader's thread (../reader-program.ts), once a batch
//
// No weight depends on them.

import { placesOf, type Schedule } from "../../../src/training/loop/schedule.ts";

/** What a reader's thread is doing: it waits for room in the ring, reads, or waits for its turn. */
export const activities = ["starting", "waiting", "reading", "limited"] as const;
export type Activity = (typeof activities)[number];

/**
 * The orders. `limit`: most samples a second of all readers together, 0: none; `limitCommand`,
 * `drainCommand`: the last request that was carried out, so that it is carried out once;
 * `isDraining`: its thread is to end once it has served the batch that it is at; `wasForced`: the
 * last drained thread was ended instead; `activity`: index of an activity; `failures`, `drains`:
 * threads that failed here, and threads that were replaced as asked.
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

/** What a reader has done since the generation began, whichever thread did it. */
export interface ReaderFigures {
  readonly samples: number;
  readonly batches: number;
  /** Read of files. */
  readonly bytes: number;
  readonly readMs: number;
  /** How long a limit has kept it waiting. */
  readonly limitedMs: number;
  /** Batches of the training stream, from the first of the generation, up to the last it served. */
  readonly tickets: number;
}

/** The part of the board that belongs to one reader. */
export interface ReaderBoard {
  get(order: Order): number;
  set(order: Order, value: number): void;
  readonly activity: Activity;
  /** What its thread does from now on. */
  does(activity: Activity): void;
  readonly figures: ReaderFigures;
  /** Adds what was done. `tickets`: up to which batch of the training stream. */
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

/** Where a reader is in the data of its run: what it reads next. */
export interface ReaderPosition {
  readonly step: number;
  /** The pass over the data, and the first sample of the step in it. */
  readonly pass: number;
  readonly sample: number;
}

/** The position of a reader that has served these batches of a generation from `fromStep`. */
export function positionOf(schedule: Schedule, fromStep: number, tickets: number): ReaderPosition {
  const step = fromStep + tickets;
  const { epoch: pass, first: sample } = placesOf(schedule, step);
  return { step, pass, sample };
}
