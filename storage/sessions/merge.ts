// Sorted runs as one sequence in order. Of equal keys the record of the earlier run comes first, so
// that the order among runs stays, too.

import type { Disk } from "../../src/ports/disk.ts";
import { type KeyedRow, RunReader } from "./run-files.ts";

/** Memory of a run that is read, if it has no longer row. */
const [readBytesMin, readBytesMax] = [4096, 2 ** 24];

/** Merges runs. Close it. */
export class Merge {
  readonly #readers: readonly RunReader[];
  /** Places of readers that have records: a heap, whose first has the first record. */
  readonly #heap: number[] = [];

  /** `bytes`: of memory, for all runs; `from`: where each of them is read on. @default the begin */
  constructor(
    disk: Disk,
    paths: readonly string[],
    { bytes, from = [] }: { readonly bytes: number; readonly from?: readonly number[] },
  ) {
    const each = Math.floor(bytes / Math.max(1, paths.length));
    const own = Math.max(readBytesMin, Math.min(readBytesMax, each));
    const readers: RunReader[] = [];
    this.#readers = readers;
    try {
      for (const [i, path] of paths.entries()) {
        readers.push(new RunReader(disk, path, { from: from[i] ?? 0, bytes: own }));
        if (readers[i]?.head !== undefined) this.#heap.push(i);
      }
    } catch (error) {
      this.close();
      throw error;
    }
    for (let at = this.#heap.length >> 1; at >= 0; at--) this.#sink(at);
  }

  /** The record in front; undefined: all runs have ended. Valid until `next`. */
  get head(): KeyedRow | undefined {
    return this.#first?.head;
  }

  /** Its bytes. */
  get record(): Buffer | undefined {
    return this.#first?.record;
  }

  /** Where each run is read on: what `from` takes. */
  get places(): number[] {
    return this.#readers.map(({ at }) => at);
  }

  next(): void {
    const first = this.#first;
    if (first === undefined) return;
    first.next();
    if (first.head === undefined) {
      const last = this.#heap.pop();
      if (this.#heap.length > 0 && last !== undefined) this.#heap[0] = last;
    }
    this.#sink(0);
  }

  close(): void {
    for (const reader of this.#readers) reader.close();
  }

  get #first(): RunReader | undefined {
    const [first] = this.#heap;
    return first === undefined ? undefined : this.#readers[first];
  }

  #sink(from: number): void {
    let at = from;
    for (;;) {
      const left = 2 * at + 1;
      if (left >= this.#heap.length) return;
      const right = left + 1;
      const child = right < this.#heap.length && this.#isBefore(right, left) ? right : left;
      if (!this.#isBefore(child, at)) return;
      const [a = 0, b = 0] = [this.#heap[at], this.#heap[child]];
      this.#heap[at] = b;
      this.#heap[child] = a;
      at = child;
    }
  }

  #isBefore(one: number, other: number): boolean {
    const [a = 0, b = 0] = [this.#heap[one], this.#heap[other]];
    const [own, others] = [this.#readers[a]?.head?.key, this.#readers[b]?.head?.key];
    if (own === undefined || others === undefined) return false;
    const order = Buffer.compare(own, others);
    return order < 0 || (order === 0 && a < b);
  }
}
