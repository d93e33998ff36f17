// Cells: the few shared words in which threads of one host publish their progress to each other.
// The exchange is written over this port, so that the same code runs on real atomics
// (atomic-cells.ts) and under a seeded interleaving in one thread (simulated-cells.ts).
//
// A participant is a device (rank 0..D-1) or a reader (D..). Each has one doorbell: the word on
// which it sleeps in every wait, so that an abort wakes it at one address.
//
//   word 0         bit 0: 1 once the generation has ended; bits above it: number of threads that
//                  wait for room on a full disk, during which no other wait reaches its deadline
//   words 1..P     doorbells of the participants: odd while its participant may sleep
//   words P+1..    cells, each written by one participant only
//
// Invariants
//   C1. No wake-up is lost, though a writer rings only for sleepers. A participant makes its
//       doorbell odd, checks its condition, and sleeps on the odd value. A writer stores its cell,
//       then reads the doorbell. Atomics have one order: either the writer reads the odd value, and
//       changes it, so that the sleep ends or never begins; or the participant's check reads the
//       cell.
//   C2. Only a writer makes a doorbell even again, so one ring wakes once for many cells. A
//       doorbell may stay odd while its participant works; the next writer then rings in vain.

import { strict as assert } from "node:assert";

export interface Cells {
  /** The value of a cell. The writer's earlier writes are visible. */
  load(cell: number): number;
  /** Stores into a cell of this participant, and wakes the participants `wake`. */
  store(cell: number, value: number, wake: readonly number[]): void;
  /**
   * Resolves when `isTrue()`. `wait` names the awaited event; `of` is the participant that must
   * bring it about, or `nobody`.
   * @throws StepTimeoutError after the step deadline
   * @throws GenerationAbortedError once the generation has ended
   */
  waitUntil(wait: () => string, isTrue: () => boolean, of: number): Promise<void>;
}

/** Stands for the awaited participant if several participants can end the wait. */
export const nobody = -1;

/**
 * Resolves when each of `peers` has stored `round`, or a later one, in its cell. It suspends once,
 * and then only for peers that are late: a device has a thousand peers.
 */
export async function waitForEach(
  cells: Cells,
  peers: readonly number[],
  cellOf: (peer: number, at: number) => number,
  round: number,
  wait: (peer: number) => string,
): Promise<void> {
  for (const [i, peer] of peers.entries()) {
    const cell = cellOf(peer, i);
    if (i > 0 && cells.load(cell) >= round) continue;
    await cells.waitUntil(
      () => `${wait(peer)} (round ${round})`,
      () => cells.load(cell) >= round,
      peer,
    );
  }
}

// Offsets in memory, as cells hold them: a cell has 32 bits, so offsets are counted in words.

/** Most bytes of an inbox, whose offsets must fit a cell. Sizes are checked before a start. */
export const inboxBytesMax = 4 * (2 ** 32 - 1);

/** The number of words of `bytes` bytes, as a cell holds it. */
export function wordsOf(bytes: number): number {
  assert(bytes % 4 === 0 && bytes <= inboxBytesMax, `${bytes} bytes have a number in a cell`);
  return bytes / 4;
}

/** The bytes of the words in a cell. */
export function bytesIn(words: number): number {
  return 4 * (words >>> 0);
}

/** Stores a range of bytes into two cells. */
export function storeSpan(
  cells: Pick<Cells, "store">,
  cell: number,
  { first, bytes }: { readonly first: number; readonly bytes: number },
): void {
  cells.store(cell, wordsOf(first), []);
  cells.store(cell + 1, wordsOf(bytes), []);
}

/** The range of bytes in two cells. */
export function spanAt(load: (cell: number) => number, cell: number) {
  return { first: bytesIn(load(cell)), bytes: bytesIn(load(cell + 1)) };
}

/** Number of shared words for `participants` participants and `cells` cells. */
export function cellWords(participants: number, cells: number): number {
  return 1 + participants + cells;
}

/** Ends the generation for all waits on these words. Any thread may call it. */
export function abortCells(words: Int32Array, participants: number): void {
  Atomics.or(words, 0, 1);
  ringAll(words, participants);
}

/**
 * Begins or ends a hold: one thread waits for room on a full disk. Until the last hold ends, no
 * wait on these words reaches its deadline. Then the deadline of each wait starts again.
 */
export function holdCells(words: Int32Array, participants: number, isHeld: boolean): void {
  Atomics.add(words, 0, isHeld ? 2 : -2);
  ringAll(words, participants);
}

/** Whether the generation of these words has ended. */
export function isAborted(words: Int32Array): boolean {
  return (Atomics.load(words, 0) & 1) === 1;
}

/** Whether any thread holds these words (`holdCells`). */
export function isHeld(words: Int32Array): boolean {
  return Atomics.load(words, 0) > 1;
}

function ringAll(words: Int32Array, participants: number): void {
  for (let i = 0; i < participants; i++) ringDoorbell(words, i);
}

/** Wakes one participant to check its wait again, after a change outside the cells (a command). */
export function ringDoorbell(words: Int32Array, participant: number): void {
  Atomics.add(words, 1 + participant, 2); // Orders the change, even if the participant is awake.
  Atomics.notify(words, 1 + participant);
}

/** Wakes a participant that sleeps, or is about to, after a store into a cell. C1, C2 */
export function wakeSleeper(words: Int32Array, participant: number): void {
  const doorbell = 1 + participant;
  for (;;) {
    const seen = Atomics.load(words, doorbell);
    if (seen % 2 === 0) return;
    if (Atomics.compareExchange(words, doorbell, seen, (seen + 1) | 0) !== seen) continue;
    Atomics.notify(words, doorbell);
    return;
  }
}

/** Says that a participant is about to sleep. Returns the value of its doorbell to sleep on. C1 */
export function lieDown(words: Int32Array, participant: number): number {
  return Atomics.or(words, 1 + participant, 1) | 1;
}

// Cells of a single device, such as a saved model that predicts. No other participant stores, so a
// wait ends at once or never.

/** Cells of a single participant. A wait that could never end is a bug, and throws at once. */
export function createSoloCells(cells: number): Cells {
  const words = new Int32Array(cells);
  return {
    load: (cell) => words[cell] ?? 0,
    store(cell, value) {
      words[cell] = value;
    },
    async waitUntil(wait, isTrue) {
      assert(isTrue(), `a device that is alone waits for ${wait()}`);
    },
  };
}
