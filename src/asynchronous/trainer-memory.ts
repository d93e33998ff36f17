// The memory that the threads of a trainer share: dense weights and optimizer state, which all
// threads change without locks; the batch ring, with a column of slots for each thread; counters.
//
//   words      cells: participants are the threads, then the reader; the ring's cells, then `begun`
//   counters   Int32: end, exchange lock, batches, exchanges; then Float64 of each thread
//
// Invariants
//   M1. `end` is the step after the furthest batch that a thread has begun, and its complement, a
//       negative number, while a pause is requested. To begin a batch and to request a pause are
//       one atomic operation each on `end`. So no thread begins a batch of the step of the pause or
//       of a later step, however long the host or a thread is suspended in between.

import { type RingShape, ringLayoutOf } from "../exchange/batch-ring.ts";
import { abortCells, cellWords } from "../exchange/cells.ts";
import { ringShapeOf, type Topology } from "../training/topology/topology.ts";

export interface TrainerMemory {
  /** (n): dense weights. */
  readonly weights: SharedArrayBuffer;
  /** (n) each: the optimizer's state. */
  readonly slots: readonly SharedArrayBuffer[];
  readonly ring: SharedArrayBuffer;
  readonly words: SharedArrayBuffer;
  readonly counters: SharedArrayBuffer;
}

/** The shape of a trainer's ring, and its cells. */
export interface TrainerLayout {
  readonly ring: RingShape;
  readonly participants: number;
  readonly cells: number;
  /** The cell that is set once the dense weights are initialised. */
  readonly begun: number;
}

/** `topology`: that of the trainer's single device (`soloInput`). */
export function trainerLayoutOf(
  topology: Topology,
  { threads, prefetch, isTested }: { threads: number; prefetch: number; isTested: boolean },
): TrainerLayout {
  const solo = ringShapeOf(topology);
  const each = <T>(value: T | undefined): T[] => new Array<T>(threads).fill(value as T);
  const ring = {
    ...{ ...solo, devices: threads, slots: solo.slots + prefetch, isTested },
    ...{ idsRoom: each(solo.idsRoom[0]), samplesMax: each(solo.samplesMax[0]) },
  };
  const begun = ringLayoutOf(ring).cells;
  return { ring, participants: threads + 1, cells: begun + 1, begun };
}

/** Allocates the memory. `length`: dense parameters; `slots`: tensors of the optimizer's state. */
export function createTrainerMemory(
  { ring, participants, cells }: TrainerLayout,
  { length, slots }: { readonly length: number; readonly slots: number },
): TrainerMemory {
  const counters = new SharedArrayBuffer(4 * sharedWords + 8 * threadWords * ring.devices);
  return {
    weights: new SharedArrayBuffer(4 * length),
    slots: Array.from({ length: slots }, () => new SharedArrayBuffer(4 * length)),
    ring: new SharedArrayBuffer(ringLayoutOf(ring).bytes),
    words: new SharedArrayBuffer(4 * cellWords(participants, cells)),
    counters,
  };
}

const sharedAt = { end: 0, lock: 1, batches: 2, exchanges: 3 } as const;
const sharedWords = 4;
const threadWords = 6;

/** Progress of a thread. */
export interface ThreadCounts {
  readonly batches: number;
  readonly samples: number;
  /** Loss of its last batch. */
  readonly loss: number;
  /** All of its batches before this step are trained. */
  readonly nextStep: number;
  /** Number of batches with unconfirmed pushes, and Unix time of the first such push. */
  readonly pushes: number;
  readonly pushedAtMs: number;
}

/** Access of one thread to the counters of its trainer. */
export interface TrainerWords {
  /** The step before which the trainer must pause; undefined: no pause is requested. */
  pausedAt(): number | undefined;
  /** Begins the batch of a step; false if the trainer pauses before it. */
  begins(step: number): boolean;
  /** Counts a trained batch; returns the number of batches of all threads of the trainer. */
  trained(step: number, samples: number, loss: number): number;
  /** Sets the number of batches with unconfirmed pushes, and the time of the first such push. */
  pushing(batches: number, sinceMs: number): void;
  /** Exchanges of the trainer so far. */
  exchanges(): number;
  /** Takes the lock of exchanges; false if another thread has it. */
  lockExchange(): boolean;
  unlockExchange(): void;
}

export function trainerWords({ counters }: TrainerMemory, thread: number): TrainerWords {
  const shared = new Int32Array(counters, 0, sharedWords);
  const own = ofThread(counters, thread);
  return {
    pausedAt() {
      const end = Atomics.load(shared, sharedAt.end);
      return end < 0 ? ~end : undefined;
    },
    begins(step) {
      for (;;) {
        const end = Atomics.load(shared, sharedAt.end);
        if (end < 0) return step < ~end;
        const next = Math.max(end, step + 1);
        if (Atomics.compareExchange(shared, sharedAt.end, end, next) === end) return true; // M1
      }
    },
    trained(step, samples, loss) {
      own.set([(own[0] ?? 0) + 1, (own[1] ?? 0) + samples, loss, step + 1]);
      return Atomics.add(shared, sharedAt.batches, 1) + 1;
    },
    pushing: (batches, sinceMs) => own.set([batches, sinceMs], 4),
    exchanges: () => Atomics.load(shared, sharedAt.exchanges),
    lockExchange: () => Atomics.compareExchange(shared, sharedAt.lock, 0, 1) === 0,
    unlockExchange() {
      Atomics.add(shared, sharedAt.exchanges, 1);
      Atomics.store(shared, sharedAt.lock, 0);
    },
  };
}

function ofThread(counters: SharedArrayBuffer, thread: number): Float64Array {
  return new Float64Array(counters, 4 * sharedWords + 8 * threadWords * thread, threadWords);
}

/** The counters of a thread, for the trainer's host. */
export function countsOf({ counters }: TrainerMemory, thread: number): ThreadCounts {
  const [batches = 0, samples = 0, loss = 0, ...more] = ofThread(counters, thread);
  const [nextStep = 0, pushes = 0, pushedAtMs = 0] = more;
  return { batches, samples, loss, nextStep, pushes, pushedAtMs };
}

/**
 * Prepares a window for threads that are idle, and that have begun no batch of step `end` or of a
 * later step. `isPaused`: they pause before `end`.
 */
export function beginWindow({ counters }: TrainerMemory, end: number, isPaused: boolean): void {
  Atomics.store(new Int32Array(counters), sharedAt.end, isPaused ? ~end : end);
}

/** Makes all threads of the trainer pause after the furthest batch that one of them has begun. */
export function pauseTrainer({ counters }: TrainerMemory): void {
  const shared = new Int32Array(counters);
  for (;;) {
    const end = Atomics.load(shared, sharedAt.end);
    if (end < 0 || Atomics.compareExchange(shared, sharedAt.end, end, ~end) === end) return; // M1
  }
}

/** Ends all waits of the trainer's threads and of its reader. */
export function abortTrainer({ counters, words }: TrainerMemory): void {
  abortCells(new Int32Array(words), threadsOf(counters) + 1);
}

function threadsOf(counters: SharedArrayBuffer): number {
  return (counters.byteLength - 4 * sharedWords) / (8 * threadWords);
}
