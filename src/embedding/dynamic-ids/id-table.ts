// A table of 64-bit ids: a hash table with open addressing over plain memory, without an object per
// id. A new id gets the lowest free entry, and keeps the entry until it is removed. In a table of
// rows the entry is the row.
//
//   an entry, int32:  [lower half, upper half, count, 1 + step of the last occurrence]
//                     last word 0: the entry is free
//
// Memory is about 1.5 to 3 times the size of the entries up to the highest one. It grows, and never
// shrinks.
//
// Invariants
//   I1. An id has one entry at most, and `find` reaches every entry in use.
//   I2. The entry of an id depends only on the additions and removals and their order, not on a
//       hash.

import { mix64Low } from "../../data/murmur-hash.ts";

/** Words of an entry. */
export const entryWords = 4;

/** The largest count. */
const countMax = 0x7fff_ffff;
const firstBits = 4;

/** `mix64Low` of an id, computed by the caller. */
type Hash = number;

export class IdTable {
  readonly #entriesMax: number;
  #words = new Int32Array(entryWords * 2 ** (firstBits - 1));
  /** 1 + entry, at the hash's upper bits or in a later slot; 0: free. At least half are free. */
  #slots = new Int32Array(2 ** firstBits);
  #bits = firstBits;
  #size = 0;
  /** No entry below this one is free. */
  #lowest = 0;
  /** One past the highest entry that was ever used. */
  #end = 0;

  constructor(entriesMax: number) {
    this.#entriesMax = entriesMax;
  }

  /** Number of ids. */
  get size(): number {
    return this.#size;
  }

  get hasRoom(): boolean {
    return this.#size < this.#entriesMax;
  }

  /** The entry of an id; -1: the id has none. */
  find(low: number, high: number, hash: Hash): number {
    const slots = this.#slots;
    const words = this.#words;
    const mask = slots.length - 1;
    let slot = hash >>> (32 - this.#bits);
    for (;;) {
      const entry = (slots[slot] ?? 0) - 1;
      if (entry < 0) return -1;
      const at = entryWords * entry;
      if (words[at] === low && words[at + 1] === high) return entry;
      slot = (slot + 1) & mask;
    }
  }

  /** Counts an occurrence of an id at `step`. */
  see(entry: number, step: number): void {
    const at = entryWords * entry;
    const count = this.#words[at + 2] ?? 0;
    if (count < countMax) this.#words[at + 2] = count + 1;
    this.#words[at + 3] = step + 1;
  }

  /** Whether an id has the entry. */
  isUsed(entry: number): boolean {
    return entry >= 0 && entry < this.#end && this.#words[entryWords * entry + 3] !== 0;
  }

  countOf(entry: number): number {
    return this.#words[entryWords * entry + 2] ?? 0;
  }

  /** Gives the lowest free entry to a new id, and returns it. There must be room. */
  add(low: number, high: number, hash: Hash, count: number, step: number): number {
    while (this.#lowest < this.#end && this.#words[entryWords * this.#lowest + 3] !== 0) {
      this.#lowest++;
    }
    const entry = this.#lowest;
    this.#enter(entry, hash);
    const at = entryWords * entry;
    this.#words[at] = low;
    this.#words[at + 1] = high;
    this.#words[at + 2] = count;
    this.#words[at + 3] = step + 1;
    return entry;
  }

  /** Restores an entry from its words. The entry must be free and the id new. */
  put(entry: number, words: Int32Array): void {
    this.#enter(entry, mix64Low(words[0] ?? 0, words[1] ?? 0));
    this.#words.set(words, entryWords * entry);
  }

  #enter(entry: number, hash: Hash): void {
    this.#grow(entry + 1);
    this.#place(entry, hash);
    this.#size++;
    this.#end = Math.max(this.#end, entry + 1);
  }

