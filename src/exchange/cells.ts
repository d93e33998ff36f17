// Cells: the few shared words by which threads of one host tell each other their progress. The
// exchange is written over this port, so that the same code runs on real atomics (atomic-cells.ts)
// and under a seeded interleaving in one thread (simulated-cells.ts).
//
// A participant is a device (rank 0..D-1) or a reader (D..). Each has one doorbell. In every wait
// it sleeps on that one word, so that an abort wakes it at one address.
//
//   word 0         bit 0: 1 once the generation has ended; above it, how many threads wait for
//                  room on a full disk: meanwhile no other wait reaches its deadline
//   words 1..P     doorbells of the participants
//   words P+1..    cells, each written by one participant only

export interface Cells {
  /** The value of a cell. The writer's earlier writes are visible. */
  load(cell: number): number;
  /** Stores into a cell of this participant, and wakes `wake`. */
  store(cell: number, value: number, wake: readonly number[]): void;
  /**
   * Resolves when `isTrue()`. `wait` names the awaited event; `of` is the participant that must
   * bring it about, or `nobody`.
   * @throws StepTimeoutError after the step deadline
   * @throws GenerationAbortedError once the generation has ended
   */
  waitUntil(wait: () => string, isTrue: () => boolean, of: number): Promise<void>;
}

/** The participant of a wait that any of several can end. */
export const nobody = -1;

/** Resolves when each of `peers` has stored `round`, or a later one, in its cell. */
export async function waitForEach(
  cells: Cells,
  peers: readonly number[],
  cellOf: (peer: number) => number,
  round: number,
  wait: (peer: number) => string,
): Promise<void> {
  for (const peer of peers) {
    const cell = cellOf(peer);
    await cells.waitUntil(
      () => `${wait(peer)} (round ${round})`,
      () => cells.load(cell) >= round,
      peer,
    );
  }
}

/** Words for `participants` with `cells` cells. */
export function cellWords(participants: number, cells: number): number {
  return 1 + participants + cells;
}

/** Ends the generation for all waits on these words. Any thread may call it. */
export function abortCells(words: Int32Array, participants: number): void {
  Atomics.or(words, 0, 1);
  ringAll(words, participants);
}

/**
 * Begins or ends a declared wait of one thread, for room on a full disk: until the last one ends no
 * wait on these words reaches its deadline, and then each deadline begins anew.
 */
export function holdCells(words: Int32Array, participants: number, isHeld: boolean): void {
  Atomics.add(words, 0, isHeld ? 2 : -2);
  ringAll(words, participants);
}

/** Whether the generation of these words has ended. */
export function isAborted(words: Int32Array): boolean {
  return (Atomics.load(words, 0) & 1) === 1;
}

/** Whether a thread has declared a wait. */
export function isHeld(words: Int32Array): boolean {
  return Atomics.load(words, 0) > 1;
}

function ringAll(words: Int32Array, participants: number): void {
  for (let i = 0; i < participants; i++) {
    Atomics.add(words, 1 + i, 1);
    Atomics.notify(words, 1 + i);
  }
}

/** Wakes one participant to look again, after a change that is not in a cell (a command sent). */
export function ringDoorbell(words: Int32Array, participant: number): void {
  Atomics.add(words, 1 + participant, 1);
  Atomics.notify(words, 1 + participant);
}
