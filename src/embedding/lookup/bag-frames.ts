// Frames of the input dist, which carry bags from the device with the samples to a device with
// rows. A shard receives only the ids of its own rows: for a table split by rows, each bag is
// divided among the shards; split by columns, each shard receives all ids (Neo, arXiv 2104.05158).
//
//   int32: [stopAfter, rows, distinct (G*s, G-major), lengths (S-major), bags (S-major)]
//   distinct: for each group of deduplicated features, distinct lists in each slice of the sender
//   lengths of a lookup: b lengths, or one for each distinct list of its group
//   bags of a lookup: rows of the table; then, if its ids have weights, the weights as float32
//
// Dynamic ids travel unchanged, in two words, lower half first, to the shard with their row block.
// The receiver maps them to rows of the shard, and drops an id without a row from its bag.
//
// S = lookups in shards of the receiver, shard by shard, b = samples of the sender, B = samples of
// the batch, G = groups of deduplicated features (ikjt.ts), s = slices of the sender.

import { checkedIds } from "../../data/ids-room.ts";
import { type AxisRows, axisAt, groupAxis, samplesAxis } from "../../data/sessions/ikjt.ts";
import { FrameCorruptError } from "../../errors/errors.ts";
import type { Bags } from "../../kernels/contract/kernels.ts";
import type { FindRow } from "../dynamic-ids/shard-ids.ts";
import type { Shard } from "../tables/shards.ts";
import type { SampleRows } from "./sample-rows.ts";

const headerInts = 2;

/** One lookup in one shard: the fields of both that a frame depends on. */
export interface BagShard extends Pick<Shard, "firstRow" | "rows"> {
  /** Index of the lookup in the job. */
  readonly lookup: number;
  /** 0: the lookup has a bag per sample; 1 + g: a bag per distinct list of group g. @default 0 */
  readonly axis?: number | undefined;
  /** Whether the shard has every row of its table. */
  readonly isWhole: boolean;
  /** Whether the ids of the lookup come with weights. */
  readonly isWeighted: boolean;
  /** The shard's row blocks of a table with dynamic ids; left out: ids are rows. */
  readonly idBlocks?: { readonly first: number; readonly count: number } | undefined;
}

/** Words per id in a frame. */
function idWords({ isWeighted, idBlocks }: Pick<BagShard, "isWeighted" | "idBlocks">): number {
  return (idBlocks === undefined ? 1 : 2) + (isWeighted ? 1 : 0);
}

/** Bytes of a frame. `ids`: of each lookup, in all samples. `counts`: G * s. */
export function bagFrameBytes(
  samples: number,
  shards: readonly Pick<BagShard, "isWeighted" | "idBlocks">[],
  ids: readonly number[],
  counts = 0,
): number {
  const words = shards.reduce((sum, shard, i) => sum + (ids[i] ?? 0) * idWords(shard), 0);
  return 4 * (headerInts + counts + samples * shards.length + words);
}

/** Most bytes of the frame with these rows for a receiver's shards. */
export function bagFrameBytesOf(local: SampleRows, shards: readonly BagShard[]): number {
  const { samples, starts, axes = [] } = local;
  const counts = axes.slice(1).reduce((sum, { runs }) => sum + runs.length, 0);
  const ids = shards.map(({ lookup }) => (starts[lookup + 1] ?? 0) - (starts[lookup] ?? 0));
  return bagFrameBytes(samples, shards, ids, counts);
}

/** Writes the frame for a receiver's shards. Returns its bytes. */
export function writeBagFrame(
  frame: Int32Array,
  local: SampleRows,
  shards: readonly BagShard[],
  stopAfter: number,
): number {
  const axes = local.axes ?? [samplesAxis(local.samples)];
  let head = headerInts;
  for (const { runs } of axes.slice(1)) for (const { count } of runs) frame[head++] = count;
  let at = shards.reduce((sum, { axis }) => sum + axisAt(axes, axis).rows, head);
  let count = 0;
  for (const shard of shards) {
    const own = axisAt(axes, shard.axis);
    const lengths = frame.subarray(head, head + own.rows);
    head += own.rows;
    const rows = shard.isWhole
      ? copyBags(frame, at, lengths, local, shard, own)
      : dealBags(frame, at, lengths, local, shard, own);
    count += rows;
    at += rows * idWords(shard);
  }
  frame[0] = stopAfter;
  frame[1] = count;
  return 4 * at;
}

