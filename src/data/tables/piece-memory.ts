// The memory of a reader of columns: what a piece took, the next one uses again. Without it every
// piece would take new memory for each of its columns, which costs more than decoding them.
//
// Invariants
//   P1. What was taken belongs to whoever took it until the next piece begins.
//   P2. Memory is that of two pieces at most: what the last one did not need is let go.
//   P3. A piece takes no more than what its file pays for (memory-budget.ts).

import type { MemoryBudget } from "./memory-budget.ts";

/** Bytes that are taken at least. */
const bytesMin = 256;

/** Sizes between a power of two and the next: at most an eighth of a buffer is not used. */
const stepsLog2 = 3;

/** Arrays with undefined values. */
export class PieceMemory {
  /** By size: buffers of the piece before that are not taken yet. */
  #free = new Map<number, ArrayBuffer[]>();
  #taken: ArrayBuffer[] = [];
  readonly #budget: MemoryBudget;

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
  }

  /** Begins a piece: nobody uses what was taken for the one before. */
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

  /** A buffer of its own: arrays of it begin with it. */
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
