// Distinct rows: for a table with `dedup`, a device requests each row once, however many of its
// samples look it up. Precisely: once for each subtree of slices that the device can finish (with
// 2, 4, 8 … devices each has one), because the row's gradients go back as sums over these subtrees.
//
//   int32: [counts of distinct rows (S*P, shard-major), rows of the table (shard by shard,
//           ascending in each subtree)]
//
// S = dedup shards of the receiver, P = subtrees of the sender, b = samples of the sender, W =
// devices, V = rows that all devices request from one shard.

import { FrameCorruptError } from "../../errors/errors.ts";
import type { Bags } from "../../kernels/contract/kernels.ts";
import type { Slices, Subtree } from "../../kernels/contract/slices.ts";
import type { Shard } from "../tables/shards.ts";
import type { BagShard } from "./bag-frames.ts";
import type { SampleRows } from "./sample-rows.ts";

/** Bytes of the largest frame. `rowsMax`: most distinct rows of each shard. */
export function distinctFrameBytes(subtrees: number, rowsMax: readonly number[]): number {
  return 4 * rowsMax.reduce((sum, rows) => sum + subtrees + rows, 0);
}

// The requesting side: the device with the samples ----

/** A shard of a table with `dedup`, and its lookups. */
export interface DistinctShard {
  readonly lookups: readonly BagShard[];
}

/** The lookups of a device's samples in dedup shards. */
export interface DistinctBags {
  /** (lookups, b) for each shard: bags of indices into the shard's section of `rows`. */
  readonly bags: readonly Bags<Int32Array>[];
  /** Rows of the tables: shard by shard, subtree by subtree, ascending. */
  readonly rows: Int32Array;
  /** (S*P+1): where the rows of each shard and subtree begin. */
  readonly starts: Int32Array;
  /** P */
  readonly subtrees: number;
}

/** Number of rows requested from shard `shard`. */
export function requestedRows({ starts, subtrees }: DistinctBags, shard: number): number {
  return (starts[(shard + 1) * subtrees] ?? 0) - (starts[shard * subtrees] ?? 0);
}

/**
 * Grow-only memory for distinct bags, so that a steady step allocates nothing that grows with the
 * batch.
 */
export class DistinctMemory {
  #memory = { offsets: none, ids: none, weights: new Float32Array(0), rows: none };
  readonly #places = new RowPlaces();

  /**
   * Finds the distinct rows of a batch; the result is valid until the next call. `ends`: for each
   * subtree, one past its last sample.
   */
  take(local: SampleRows, shards: readonly DistinctShard[], ends: readonly number[]): DistinctBags {
    const { samples } = local;
    const all = shards.flatMap(({ lookups }) => lookups);
    const ids = all.reduce((sum, { lookup }) => {
      return sum + (local.starts[lookup + 1] ?? 0) - (local.starts[lookup] ?? 0);
    }, 0);
    const offsets = shards.reduce((sum, { lookups }) => sum + lookups.length * samples + 1, 0);
    this.#reserve(offsets, ids);
    const { rows } = this.#memory;
    const starts = new Int32Array(shards.length * ends.length + 1);
    let [first, begin, total] = [0, 0, 0];
    const bags = shards.map(({ lookups }, i) => {
      const firstDistinct = total;
      const taken = this.#collect(local, lookups, ends, first, begin);
      for (const [p] of ends.entries()) {
        starts[i * ends.length + p] = total;
        // The lookups of one table share its distinct rows.
        const places = taken.parts.map((parts) => parts[p] ?? none);
        total += this.#places.take(rows.subarray(total), places, total - firstDistinct);
      }
      first += taken.bags.ids.length;
      begin += lookups.length * samples + 1;
      return taken.bags;
    });
    starts[shards.length * ends.length] = total;
    return { bags, rows: rows.subarray(0, total), starts, subtrees: ends.length };
  }

