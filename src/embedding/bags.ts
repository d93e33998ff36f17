// Frames of bags: what travels from the device that has the samples to a device that has rows. A
// shard gets the rows that it has and no others: of a table split by rows, each bag is dealt out
// among its shards; of one split by columns, each shard gets all (papers.md 1.2).
//
//   int32: [stopAfter, rows, lengths (S*b, shard-major), bags (shard-major)]
//   bags of a shard: rows of the table; then, where they have weights, those as float32
//
// S = shards of the receiver, b = samples of the sender, B = samples of the batch.

import { FrameCorruptError } from "../errors.ts";
import type { Bags } from "../kernels/kernels.ts";
import type { SampleRows } from "./local-rows.ts";
import type { Shard } from "./shards.ts";

const headerInts = 2;

/** What a frame has to know of a shard. */
export interface BagShard extends Pick<Shard, "table" | "firstRow" | "rows"> {
  /** Whether it has every row of its table. */
  readonly isWhole: boolean;
  /** Whether the ids of its table come with weights. */
  readonly isWeighted: boolean;
}

/** Bytes of the largest frame. `idsMax`: the longest bag of each shard's table. */
export function bagFrameBytes(
  samples: number,
  shards: readonly Pick<BagShard, "isWeighted">[],
  idsMax: readonly number[],
): number {
  const words = shards.reduce((sum, { isWeighted }, i) => {
    return sum + 1 + (idsMax[i] ?? 0) * (isWeighted ? 2 : 1);
  }, 0);
  return 4 * (headerInts + samples * words);
}

/** Writes the frame for a receiver's shards; returns the bytes that it took. */
export function writeBagFrame(
  frame: Int32Array,
  local: SampleRows,
  shards: readonly BagShard[],
  stopAfter: number,
): number {
  const { samples } = local;
  let at = headerInts + shards.length * samples;
  let count = 0;
  for (const [i, shard] of shards.entries()) {
    const lengths = frame.subarray(headerInts + i * samples, headerInts + (i + 1) * samples);
    const rows = shard.isWhole
      ? copyBags(frame, at, lengths, local, shard)
      : dealBags(frame, at, lengths, local, shard);
    count += rows;
    at += rows * (shard.isWeighted ? 2 : 1);
  }
  frame[0] = stopAfter;
  frame[1] = count;
  return 4 * at;
}

/** All bags of the shard's feature, as they are. Returns their rows. */
function copyBags(
  frame: Int32Array,
  at: number,
  lengths: Int32Array,
  local: SampleRows,
  { table, isWeighted }: BagShard,
): number {
  const { samples, starts } = local;
  const [from, to] = [starts[table] ?? 0, starts[table + 1] ?? 0];
  lengths.set(local.lengths.subarray(table * samples, (table + 1) * samples));
  frame.set(local.rows.subarray(from, to), at);
  if (isWeighted) frame.set(bitsOf(local.weights).subarray(from, to), at + to - from);
  return to - from;
}

/** Of each bag, the rows that the shard has, in their order. Returns how many. */
function dealBags(
  frame: Int32Array,
  at: number,
  lengths: Int32Array,
  local: SampleRows,
  { table, firstRow, rows, isWeighted }: BagShard,
): number {
  const { samples, starts } = local;
  const [first, end] = [starts[table] ?? 0, starts[table + 1] ?? 0];
  let next = at;
  let from = first;
  for (let sample = 0; sample < samples; sample++) {
    const before = next;
    const bagEnd = from + (local.lengths[table * samples + sample] ?? 0);
    for (; from < bagEnd; from++) {
      const row = (local.rows[from] ?? -1) - firstRow;
      if (row >= 0 && row < rows) frame[next++] = row + firstRow;
    }
    lengths[sample] = next - before;
  }
  const count = next - at;
  if (!isWeighted) return count;
  const bits = bitsOf(local.weights);
  for (from = first; from < end; from++) {
    const row = (local.rows[from] ?? -1) - firstRow;
    if (row >= 0 && row < rows) frame[next++] = bits[from] ?? 0;
  }
  return count;
}

/** One frame as it arrived, and how many samples its sender has. */
export interface BagFrame {
  readonly ints: Int32Array;
  readonly samples: number;
}