/** Copies all bags of the lookup. Returns the number of ids. */
function copyBags(
  frame: Int32Array,
  at: number,
  lengths: Int32Array,
  local: SampleRows,
  { lookup, isWeighted, idBlocks }: BagShard,
  { runs }: AxisRows,
): number {
  const { samples, starts } = local;
  const [from, to] = [starts[lookup] ?? 0, starts[lookup + 1] ?? 0];
  let row = 0;
  for (const { first, count } of runs) {
    const bag = lookup * samples + first;
    lengths.set(local.lengths.subarray(bag, bag + count), row);
    row += count;
  }
  let end = at + to - from;
  if (idBlocks === undefined) frame.set(local.rows.subarray(from, to), at);
  else end = writeIds(frame, at, local, from, to, idBlocks);
  if (isWeighted) frame.set(bitsOf(local.weights).subarray(from, to), end);
  return to - from;
}

/** Copies those dynamic ids `from`..`to`-1 that are in the shard's blocks. Returns their end. */
function writeIds(
  frame: Int32Array,
  at: number,
  { rows, highs, blocks }: SampleRows,
  from: number,
  to: number,
  { first, count }: NonNullable<BagShard["idBlocks"]>,
): number {
  let next = at;
  for (let i = from; i < to; i++) {
    const block = (blocks?.[i] ?? 0) - first;
    if (block < 0 || block >= count) continue;
    frame[next++] = rows[i] ?? 0;
    frame[next++] = highs?.[i] ?? 0;
  }
  return next;
}

/** Copies from each bag the ids of the shard's rows, in order. Returns their number. */
function dealBags(
  frame: Int32Array,
  at: number,
  lengths: Int32Array,
  local: SampleRows,
  { lookup, firstRow, rows, isWeighted, idBlocks }: BagShard,
  { runs }: AxisRows,
): number {
  const { samples, starts } = local;
  const [first, end] = [starts[lookup] ?? 0, starts[lookup + 1] ?? 0];
  const words = idBlocks === undefined ? 1 : 2;
  let next = at;
  let from = first;
  let row = 0;
  for (const run of runs) {
    // Between two runs all bags are empty.
    for (let sample = run.first; sample < run.first + run.count; sample++) {
      const before = next;
      const bagEnd = from + (local.lengths[lookup * samples + sample] ?? 0);
      if (idBlocks !== undefined) next = writeIds(frame, next, local, from, bagEnd, idBlocks);
      else next = writeRows(frame, next, local.rows, from, bagEnd, { firstRow, rows });
      from = bagEnd;
      lengths[row++] = (next - before) / words;
    }
  }
  const count = (next - at) / words;
  if (!isWeighted) return count;
  const bits = bitsOf(local.weights);
  // For dynamic ids, compare the block; for other ids, the row itself.
  const places = idBlocks === undefined ? local.rows : (local.blocks ?? local.rows);
  const [least, has] = idBlocks === undefined ? [firstRow, rows] : [idBlocks.first, idBlocks.count];
  for (from = first; from < end; from++) {
    const place = (places[from] ?? -1) - least;
    if (place >= 0 && place < has) frame[next++] = bits[from] ?? 0;
  }
  return count;
}

/** Copies those rows `from`..`to`-1 that the shard has. Returns their end. */
function writeRows(
  frame: Int32Array,
  at: number,
  all: Int32Array,
  from: number,
  to: number,
  { firstRow, rows }: Pick<BagShard, "firstRow" | "rows">,
): number {
  let next = at;
  for (let i = from; i < to; i++) {
    const row = (all[i] ?? -1) - firstRow;
    if (row >= 0 && row < rows) frame[next++] = row + firstRow;
  }
  return next;
}

/** A received frame, and the samples of its sender. */
export interface BagFrame {
  readonly ints: Int32Array;
  readonly samples: number;
  /** The first sample of each slice of the sender, then the end; needed where there are groups. */
  readonly bounds?: Int32Array | undefined;
}

/**
 * The axes that the bags of a frame run over: samples, then the distinct lists of each group.
 * @throws FrameCorruptError where a slice has more distinct lists than samples
 */
