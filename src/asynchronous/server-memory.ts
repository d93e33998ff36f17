// The memory that a parameter server shares with its host: a doorbell for commands, and a counter
// that outlives the server.

import { abortCells, cellWords, ringDoorbell } from "../exchange/cells.ts";

export interface ServerMemory {
  readonly words: SharedArrayBuffer;
  /** (1) BigInt64: pushes, or exchanges, that the server has applied. */
  readonly counters: SharedArrayBuffer;
}

export function createServerMemory(): ServerMemory {
  const words = new SharedArrayBuffer(4 * cellWords(1, 0));
  return { words, counters: new SharedArrayBuffer(8) };
}

/** Pushes, or exchanges, applied by all servers that had this memory. */
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