  #grow(entries: number): void {
    if (entryWords * entries <= this.#words.length) return;
    while (2 ** (this.#bits - 1) < entries) this.#bits++;
    const room = Math.min(2 ** (this.#bits - 1), this.#entriesMax);
    const words = new Int32Array(entryWords * room);
    words.set(this.#words);
    this.#words = words;
    this.#slots = new Int32Array(2 ** this.#bits);
    for (const entry of this.entries()) this.#place(entry, this.#hashOf(entry));
  }

  #place(entry: number, hash: Hash): void {
    const mask = this.#slots.length - 1;
    let slot = hash >>> (32 - this.#bits);
    while (this.#slots[slot] !== 0) slot = (slot + 1) & mask;
    this.#slots[slot] = entry + 1;
  }

  #hashOf(entry: number): Hash {
    const at = entryWords * entry;
    return mix64Low(this.#words[at] ?? 0, this.#words[at + 1] ?? 0);
  }

  /** Removes an id. Slots after the gap move into it, so that their ids are still found (I1). */
  remove(entry: number): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    const homeOf = (of: number) => this.#hashOf(of) >>> (32 - this.#bits);
    let gap = homeOf(entry);
    while (slots[gap] !== entry + 1) gap = (gap + 1) & mask;
    for (let at = (gap + 1) & mask; slots[at] !== 0; at = (at + 1) & mask) {
      const home = homeOf((slots[at] ?? 0) - 1);
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      slots[gap] = slots[at] ?? 0;
      gap = at;
    }
    slots[gap] = 0;
    this.#words[entryWords * entry + 3] = 0;
    this.#size--;
    this.#lowest = Math.min(this.#lowest, entry);
  }

  /** Halves all counts. */
  halve(): void {
    for (let at = 2; at < entryWords * this.#end; at += entryWords) {
      this.#words[at] = (this.#words[at] ?? 0) >> 1;
    }
  }

  /** The entries in use, ascending. */
  entries(): Int32Array {
    const entries = new Int32Array(this.#size);
    let next = 0;
    for (let entry = 0; entry < this.#end; entry++) {
      if (this.#words[entryWords * entry + 3] !== 0) entries[next++] = entry;
    }
    return entries;
  }

  /** The entries in use that were not seen at step `step` or later. */
  unseenSince(step: number): Int32Array {
    return this.entries().filter((entry) => (this.#words[entryWords * entry + 3] ?? 0) <= step);
  }

  /** The `count` entries in use with the lowest count, ties by step, then id; in no order. */
  least(count: number): Int32Array {
    const word = (i: number) => (entry: number) => this.#words[entryWords * entry + i] ?? 0;
    const low = (entry: number) => word(0)(entry) >>> 0;
    return leastBy(this.entries(), count, [word(2), word(3), word(1), low]);
  }

  /** The entries in use, ordered by id. */
  byId(): Int32Array {
    const word = (entry: number, i: number) => this.#words[entryWords * entry + i] ?? 0;
    return this.entries().sort((a, b) => {
      return word(a, 1) - word(b, 1) || (word(a, 0) >>> 0) - (word(b, 0) >>> 0);
    });
  }

  /** (4n): the words of n entries, one after the other. */
  wordsOf(entries: Int32Array): Int32Array {
    const out = new Int32Array(entryWords * entries.length);
    for (const [i, entry] of entries.entries()) {
      const at = entryWords * entry;
      out.set(this.#words.subarray(at, at + entryWords), entryWords * i);
    }
    return out;
  }
}

/** The `count` entries with the lowest first key; ties go to the next key. In no order. */
function leastBy(
  entries: Int32Array,
  count: number,
  [key, ...others]: readonly ((entry: number) => number)[],
): Int32Array {
  if (count >= entries.length || key === undefined) return entries.slice(0, Math.max(0, count));
  if (count <= 0) return entries.slice(0, 0);
  // A typed array sorts numbers without calling a comparison function.
  const limit = Float64Array.from(entries, key).sort()[count - 1] ?? 0;
  const below = entries.filter((entry) => key(entry) < limit);
  const equal = entries.filter((entry) => key(entry) === limit);
  const out = new Int32Array(count);
  out.set(below);
  out.set(leastBy(equal, count - below.length, others), below.length);
  return out;
}