  /**
   * Copies the ids of a shard's lookups into the memory from `first` on, and their offsets from
   * `begin` on. `parts`: the ids of each lookup in each subtree.
   */
  #collect(
    local: SampleRows,
    lookups: readonly BagShard[],
    ends: readonly number[],
    first: number,
    begin: number,
  ): { bags: Bags<Int32Array>; parts: Int32Array[][] } {
    const { samples } = local;
    const { ids, weights } = this.#memory;
    const offsets = this.#memory.offsets.subarray(begin, begin + lookups.length * samples + 1);
    const isWeighted = lookups.some((one) => one.isWeighted);
    let count = first;
    const parts = lookups.map(({ lookup, firstRow, rows: has, isWeighted: isOwn }, l) => {
      let from = local.starts[lookup] ?? 0;
      let sample = 0;
      return ends.map((end) => {
        const firstOfTree = count;
        for (; sample < end; sample++) {
          offsets[l * samples + sample] = count - first;
          const bagEnd = from + (local.lengths[lookup * samples + sample] ?? 0);
          for (; from < bagEnd; from++) {
            const row = local.rows[from] ?? -1;
            if (row < firstRow || row >= firstRow + has) continue;
            if (isWeighted) weights[count] = isOwn ? (local.weights?.[from] ?? 1) : 1;
            ids[count++] = row;
          }
        }
        return ids.subarray(firstOfTree, count);
      });
    });
    offsets[lookups.length * samples] = count - first;
    const own = { tables: lookups.length, samples, offsets, ids: ids.subarray(first, count) };
    const bags = isWeighted ? { ...own, weights: weights.subarray(first, count) } : own;
    return { bags, parts };
  }

  #reserve(offsets: number, ids: number): void {
    if (this.#memory.offsets.length < offsets) {
      this.#memory = { ...this.#memory, offsets: new Int32Array(offsets) };
    }
    if (this.#memory.ids.length >= ids) return;
    const room = ids + (ids >> 1);
    this.#memory = {
      offsets: this.#memory.offsets,
      ids: new Int32Array(room),
      weights: new Float32Array(room),
      rows: new Int32Array(room),
    };
  }
}

const none = new Int32Array(0);

/** Maps rows to indices among the distinct rows: a hash table with open addressing. */
class RowPlaces {
  /** (slots): 1 + index; 0: free. */
  #places = new Int32Array(0);
  #rows = new Int32Array(0);
  /** For rows in order of first sight, the index in ascending order. */
  #ascending = new Int32Array(0);

  /**
   * Writes the distinct rows of all `parts` to `out`, ascending, and replaces each id in `parts` by
   * its index in `out`, plus `base`. Returns the number of distinct rows.
   */
  take(out: Int32Array, parts: readonly Int32Array[], base: number): number {
    const bits = Math.max(4, 33 - Math.clz32(parts.reduce((sum, { length }) => sum + length, 0)));
    this.#clear(bits);
    let count = 0;
    for (const ids of parts) {
      for (let i = 0; i < ids.length; i++) {
        const row = ids[i] ?? 0;
        const slot = this.#slotOf(row, bits);
        if (this.#places[slot] === 0) {
          this.#rows[slot] = row;
          out[count++] = row;
          this.#places[slot] = count;
        }
        ids[i] = (this.#places[slot] ?? 1) - 1;
      }
    }
    out.subarray(0, count).sort();
    for (let place = 0; place < count; place++) {
      const met = (this.#places[this.#slotOf(out[place] ?? 0, bits)] ?? 1) - 1;
      this.#ascending[met] = base + place;
    }
    for (const ids of parts) {
      for (let i = 0; i < ids.length; i++) ids[i] = this.#ascending[ids[i] ?? 0] ?? 0;
    }
    return count;
  }

  #clear(bits: number): void {
    const slots = 2 ** bits;
    if (this.#places.length < slots) {
      this.#places = new Int32Array(slots);
      this.#rows = new Int32Array(slots);
      this.#ascending = new Int32Array(slots);
    } else {
      this.#places.fill(0, 0, slots);
    }
  }

  /** The slot of a row, or the free slot for it. At least half of the slots are free. */
  #slotOf(row: number, bits: number): number {
    const mask = 2 ** bits - 1;
    let slot = Math.imul(row, 0x9e37_79b1) >>> (32 - bits); // The golden ratio: Knuth 6.4.
    while (this.#places[slot] !== 0 && this.#rows[slot] !== row) slot = (slot + 1) & mask;
    return slot;
  }
}

/** Bytes of the requests to shards first .. first+count-1. */
export function distinctFrameBytesOf(
  { starts, subtrees }: DistinctBags,
  first: number,
  count: number,
): number {
  const rows = (starts[(first + count) * subtrees] ?? 0) - (starts[first * subtrees] ?? 0);
  return 4 * (count * subtrees + rows);
}

/** Writes the requests to shards first .. first+count-1. Returns their bytes. */
export function writeDistinctFrame(
  frame: Int32Array,
  { rows, starts, subtrees }: DistinctBags,
  first: number,
  count: number,
): number {
  const begin = first * subtrees;
  const header = count * subtrees;
  for (let i = 0; i < header; i++) {
    frame[i] = (starts[begin + i + 1] ?? 0) - (starts[begin + i] ?? 0);
  }
  const requested = rows.subarray(starts[begin], starts[begin + header]);
  frame.set(requested, header);
  return 4 * (header + requested.length);
}

// The answering side: the device with the rows ----

export interface ShardLookups {
  /** (1, V): one bag with one row per request, in the order of devices and subtrees. */
  readonly bags: Bags<Int32Array>;
  /**
   * The slices of the batch. Bags are in the first slice of their subtree; its other slices are
   * empty. So a subtree's sum, which arrives as one gradient, is added in the same tree order as
   * the gradients of its slices.
   */
  readonly slices: Slices;
  /** (W): number of bags of each device. */
  readonly counts: readonly number[];
}

/** A received frame, and the subtrees that its sender finishes, left to right. */
export interface DistinctFrame {
  readonly ints: Int32Array;
  readonly subtrees: readonly Subtree[];
}

/**
 * The number of integers that a frame for `shards` shards takes, read from its beginning.
 * @throws FrameCorruptError where there is no room for its rows
 */
export function distinctFrameInts({ ints, subtrees }: DistinctFrame, shards: number): number {
  const header = shards * subtrees.length;
  let rows = 0;
  for (let i = 0; i < header; i++) {
    const count = ints[i] ?? -1;
    rows += count;
    if (count >= 0 && header + rows <= ints.length) continue;
    throw new FrameCorruptError("ids", `${count} distinct rows, of ${ints.length} numbers in all`);
  }
  return header + rows;
}

/** Grow-only memory for the lookups of all devices in the shards of one. */
export class LookupMemory {
  #ids = new Int32Array(0);
  /** 0, 1, 2 … */
  #ordinals = new Int32Array(0);

