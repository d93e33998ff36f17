// Frames of ids: what travels from the device that has the samples to the device that has the rows,
// and the bags that the rows' device makes of what arrives. Ids are checked here, once, because
// beyond this point an id is an address.
//
//   int32: [stopAfter, ids, lengths (T*b, table-major), bags (table-major)]
//   bags of a table: its ids; then, where they have 64 bits, their upper halves; then, where they
//   have weights, those as float32
//
// T = tables of the receiver, b = samples of the sender, B = samples of the batch.

import assert from "node:assert/strict";
import { mix32, mix64Modulo } from "../data/murmur-hash.ts";
import { FrameCorruptError, IdOutOfRangeError } from "../errors.ts";
import type { Bags } from "../kernels/kernels.ts";
import type { TableSpec } from "./options.ts";

const headerInts = 2;

/** The ids that one device has: all features, for its own samples. */
export interface LocalIds {
  readonly samples: number;
  /** (features, b) */
  readonly lengths: Int32Array;
  /** Feature-major. */
  readonly ids: Int32Array;
  /** (N): upper halves; there where a feature is wide, and read only of such. */
  readonly highs?: Int32Array | undefined;
  /** (N): must be there where a feature has weights; those of the other features are not read. */
  readonly weights?: Float32Array | undefined;
}

/** Words that the bag of a table takes in a frame, of `ids` ids. */
export function bagWords(
  ids: number,
  { idBits, isWeighted }: Pick<BagTable, "idBits" | "isWeighted">,
): number {
  return ids * (idBits / 32 + (isWeighted === true ? 1 : 0));
}

/** Bytes of the largest frame: every bag as long as the longest, in `bagWords` of each table. */
export function idFrameBytes(samples: number, wordsMax: readonly number[]): number {
  const wordsPerSample = wordsMax.reduce((sum, most) => sum + most, 0);
  return 4 * (headerInts + samples * (wordsMax.length + wordsPerSample));
}

/** Writes the frame with the bags of `tables` into `frame`. */
export function writeIdFrame(
  frame: Int32Array,
  local: LocalIds,
  tables: readonly Pick<BagTable, "feature" | "idBits" | "isWeighted">[],
  starts: Int32Array,
  stopAfter: number,
): void {
  const { samples, lengths, ids, highs } = local;
  const weights = bitsOf(local.weights);
  let atLength = headerInts;
  let at = headerInts + tables.length * samples;
  let count = 0;
  for (const { feature, idBits, isWeighted } of tables) {
    frame.set(lengths.subarray(feature * samples, (feature + 1) * samples), atLength);
    atLength += samples;
    const from = starts[feature] ?? 0;
    const to = starts[feature + 1] ?? from;
    frame.set(ids.subarray(from, to), at);
    at += to - from;
    count += to - from;
    if (idBits === 64) {
      assert(highs !== undefined, "upper halves for a wide feature");
      frame.set(highs.subarray(from, to), at);
      at += to - from;
    }
    if (isWeighted !== true) continue;
    assert(local.weights !== undefined, "weights for a feature that has some");
    frame.set(weights.subarray(from, to), at);
    at += to - from;
  }
  frame[0] = stopAfter;
  frame[1] = count;
}

/** (features + 1): where the ids of each feature begin in a device's own batch. */
export function featureStarts(local: LocalIds, features: number): Int32Array {
  const starts = new Int32Array(features + 1);
  let total = 0;
  for (let feature = 0; feature < features; feature++) {
    starts[feature] = total;
    const end = (feature + 1) * local.samples;
    for (let i = feature * local.samples; i < end; i++) total += local.lengths[i] ?? 0;
  }
  starts[features] = total;
  return starts;
}

/** One frame as it arrived, and how many samples its sender has. */
export interface IdFrame {
  readonly ints: Int32Array;
  readonly samples: number;
}

/** What `gather` has to know of a table. */
export interface BagTable extends Pick<TableSpec, "name" | "rows" | "ids" | "idBits"> {
  /** Index of the table, and so of its feature, in the job. */
  readonly feature: number;
  /** Whether its ids come with weights; left out, they do not. */
  readonly isWeighted?: boolean;
}

/** Grow-only memory for bags, so that a steady step allocates nothing that grows with the batch. */
export class BagMemory {
  #offsets = new Int32Array(0);
  #ids = new Int32Array(0);
  #weights = new Float32Array(0);
  #frame = new Int32Array(0);
  readonly #repaired = new Map<string, number>();

  /** How many ids of each table were clamped or hashed so far; tables without any are not in it. */
  get repaired(): ReadonlyMap<string, number> {
    return this.#repaired;
  }