/** Grow-only memory for bags, so that a steady step allocates nothing that grows with the batch. */
export class BagMemory {
  #offsets = new Int32Array(0);
  #ids = new Int32Array(0);
  #weights = new Float32Array(0);
  #frame = new Int32Array(0);

  /** Room of `bytes` for a frame that is gathered where it was written. */
  frame(bytes: number): Int32Array {
    const ints = bytes / 4;
    if (this.#frame.length < ints) this.#frame = new Int32Array(ints);
    return this.#frame.subarray(0, ints);
  }

  /**
   * The bags of the shards, samples of all senders in rank order, as rows counted from each shard's
   * first. They have weights where a table has: 1 in the other tables. Valid until the next call.
   * @throws FrameCorruptError where lengths and rows disagree, or a row is not the shard's
   */
  gather(frames: readonly BagFrame[], shards: readonly BagShard[]): Bags {
    const samples = frames.reduce((sum, frame) => sum + frame.samples, 0);
    const count = frames.reduce((sum, frame) => sum + rowsIn(frame, shards.length), 0);
    const bags = shards.length * samples;
    if (this.#offsets.length < bags + 1) this.#offsets = new Int32Array(bags + 1);
    if (this.#ids.length < count) this.#ids = new Int32Array(count + (count >> 1));
    const offsets = this.#offsets.subarray(0, bags + 1);
    const ids = this.#ids.subarray(0, count);
    const hasWeights = shards.some(({ isWeighted }) => isWeighted);
    const weights = hasWeights ? this.#weightsOf(count) : undefined;
    const weightBits = bitsOf(weights);
    const atBag = frames.map((frame) => headerInts + shards.length * frame.samples);
    let bag = 0;
    let total = 0;
    for (const [i, shard] of shards.entries()) {
      for (const [sender, { ints, samples: own }] of frames.entries()) {
        const first = total;
        for (let at = headerInts + i * own; at < headerInts + (i + 1) * own; at++) {
          offsets[bag++] = total;
          const length = ints[at] ?? 0;
          if (length < 0) throw new FrameCorruptError("ids", `a bag of ${length} ids`);
          total += length;
        }
        const from = atBag[sender] ?? 0;
        const end = from + (total - first) * (shard.isWeighted ? 2 : 1);
        if (total > count || end > ints.length) {
          throw new FrameCorruptError("ids", `lengths of ${total} ids, ${count} ids`);
        }
        takeRows(ids, first, ints.subarray(from, from + total - first), shard);
        if (shard.isWeighted) weightBits.set(ints.subarray(from + total - first, end), first);
        else weights?.fill(1, first, total);
        atBag[sender] = end;
      }
    }
    offsets[bag] = total;
    if (total !== count) throw new FrameCorruptError("ids", `lengths of ${total}, ${count} ids`);
    const bagsOfAll = { tables: shards.length, samples, offsets, ids };
    return weights === undefined ? bagsOfAll : { ...bagsOfAll, weights };
  }

  #weightsOf(count: number): Float32Array {
    if (this.#weights.length < count) this.#weights = new Float32Array(count + (count >> 1));
    return this.#weights.subarray(0, count);
  }
}

/** Copies rows of the table as rows of the shard. */
function takeRows(
  ids: Int32Array,
  first: number,
  from: Int32Array,
  { firstRow, rows }: BagShard,
): void {
  for (let i = 0; i < from.length; i++) {
    const row = (from[i] ?? -1) - firstRow;
    if (row < 0 || row >= rows) {
      const has = `a shard that has ${firstRow}..${firstRow + rows - 1}`;
      throw new FrameCorruptError("ids", `row ${from[i]} for ${has}`);
    }
    ids[first + i] = row;
  }
}

/** The same memory as whole words: floats are copied by their bits. */
function bitsOf(floats: Float32Array = new Float32Array(0)): Int32Array {
  return new Int32Array(floats.buffer, floats.byteOffset, floats.length);
}

/**
 * How many rows a frame says that it holds. @throws FrameCorruptError where it has no room for them
 */
function rowsIn({ ints, samples }: BagFrame, shards: number): number {
  const count = ints[1] ?? -1;
  const room = ints.length - headerInts - shards * samples;
  if (count >= 0 && count <= room) return count;
  throw new FrameCorruptError("ids", `${count} ids where there is room for ${room}`);
}