  /**
   * The lookups of each shard, from the frames of all devices in rank order, which cover all
   * `slices` slices. Valid until the next call.
   * @throws FrameCorruptError where a row is not the shard's, or the rows do not ascend
   */
  gather(
    frames: readonly DistinctFrame[],
    shards: readonly Pick<Shard, "firstRow" | "rows">[],
    slices: number,
  ): ShardLookups[] {
    const at = frames.map(({ subtrees }) => shards.length * subtrees.length);
    const total = frames.reduce((sum, frame, sender) => {
      return sum + distinctFrameInts(frame, shards.length) - (at[sender] ?? 0);
    }, 0);
    this.#reserve(total);
    let next = 0;
    return shards.map((shard, i) => {
      const first = next;
      const bounds = new Int32Array(slices + 1);
      const counts = frames.map(({ ints, subtrees }, sender) => {
        const before = next;
        for (const [p, tree] of subtrees.entries()) {
          const count = ints[i * subtrees.length + p] ?? 0;
          const from = at[sender] ?? 0;
          takeAscending(this.#ids, next, ints.subarray(from, from + count), shard);
          at[sender] = from + count;
          next += count;
          bounds.fill(next - first, tree.first + 1, tree.first + tree.count + 1);
        }
        return next - before;
      });
      const samples = next - first;
      const offsets = this.#ordinals.subarray(0, samples + 1);
      const bags = { tables: 1, samples, offsets, ids: this.#ids.subarray(first, next) };
      return { bags, slices: { first: 0, bounds }, counts };
    });
  }

  #reserve(rows: number): void {
    if (this.#ids.length >= rows && this.#ordinals.length > rows) return;
    const room = rows + (rows >> 1);
    this.#ids = new Int32Array(room);
    this.#ordinals = Int32Array.from({ length: room + 1 }, (_, i) => i);
  }
}

/** Copies ascending rows of the table as rows of the shard. */
function takeAscending(
  ids: Int32Array,
  first: number,
  from: Int32Array,
  { firstRow, rows }: Pick<Shard, "firstRow" | "rows">,
): void {
  let before = -1;
  for (let i = 0; i < from.length; i++) {
    const row = (from[i] ?? -1) - firstRow;
    if (row <= before || row >= rows) {
      const range = `${firstRow + before + 1}..${firstRow + rows - 1}`;
      throw new FrameCorruptError("ids", `row ${from[i]}, where it has to lie in ${range}`);
    }
    ids[first + i] = row;
    before = row;
  }
}
