// Decodes the RLE/bit-packing hybrid, in which Parquet stores levels and dictionary indices. A
// reader keeps its position between calls, so that a run of any length takes no memory.
// https://parquet.apache.org/docs/file-format/data-pages/encodings (RLE = 3)
//
//   run      = header value            header = 2 x length, value in whole bytes
//   packed   = header bits             header = 2 x groups + 1, groups of 8 values of `width` bits

import { CorruptFile } from "../../tables/damage.ts";

/** An encoded hybrid and the position of its reader. */
export interface HybridPlace {
  /** Extends `slackBytes` beyond `end`. */
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly end: number;
  readonly width: number;
  /**
   * Offset of the next byte; values left in the current run; 1 if the run is bit-packed; and the
   * run's value, or the number of consumed bits of the next byte if it is bit-packed.
   */
  readonly state: Float64Array;
}

/**
 * Writes the next `count` values of a hybrid from `out[from]` on. Returns the largest value,
 * unsigned. @throws CorruptFile if there are fewer values
 */
export type ReadHybrid = (
  out: Int32Array,
  from: number,
  count: number,
  place: HybridPlace,
) => number;

/** Reads values of up to 32 bits. */
export class HybridReader {
  readonly #place: HybridPlace;
  readonly #read: ReadHybrid;

  /** `bytes` must extend `slackBytes` beyond `end`. @throws CorruptFile */
  constructor(bytes: Uint8Array, start: number, end: number, width: number, read: ReadHybrid) {
    if (width > 32) throw new CorruptFile(`it has values of ${width} bits, of at most 32`);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#place = { bytes, view, end, width, state: Float64Array.of(start, 0, 0, 0) };
    this.#read = read;
  }

  /** As `ReadHybrid`. @throws CorruptFile */
  read(out: Int32Array, from: number, count: number): number {
    return this.#read(out, from, count, this.#place);
  }

  /**
   * Reads the next `count` values if they belong to one run, and returns its value; otherwise reads
   * nothing and returns undefined. @throws CorruptFile
   */
  readRun(count: number): number | undefined {
    const place = this.#place;
    if (place.width === 0) return 0;
    const { state } = place;
    if (state[1] === 0 && count > 0) begin(place);
    const left = state[1] ?? 0;
    if (state[2] === 1 || left < count) return undefined;
    state[1] = left - count;
    return state[3];
  }
}

/** The reference reader, in TypeScript, which defines the results. */
export const readHybrid: ReadHybrid = (out, from, count, place) => {
  const { width, state } = place;
  if (width === 0) {
    out.fill(0, from, from + count);
    return 0;
  }
  let at = from;
  for (const end = from + count; at < end; ) {
    if (state[1] === 0) begin(place);
    const left = state[1] ?? 0;
    const some = Math.min(left, end - at);
    if (state[2] === 1) unpack(out, at, some, place);
    else out.fill(state[3] ?? 0, at, at + some);
    state[1] = left - some;
    at += some;
  }
  let most = 0;
  for (let i = from; i < at; i++) most = Math.max(most, (out[i] ?? 0) >>> 0);
  return most;
};

function begin({ bytes, end, width, state }: HybridPlace): void {
  let at = state[0] ?? 0;
  let header = 0;
  for (let i = 0; ; i++) {
    if (i === 5) throw hybridFault(runTooLong);
    if (at >= end) throw hybridFault(ends);
    const one = bytes[at++] ?? 0;
    header += (one & 127) * 2 ** (7 * i);
    if (one < 128) break;
  }
  const isPacked = header % 2 === 1;
  let [left, value] = [header / 2, 0];
  if (isPacked) {
    // The last group may be truncated after its last value.
    const stored = Math.floor(((end - at) * 8) / width);
    left = Math.min(8 * Math.floor(header / 2), stored);
  } else {
    const size = Math.ceil(width / 8);
    if (size > end - at) throw hybridFault(ends);
    for (let i = 0; i < size; i++) value |= (bytes[at++] ?? 0) << (8 * i);
  }
  if (left === 0 && at >= end) throw hybridFault(ends);
  state.set([at, left, isPacked ? 1 : 0, value]);
}

function unpack(
  out: Int32Array,
  from: number,
  count: number,
  { view, width, state }: HybridPlace,
): void {
  const mask = width === 32 ? -1 : (1 << width) - 1;
  let [at, bit] = [state[0] ?? 0, state[3] ?? 0];
  if (width <= 25) {
    for (let i = from; i < from + count; i++) {
      out[i] = (view.getUint32(at, true) >>> bit) & mask;
      bit += width;
      at += bit >> 3;
      bit &= 7;
    }
  } else {
    for (let i = from; i < from + count; i++) {
      out[i] = bitsAt(view, at, bit) & mask;
      bit += width;
      at += bit >> 3;
      bit &= 7;
    }
  }
  // A bit-packed run ends at a byte boundary.
  state[0] = state[1] === count && bit > 0 ? at + 1 : at;
  state[3] = bit;
}

/** The 32 bits that start at bit `bit` (0 to 7) of byte `at`. */
export function bitsAt(view: DataView, at: number, bit: number): number {
  const low = view.getUint32(at, true) >>> bit;
  return bit === 0 ? low | 0 : low | (view.getUint8(at + 4) << (32 - bit));
}

/** Fault codes of the addon's reader, equal to those in native/ingest/pages.h. */
const [ends, runTooLong] = [-1, -2];

export function hybridFault(fault: number): CorruptFile {
  return new CorruptFile(
    fault === runTooLong
      ? "a run of levels or places has a length of more than five bytes"
      : "a page has fewer levels or places than it says",
  );
}
