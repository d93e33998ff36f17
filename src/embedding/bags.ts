// Frames of ids: what travels from the device that has the samples to the device that has the rows,
// and the bags that the rows' device makes of what arrives. Ids are checked here, once, because
// beyond this point an id is an address.
//
//   int32: [stopAfter, ids, lengths (T*b, table-major), ids (table-major)]
//
// T = tables of the receiver, b = samples of the sender, B = samples of the batch.

import { FrameCorruptError, IdOutOfRangeError } from "../errors.ts";
import type { Bags } from "../kernels/kernels.ts";

const headerInts = 2;

/** The ids that one device has: all features, for its own samples. */
export interface LocalIds {
  readonly samples: number;
  /** (features, b) */
  readonly lengths: Int32Array;
  /** Feature-major. */
  readonly ids: Int32Array;
}

/** Bytes of the largest frame: every bag as long as the longest. */
export function idFrameBytes(samples: number, idsMax: readonly number[]): number {
  const idsPerSample = idsMax.reduce((sum, most) => sum + most, 0);
  return 4 * (headerInts + samples * (idsMax.length + idsPerSample));
}

/** Writes the frame with the bags of `features` into `frame`. */
export function writeIdFrame(
  frame: Int32Array,
  local: LocalIds,
  features: readonly number[],
  starts: Int32Array,
  stopAfter: number,
): void {
  const { samples, lengths, ids } = local;
  let atLength = headerInts;
  let atId = headerInts + features.length * samples;
  const firstId = atId;
  for (const feature of features) {
    frame.set(lengths.subarray(feature * samples, (feature + 1) * samples), atLength);
    atLength += samples;
    const from = starts[feature] ?? 0;
    const to = starts[feature + 1] ?? from;
    frame.set(ids.subarray(from, to), atId);
    atId += to - from;
  }
  frame[0] = stopAfter;
  frame[1] = atId - firstId;
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

/** Grow-only memory for bags, so that a steady step allocates nothing that grows with the batch. */
export class BagMemory {
  #offsets = new Int32Array(0);
  #ids = new Int32Array(0);
  #frame = new Int32Array(0);

  /** Room for a frame that is gathered where it was written. */
  frame(samples: number, idsMax: readonly number[]): Int32Array {
    const ints = idFrameBytes(samples, idsMax) / 4;
    if (this.#frame.length < ints) this.#frame = new Int32Array(ints);
    return this.#frame.subarray(0, ints);
  }

  /**
   * The bags of the tables, samples of all senders in rank order. Valid until the next call.
   * @throws IdOutOfRangeError naming table and sample
   * @throws FrameCorruptError where lengths and ids disagree
   */
  gather(frames: readonly IdFrame[], tables: readonly { name: string; rows: number }[]): Bags {
    const samples = frames.reduce((sum, frame) => sum + frame.samples, 0);
    const count = frames.reduce((sum, frame) => sum + idsIn(frame, tables.length), 0);
    const bags = tables.length * samples;
    if (this.#offsets.length < bags + 1) this.#offsets = new Int32Array(bags + 1);
    if (this.#ids.length < count) this.#ids = new Int32Array(count + (count >> 1));
    const offsets = this.#offsets.subarray(0, bags + 1);
    const ids = this.#ids.subarray(0, count);
    const atId = frames.map((frame) => headerInts + tables.length * frame.samples);
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
        const from = atId[sender] ?? 0;
        const end = from + total - first;
        if (total > count || end > frame.ints.length) {
          throw new FrameCorruptError("ids", `lengths of ${total} ids, ${count} ids`);
        }
        ids.set(frame.ints.subarray(from, end), first);
        atId[sender] = end;
        checkIds(ids, first, total, spec, offsets, table * samples, bag);
      }
    }
    offsets[bag] = total;
    if (total !== count) throw new FrameCorruptError("ids", `lengths of ${total}, ${count} ids`);
    return { tables: tables.length, samples, offsets, ids };
  }
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

/** `bagStart` = the table's first bag, `bagEnd` = the bag after the last that was filled. */
function checkIds(
  ids: Int32Array,
  first: number,
  end: number,
  spec: { name: string; rows: number },
  offsets: Int32Array,
  bagStart: number,
  bagEnd: number,
): void {
  const { rows } = spec;
  for (let i = first; i < end; i++) {
    const id = ids[i] ?? -1;
    if (id >= 0 && id < rows) continue;
    let bag = bagEnd - 1;
    while (bag > bagStart && (offsets[bag] ?? 0) > i) bag--;
    const sample = bag - bagStart;
    throw new IdOutOfRangeError({ table: spec.name, sample, id, rows });
  }
}