  /** Room for a frame that is gathered where it was written. */
  frame(samples: number, wordsMax: readonly number[]): Int32Array {
    const ints = idFrameBytes(samples, wordsMax) / 4;
    if (this.#frame.length < ints) this.#frame = new Int32Array(ints);
    return this.#frame.subarray(0, ints);
  }

  /**
   * The bags of the tables, samples of all senders in rank order; the first of them is sample
   * `firstSample` of the batch. They have weights where a table has: 1 in the other tables. Valid
   * until the next call.
   * @throws IdOutOfRangeError naming table, feature and sample
   * @throws FrameCorruptError where lengths and ids disagree
   */
  gather(frames: readonly IdFrame[], tables: readonly BagTable[], firstSample = 0): Bags {
    const samples = frames.reduce((sum, frame) => sum + frame.samples, 0);
    const count = frames.reduce((sum, frame) => sum + idsIn(frame, tables.length), 0);
    const bags = tables.length * samples;
    if (this.#offsets.length < bags + 1) this.#offsets = new Int32Array(bags + 1);
    if (this.#ids.length < count) this.#ids = new Int32Array(count + (count >> 1));
    const offsets = this.#offsets.subarray(0, bags + 1);
    const ids = this.#ids.subarray(0, count);
    const weights = tables.some(({ isWeighted }) => isWeighted)
      ? this.#weightsOf(count)
      : undefined;
    const weightBits = bitsOf(weights);
    const atBag = frames.map((frame) => headerInts + tables.length * frame.samples);
    let bag = 0;
    let total = 0;
    for (const [table, spec] of tables.entries()) {
      for (const [sender, frame] of frames.entries()) {
        const first = total;
        for (let i = 0; i < frame.samples; i++) {
          offsets[bag++] = total;
          const length = frame.ints[headerInts + table * frame.samples + i] ?? 0;
          if (length < 0) throw new FrameCorruptError("ids", `a bag of ${length} ids`);
          total += length;
        }
        const from = atBag[sender] ?? 0;
        const length = total - first;
        const end = from + bagWords(length, spec);
        if (total > count || end > frame.ints.length) {
          throw new FrameCorruptError("ids", `lengths of ${total} ids, ${count} ids`);
        }
        ids.set(frame.ints.subarray(from, from + length), first);
        const highs = spec.idBits === 64 ? frame.ints.subarray(from + length, end) : undefined;
        if (spec.isWeighted === true) weightBits.set(frame.ints.subarray(end - length, end), first);
        else weights?.fill(1, first, total);
        atBag[sender] = end;
        const repaired = repairIds(ids, first, total, highs, spec, (id, at) => {
          const sample = bagOf(offsets, bag, at) - table * samples + firstSample;
          return new IdOutOfRangeError({ ...spec, table: spec.name, sample, id });
        });
        if (repaired > 0) {
          this.#repaired.set(spec.name, (this.#repaired.get(spec.name) ?? 0) + repaired);
        }
      }
    }
    offsets[bag] = total;
    if (total !== count) throw new FrameCorruptError("ids", `lengths of ${total}, ${count} ids`);
    const bagsOfAll = { tables: tables.length, samples, offsets, ids };
    return weights === undefined ? bagsOfAll : { ...bagsOfAll, weights };
  }

  #weightsOf(count: number): Float32Array {
    if (this.#weights.length < count) this.#weights = new Float32Array(count + (count >> 1));
    return this.#weights.subarray(0, count);
  }
}

/** The same memory as whole words: floats are copied by their bits. */
function bitsOf(floats: Float32Array = new Float32Array(0)): Int32Array {
  return new Int32Array(floats.buffer, floats.byteOffset, floats.length);
}

/**
 * How many ids a frame says that it holds. @throws FrameCorruptError where it has no room for them
 */
function idsIn({ ints, samples }: IdFrame, tables: number): number {
  const count = ints[1] ?? -1;
  const room = ints.length - headerInts - tables * samples;
  if (count >= 0 && count <= room) return count;
  throw new FrameCorruptError("ids", `${count} ids where there is room for ${room}`);
}

/**
 * Makes rows of ids first..end-1: applies the table's policy to those that it does not have, and
 * returns how many. `highs` are the upper halves of ids of 64 bits, from the first on.
 */
function repairIds(
  ids: Int32Array,
  first: number,
  end: number,
  highs: Int32Array | undefined,
  { rows, ids: policy }: BagTable,
  refusal: (id: number | bigint, at: number) => IdOutOfRangeError,
): number {
  let repaired = 0;
  for (let i = first; i < end; i++) {
    const id = ids[i] ?? -1;
    if (id >= 0 && id < rows && (highs === undefined || highs[i - first] === 0)) continue;
    const high = highs === undefined ? id >> 31 : (highs[i - first] ?? -1);
    if (policy === "reject") throw refusal(highs === undefined ? id : wholeId(id, high), i);
    if (policy === "clamp") ids[i] = high < 0 ? 0 : rows - 1;
    else ids[i] = highs === undefined ? mix32(id) % rows : mix64Modulo(id, high, rows);
    repaired++;
  }
  return repaired;
}

/** An id of 64 bits from its halves. */
function wholeId(low: number, high: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low >>> 0);
}

/** The bag among the first `count` that holds position `at` of the ids. */
function bagOf(offsets: Int32Array, count: number, at: number): number {
  let bag = count - 1;
  while (bag > 0 && (offsets[bag] ?? 0) > at) bag--;
  return bag;
}
