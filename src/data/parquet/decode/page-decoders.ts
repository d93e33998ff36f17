// Low-level decoders of pages. The addon decodes identically and faster (native/ingest/pages.h).

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../../ports/addon.ts";
import { hybridFault, type ReadHybrid, readHybrid } from "./hybrid.ts";
import { unpackSnappy } from "./snappy.ts";

export interface PageDecoders {
  readonly readHybrid: ReadHybrid;
  /** Gathers: out[at + i] = values[places[i]] for `count` places, all within `values`. */
  takeNumbers(
    out: Float64Array,
    at: number,
    values: Float64Array,
    places: Int32Array,
    count: number,
  ): void;
  /** Gathers pairs, as `takeNumbers`. */
  takePairs(
    out: Int32Array,
    at: number,
    values: Int32Array,
    places: Int32Array,
    count: number,
  ): void;
  /**
   * Sets the offsets of rows that begin among the levels `at` until `end`, all of which have a
   * value, and stops at the row after the last of `rows`. `row` rows and `values` values precede
   * them. Returns the number of rows so far, and the level at which it stopped.
   */
  markRows(
    offsets: Int32Array,
    row: number,
    rows: number,
    values: number,
    levels: { readonly repetition: Int32Array; readonly at: number; readonly end: number },
  ): { readonly row: number; readonly at: number };
  /** Decompresses into `body`. @throws CorruptFile if the bytes do not fill it exactly */
  unpackSnappy(body: Uint8Array, packed: Uint8Array): void;
}

/** The reference decoders, in TypeScript, which define the results. */
export const plainDecoders: PageDecoders = {
  readHybrid,
  takeNumbers(out, at, values, places, count) {
    for (let i = 0; i < count; i++) out[at + i] = values[places[i] ?? 0] ?? 0;
  },
  takePairs(out, at, values, places, count) {
    for (let i = 0; i < count; i++) {
      const place = 2 * (places[i] ?? 0);
      out[2 * (at + i)] = values[place] ?? 0;
      out[2 * (at + i) + 1] = values[place + 1] ?? 0;
    }
  },
  markRows(offsets, first, rows, values, { repetition, at: start, end }) {
    let [row, at] = [first, start];
    for (; at < end; at++) {
      if (repetition[at] !== 0) continue;
      if (row === rows) break;
      offsets[row++] = values + at - start;
    }
    return { row, at };
  },
  unpackSnappy,
};

/** The fastest available decoders: the addon's if it is built, otherwise `plainDecoders`. */
export function pageDecoders(addon: Addon | undefined = loadAddon()): PageDecoders {
  if (addon === undefined) return plainDecoders;
  const { readHybrid: read, markRows, takeNumbers, takePairs, unpackSnappy: unpack } = addon;
  // The addon checks array types only: a wrong length would make it touch memory outside them.
  return {
    readHybrid(out, from, count, { bytes, end, width, state }) {
      assert(from + count <= out.length && end <= bytes.length, "room for the values");
      const most = Number(read(out, from, count, bytes, end, width, state));
      if (most < 0) throw hybridFault(most);
      return most;
    },
    markRows(offsets, row, rows, values, { repetition, at, end }) {
      assert(rows <= offsets.length && end <= repetition.length && end < 8192, "room for rows");
      const found = Number(markRows(offsets, row, rows, values, repetition, at, end));
      return { row: Math.floor(found / 8192), at: found % 8192 };
    },
    takeNumbers(out, at, values, places, count) {
      assert(at + count <= out.length && count <= places.length, "room for the numbers");
      takeNumbers(out, at, values, places, count);
    },
    takePairs(out, at, values, places, count) {
      assert(2 * (at + count) <= out.length && count <= places.length, "room for the pairs");
      takePairs(out, at, values, places, count);
    },
    unpackSnappy(body, packed) {
      // On failure, the TypeScript decoder reports the fault in detail.
      if (unpack(body, packed) !== 1) unpackSnappy(body, packed);
    },
  };
}