export function axesIn({ ints, samples, bounds }: BagFrame, groups: number): AxisRows[] {
  const axes = [samplesAxis(samples)];
  const slices = (bounds?.length ?? 1) - 1;
  for (let group = 0; group < groups && bounds !== undefined; group++) {
    const first = headerInts + group * slices;
    const counts = ints.subarray(first, first + slices);
    for (let slice = 0; slice < slices; slice++) {
      const most = (bounds[slice + 1] ?? 0) - (bounds[slice] ?? 0);
      const count = counts[slice] ?? -1;
      if (count >= 0 && count <= most) continue;
      throw new FrameCorruptError("ids", `${count} distinct lists in a slice of ${most} samples`);
    }
    axes.push(groupAxis(bounds, counts));
  }
  return axes;
}

/** Grow-only memory for bags, so that a steady step allocates nothing that grows with the batch. */
export class BagMemory {
  #offsets = new Int32Array(0);
  #ids = new Int32Array(0);
  #weights = new Float32Array(0);
  #frame = new Int32Array(0);
  #lengths = new Int32Array(0);

  /** Memory of `bytes` for a frame that one device both writes and gathers. */
  frame(bytes: number): Int32Array {
    const ints = bytes / 4;
    if (this.#frame.length < ints) this.#frame = new Int32Array(ints);
    return this.#frame.subarray(0, ints);
  }

  /**
   * Joins the bags of all senders, in rank order, into bags of the shards, with rows relative to
   * each shard's first row. If any table has weights, all ids have: 1 in the other tables.
   * `finders`: for each shard with dynamic ids, the function that finds rows; ids without a row are
   * left out of their bags. `groups`: groups of deduplicated features. Valid until the next call.
   * @throws FrameCorruptError where lengths and rows disagree, or a row is not the shard's
   */
  gather(
    frames: readonly BagFrame[],
    shards: readonly BagShard[],
    finders: readonly (FindRow | undefined)[] = [],
    groups = 0,
  ): Bags {
    const samples = frames.reduce((sum, frame) => sum + frame.samples, 0);
    const axes = frames.map((frame) => axesIn(frame, groups));
    const atLengths = frames.map(({ bounds }) => {
      return headerInts + groups * ((bounds?.length ?? 1) - 1);
    });
    const atBag = axes.map((own, sender) => {
      return shards.reduce((at, { axis }) => at + axisAt(own, axis).rows, atLengths[sender] ?? 0);
    });
    const count = checkedIds(frames.reduce((sum, one, i) => sum + rowsIn(one, atBag[i] ?? 0), 0));
    const bags = shards.length * samples;
    if (this.#offsets.length < bags + 1) this.#offsets = new Int32Array(bags + 1);
    if (this.#ids.length < count) this.#ids = new Int32Array(count + (count >> 1));
    const offsets = this.#offsets.subarray(0, bags + 1);
    const hasWeights = shards.some(({ isWeighted }) => isWeighted);
    const weights = hasWeights ? this.#weightsOf(count) : undefined;
    const out: Gathered = { offsets, ids: this.#ids, weights, weightBits: bitsOf(weights) };
    let bag = 0;
    let [taken, total] = [0, 0];
    for (const [i, shard] of shards.entries()) {
      for (const [sender, { ints, samples: own }] of frames.entries()) {
        const axis = axisAt(axes[sender] ?? [], shard.axis);
        const at = atLengths[sender] ?? 0;
        const lengths = this.#bySample(ints.subarray(at, at + axis.rows), axis, own);
        atLengths[sender] = at + axis.rows;
        const ids = idsIn(lengths);
        const from = atBag[sender] ?? 0;
        const end = from + ids * idWords(shard);
        taken += ids;
        if (taken > count || end > ints.length) {
          throw new FrameCorruptError("ids", `lengths of ${taken} ids, ${count} ids`);
        }
        const frame = ints.subarray(from, end);
        const find = finders[i];
        total = find
          ? takeIds(out, bag, total, lengths, frame, shard, find)
          : takeRows(out, bag, total, lengths, frame, shard);
        bag += own;
        atBag[sender] = end;
      }
    }
    offsets[bag] = total;
    if (taken !== count) throw new FrameCorruptError("ids", `lengths of ${taken}, ${count} ids`);
    const all = { tables: shards.length, samples, offsets, ids: this.#ids.subarray(0, total) };
    return weights === undefined ? all : { ...all, weights: weights.subarray(0, total) };
  }

  /** Expands the lengths of distinct lists to `samples` bags. Valid until the next call. */
  #bySample(lengths: Int32Array, { rows, runs }: AxisRows, samples: number): Int32Array {
    if (rows === samples) return lengths;
    if (this.#lengths.length < samples) this.#lengths = new Int32Array(samples);
    const all = this.#lengths.subarray(0, samples).fill(0);
    let row = 0;
    for (const { first, count } of runs) {
      all.set(lengths.subarray(row, row + count), first);
      row += count;
    }
    return all;
  }

  #weightsOf(count: number): Float32Array {
    if (this.#weights.length < count) this.#weights = new Float32Array(count + (count >> 1));
    return this.#weights.subarray(0, count);
  }
}

/** The output arrays in which the bags of all senders are joined. */
interface Gathered {
  readonly offsets: Int32Array;
  readonly ids: Int32Array;
  readonly weights: Float32Array | undefined;
  readonly weightBits: Int32Array;
}

/** Number of ids in bags of these lengths. @throws FrameCorruptError */
function idsIn(lengths: Int32Array): number {
  let ids = 0;
  for (let i = 0; i < lengths.length; i++) {
    const length = lengths[i] ?? 0;
    if (length < 0) throw new FrameCorruptError("ids", `a bag of ${length} ids`);
    ids += length;
  }
  return ids;
}

/** Copies rows, relative to the shard, from bag `bag` and id `first` on. Returns their end. */
function takeRows(
  { offsets, ids, weights, weightBits }: Gathered,
  bag: number,
  first: number,
  lengths: Int32Array,
  frame: Int32Array,
  { firstRow, rows, isWeighted }: BagShard,
): number {
  let total = first;
  for (let i = 0; i < lengths.length; i++) {
    offsets[bag + i] = total;
    total += lengths[i] ?? 0;
  }
  const count = total - first;
  for (let i = 0; i < count; i++) {
    const row = (frame[i] ?? -1) - firstRow;
    if (row < 0 || row >= rows) {
      const has = `a shard that has ${firstRow}..${firstRow + rows - 1}`;
      throw new FrameCorruptError("ids", `row ${frame[i]} for ${has}`);
    }
    ids[first + i] = row;
  }
  if (isWeighted) weightBits.set(frame.subarray(count), first);
  else weights?.fill(1, first, total);
  return total;
}

/** `takeRows` for dynamic ids: copies the rows of the ids that have a row. */
function takeIds(
  { offsets, ids, weights, weightBits }: Gathered,
  bag: number,
  first: number,
  lengths: Int32Array,
  frame: Int32Array,
  { isWeighted }: BagShard,
  find: FindRow,
): number {
  const firstWeight = isWeighted ? (2 * frame.length) / 3 : frame.length;
  let total = first;
  let at = 0;
  for (let i = 0; i < lengths.length; i++) {
    offsets[bag + i] = total;
    for (const end = at + (lengths[i] ?? 0); at < end; at++) {
      const row = find(frame[2 * at] ?? 0, frame[2 * at + 1] ?? 0);
      if (row < 0) continue;
      ids[total] = row;
      if (isWeighted) weightBits[total] = frame[firstWeight + at] ?? 0;
      total++;
    }
  }
  if (!isWeighted) weights?.fill(1, first, total);
  return total;
}

/** The same memory as int32 words: floats are copied by their bits. */
function bitsOf(floats: Float32Array = new Float32Array(0)): Int32Array {
  return new Int32Array(floats.buffer, floats.byteOffset, floats.length);
}

/**
 * The number of ids that a frame's header claims; its bags begin at `firstBag`.
 * @throws FrameCorruptError where the frame is too short for the ids
 */
function rowsIn({ ints }: BagFrame, firstBag: number): number {
  const count = ints[1] ?? -1;
  const room = ints.length - firstBag;
  if (count >= 0 && count <= room) return count;
  throw new FrameCorruptError("ids", `${count} ids where there is room for ${room}`);
}
