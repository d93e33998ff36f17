// Numbers the distinct ids of a short list 0, 1, 2 ... in order of first occurrence. A table is
// reused for every row; clearing it takes time in proportion to its content.

import { mix32 } from "../murmur-hash.ts";

/** A hash table from ids to consecutive numbers. */
export class IdTable {
  /** (slots): 1 + the number of the slot's id, or 0 for a free slot. */
  #numbers = new Int32Array(64);
  #lows = new Int32Array(64);
  #highs = new Int32Array(64);
  /** The slots in use, by number. */
  #used = new Int32Array(32);
  #size = 0;

  /** Number of distinct ids since the last `clear`. */
  get size(): number {
    return this.#size;
  }

  clear(): void {
    for (let i = 0; i < this.#size; i++) this.#numbers[this.#used[i] as number] = 0;
    this.#size = 0;
  }

  /** The number of an id; -1 if it is not in the table. */
  find(low: number, high: number): number {
    return (this.#numbers[this.#slotOf(low, high)] as number) - 1;
  }

  /** The number of an id, which is added if it is not in the table. */
  add(low: number, high: number): number {
    const slot = this.#slotOf(low, high);
    const known = this.#numbers[slot] as number;
    if (known > 0) return known - 1;
    if (2 * (this.#size + 1) > this.#numbers.length) {
      this.#grow();
      return this.add(low, high);
    }
    this.#lows[slot] = low;
    this.#highs[slot] = high;
    this.#used[this.#size++] = slot;
    this.#numbers[slot] = this.#size;
    return this.#size - 1;
  }

  /** The slot of an id, or the free slot where it belongs. */
  #slotOf(low: number, high: number): number {
    const mask = this.#numbers.length - 1;
    let slot = mix32(low ^ Math.imul(high, 0x9e37_79b1)) & mask;
    while (this.#numbers[slot] !== 0 && (this.#lows[slot] !== low || this.#highs[slot] !== high)) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  #grow(): void {
    const slots = 2 * this.#numbers.length;
    const [lows, highs, used, size] = [this.#lows, this.#highs, this.#used, this.#size];
    this.#numbers = new Int32Array(slots);
    this.#lows = new Int32Array(slots);
    this.#highs = new Int32Array(slots);
    this.#used = new Int32Array(slots / 2);
    this.#size = 0;
    for (let i = 0; i < size; i++) {
      const slot = used[i] as number;
      this.add(lows[slot] as number, highs[slot] as number);
    }
  }
}
