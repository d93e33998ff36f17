// A k-way merge of sorted runs. Of equal keys the record of the earlier run comes first, so that
// the merge is stable.

import type { Disk } from "../../../internal.ts";
import { type KeyedRow, RunReader } from "./run-files.ts";

/** Bounds of a run's read buffer, which grows for longer rows. */
const [readBytesMin, readBytesMax] = [4096, 2 ** 24];

/** Merges runs. Close it. */
export class Merge {
  readonly #readers: readonly RunReader[];
  /** A heap of indices of readers that have records; the first reader has the least record. */
  readonly #heap: number[] = [];

  /** `bytes`: memory for all runs; `from`: offset in each run. @default the beginning */
  constructor(
    disk: Disk,
    paths: readonly string[],
    { bytes, from = [] }: { readonly bytes: number; readonly from?: readonly number[] },
  ) {
    const each = Math.floor(bytes / Math.max(1, paths.length));
    const readBytes = Math.max(readBytesMin, Math.min(readBytesMax, each));
    const readers: RunReader[] = [];
    this.#readers = readers;
    try {
      for (const [i, path] of paths.entries()) {
        readers.push(new RunReader(disk, path, { from: from[i] ?? 0, bytes: readBytes }));
        if (readers[i]?.head !== undefined) this.#heap.push(i);
      }
    } catch (error) {
      this.close();
      throw error;
    }
    for (let at = this.#heap.length >> 1; at >= 0; at--) this.#sink(at);
  }

  /** The least record; undefined: all runs are exhausted. Valid until `next`. */
  get head(): KeyedRow | undefined {
    return this.#first?.head;
  }

  /** The least record's bytes. */
  get record(): Buffer | undefined {
    return this.#first?.record;
  }

  /** The offset of each run's next record, to be passed as `from`. */
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
    const [first, others] = [this.#readers[a]?.head?.key, this.#readers[b]?.head?.key];
    if (first === undefined || others === undefined) return false;
    const order = Buffer.compare(first, others);
    return order < 0 || (order === 0 && a < b);
  }
}
