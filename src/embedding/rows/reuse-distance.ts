// Samples the reuse distances of a cached shard's rows during training, which give the hit rate of
// a cache of any size (miss-curve.ts). No weight depends on them.
//
// An access is one distinct row of one batch: a cache serves a row once per batch, however many ids
// need it. Its reuse distance is the number of distinct rows accessed since the row's last access,
// including the row itself. Rows of one batch are accessed at once, so their order is that of their
// hashes. An LRU cache of C slots hits if the distance is at most C.
//
// Distances are sampled as in SHARDS with a fixed size (Waldspurger et al., "Efficient MRC
// Construction with SHARDS", FAST'15): only rows with a hash below a threshold are tracked, and
// each counts for 1 / rate rows. When there are too many tracked rows, the threshold is halved. An
// untracked row costs only its hash.
//
// Invariants
//   S1. Rows are known by their hash, which is a permutation of 32 bits. All known hashes are below
//       the threshold, and there are at most `rowsMax`.
//   S2. Every known row has one slot. Slots are in the order of the last accesses, and the tree
//       counts the taken slots.

import { hashRow } from "../../kernels/contract/row-cache.ts";
import { bucketOf, curveWords } from "./miss-curve.ts";

/** Most tracked rows of a shard. */
const sampledMax = 8192;
/** Sampling starts with one row in `rareness`, or with about `sampledMin` rows if that is more. */
const rareness = 16;
const sampledMin = 4096;

export interface ReuseSampler {
  /** (curveWords): the counts of a miss-ratio curve (miss-curve.ts), which only grow. */
  readonly counts: Float64Array;
  /** Records accesses to a batch's distinct rows: the rows in the slots `placed`. */
  note(rowOf: Int32Array, placed: Int32Array): void;
}

/**
 * A sampler for a shard of `rows` rows. `scale`: rows of the table per row of the shard, by which
 * distances are scaled to rows of the table. `rate`: initial share of sampled rows, a power of two.
 */
export function createReuseSampler({
  rows,
  scale = 1,
  rowsMax = sampledMax,
  rate = rateOf(rows),
}: {
  readonly rows: number;
  readonly scale?: number;
  readonly rowsMax?: number;
  readonly rate?: number;
}): ReuseSampler {
  const counts = new Float64Array(curveWords);
  const known = new KnownRows(Math.min(rowsMax, 2 ** Math.ceil(Math.log2(rows + 1))));
  let share = rate;
  let sampled = new Uint32Array(64);
  const sampledOf = (rowOf: Int32Array, placed: Int32Array): Uint32Array => {
    const threshold = share * 2 ** 32;
    let count = 0;
    for (let i = 0; i < placed.length; i++) {
      const hash = hashRow(rowOf[placed[i] ?? 0] ?? 0);
      if (hash >= threshold) continue;
      if (count === sampled.length) {
        const wider = new Uint32Array(2 * count);
        wider.set(sampled);
        sampled = wider;
      }
      sampled[count++] = hash;
    }
    return sampled.subarray(0, count).sort();
  };
  const add = (word: number, count: number) => {
    counts[word] = (counts[word] ?? 0) + count;
  };
  return {
    counts,
    note(rowOf, placed) {
      add(0, placed.length);
      const hashes = sampledOf(rowOf, placed);
      for (let i = 0; i < hashes.length; i++) {
        const later = known.laterThan(hashes[i] ?? 0);
        add(later < 0 ? 1 : bucketOf(scale * (1 + later / share)), 1 / share);
      }
      for (let i = 0; i < hashes.length; i++) {
        const hash = hashes[i] ?? 0;
        while (hash < share * 2 ** 32 && !known.renew(hash)) {
          share /= 2;
          known.keepBelow(share * 2 ** 32);
        }
      }
    },
  };
}

function rateOf(rows: number): number {
  return 2 ** Math.floor(Math.log2(Math.min(1, Math.max(1 / rareness, sampledMin / rows))));
}

/** The sampled rows, ordered by last access. */
class KnownRows {
  readonly #most: number;
  /** Open addressing by a hash's low bits: the slot of each row, plus one; 0: none. */
  readonly #slotAt: Int32Array;
  /**
   * (slots): the row in each slot; `#taken`: whether the slot is taken. An access moves its row to
   * a later slot, and leaves the former slot free.
   */
  readonly #rows: Uint32Array;
  readonly #taken: Uint8Array;
  /** Fenwick tree over the slots, from element 1 on. */
  readonly #tree: Int32Array;
  #count = 0;
  #next = 0;

  /** `most`: a power of two. */
  constructor(most: number) {
    this.#most = most;
    this.#slotAt = new Int32Array(4 * most);
    this.#rows = new Uint32Array(4 * most);
    this.#taken = new Uint8Array(4 * most);
    this.#tree = new Int32Array(4 * most + 1);
  }

  /** The number of rows with a later access; -1 where the row is not known. */
  laterThan(row: number): number {
    const slot = (this.#slotAt[this.#find(row)] ?? 0) - 1;
    if (slot < 0) return -1;
    let upTo = 0;
    for (let i = slot + 1; i > 0; i -= i & -i) upTo += this.#tree[i] ?? 0;
    return this.#count - upTo;
  }

  /**
   * Makes the row's access the latest. Returns false if the row is new and there is no room (S1).
   */
  renew(row: number): boolean {
    const isNew = this.#slotAt[this.#find(row)] === 0;
    if (isNew && this.#count === this.#most) return false;
    if (this.#next === this.#rows.length) this.keepBelow(2 ** 32);
    const at = this.#find(row);
    if (isNew) this.#count++;
    else {
      const old = (this.#slotAt[at] ?? 0) - 1;
      this.#taken[old] = 0;
      this.#add(old, -1);
    }
    const slot = this.#next++;
    this.#rows[slot] = row;
    this.#taken[slot] = 1;
    this.#add(slot, 1);
    this.#slotAt[at] = slot + 1;
    return true;
  }

  /** Drops rows whose hash reaches the threshold, and compacts the others into the first slots. */
  keepBelow(threshold: number): void {
    const end = this.#next;
    this.#slotAt.fill(0);
    this.#tree.fill(0);
    this.#next = 0;
    for (let slot = 0; slot < end; slot++) {
      const row = this.#rows[slot] ?? 0;
      const isKept = this.#taken[slot] === 1 && row < threshold;
      this.#taken[slot] = 0;
      if (!isKept) continue;
      const to = this.#next++;
      this.#rows[to] = row;
      this.#taken[to] = 1;
      this.#add(to, 1);
      this.#slotAt[this.#find(row)] = to + 1;
    }
    this.#count = this.#next;
  }

  /** The index of the row's slot, or of the free entry for it. */
  #find(row: number): number {
    const mask = this.#slotAt.length - 1;
    let at = row & mask;
    for (;;) {
      const slot = (this.#slotAt[at] ?? 0) - 1;
      if (slot < 0 || this.#rows[slot] === row) return at;
      at = (at + 1) & mask;
    }
  }

  #add(slot: number, count: number): void {
    for (let i = slot + 1; i < this.#tree.length; i += i & -i) {
      this.#tree[i] = (this.#tree[i] ?? 0) + count;
    }
  }
}
