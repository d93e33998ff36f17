// The memory that a parameter server shares with its host: a doorbell for commands, and a counter
// that keeps counting after the server is replaced.

import { abortCells, cellWords, ringDoorbell } from "../exchange/cells.ts";

export interface ServerMemory {
  readonly words: SharedArrayBuffer;
  /** (1) BigInt64: number of pushes (sparse) or exchanges (dense) that were applied. */
  readonly counters: SharedArrayBuffer;
}

export function createServerMemory(): ServerMemory {
  const words = new SharedArrayBuffer(4 * cellWords(1, 0));
  return { words, counters: new SharedArrayBuffer(8) };
}

/** Number of pushes or exchanges, including those of earlier servers with this memory. */
export function updatesOf({ counters }: ServerMemory): number {
  return Number(Atomics.load(new BigInt64Array(counters), 0));
}

export function addUpdates({ counters }: ServerMemory, count: number): void {
  Atomics.add(new BigInt64Array(counters), 0, BigInt(count));
}

/** Wakes the server after a command was sent. */
export function wakeServer({ words }: ServerMemory): void {
  ringDoorbell(new Int32Array(words), 0);
}

/** Ends the server's thread. */
export function abortServer({ words }: ServerMemory): void {
  abortCells(new Int32Array(words), 1);
}
