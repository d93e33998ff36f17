// The different ids of a short list, each with a number: 0, 1, 2 ... in the order in which they
// come. One table serves row after row, and clearing it costs what was in it.

import { mix32 } from "../murmur-hash.ts";

/** Numbers ids from 0 on. */
export class IdTable {
  /** (slots): the number of the id in the slot, and 1; 0: none. */
  #numbers = new Int32Array(64);
  #lows = new Int32Array(64);
  #highs = new Int32Array(64);
  /** The slots in use, by number. */
  #used = new Int32Array(32);
  #size = 0;

  /** Different ids since the last `clear`. */
  get size(): number {
    return this.#size;
  }

  clear(): void {
    for (let i = 0; i < this.#size; i++) this.#numbers[this.#used[i] as number] = 0;
    this.#size = 0;
  }

  /** The number of an id; -1 for one that is not there. */
  find(low: number, high: number): number {
    return (this.#numbers[this.#slotOf(low, high)] as number) - 1;
  }

  /** The number of an id, which is there from now on. */
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

  /** The slot that an id has, or would have. */
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
