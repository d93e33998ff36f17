// The memory pool of a columnar reader: buffers of a piece are reused for the next piece. Without
// it, every piece would allocate memory for each of its columns, which costs more than decoding
// them.
//
// Invariants
//   P1. A buffer belongs to its taker until the next piece begins.
//   P2. Memory is that of two pieces at most: buffers that the last piece did not reuse are
//       released.
//   P3. A piece takes no more memory than its file's budget allows (memory-budget.ts).

import type { MemoryBudget } from "./memory-budget.ts";

/** Smallest buffer, in bytes. */
const bytesMin = 256;

/**
 * Eight sizes between a power of two and the next, so that at most an eighth of a buffer is unused.
 */
const stepsLog2 = 3;

/** Hands out arrays with undefined content. */
export class PieceMemory {
  /** Buffers of the previous piece that are not reused yet, by size. */
  #free = new Map<number, ArrayBuffer[]>();
  #taken: ArrayBuffer[] = [];
  readonly #budget: MemoryBudget;

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
  }

  /** Starts a piece. The arrays of the previous piece must not be used any more. */
  begin(): void {
    const free = new Map<number, ArrayBuffer[]>();
    for (const buffer of this.#taken) {
      const alike = free.get(buffer.byteLength);
      if (alike === undefined) free.set(buffer.byteLength, [buffer]);
      else alike.push(buffer);
    }
    this.#free = free; // P2
    this.#taken = [];
    this.#budget.begin();
  }

  uint8(length: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#take(length), 0, length);
  }

  int32(length: number): Int32Array<ArrayBuffer> {
    return new Int32Array(this.#take(4 * length), 0, length);
  }

  float64(length: number): Float64Array<ArrayBuffer> {
    return new Float64Array(this.#take(8 * length), 0, length);
  }

  /** Takes a whole buffer, so that the array starts at offset 0. */
  #take(bytes: number): ArrayBuffer {
    const least = Math.max(bytes, bytesMin);
    const step = 2 ** (Math.floor(Math.log2(least)) - stepsLog2);
    const size = Math.ceil(least / step) * step;
    this.#budget.take(size); // P3
    const buffer = this.#free.get(size)?.pop() ?? new ArrayBuffer(size);
    this.#taken.push(buffer); // P1
    return buffer;
  }
}
