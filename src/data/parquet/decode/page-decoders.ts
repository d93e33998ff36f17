// What the bytes of pages are decoded with. The addon decodes faster (native/ingest/pages.h), and
// the same.

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../../ports/addon.ts";
import { hybridFault, type ReadHybrid, readHybrid } from "./hybrid.ts";
import { unpackSnappy } from "./snappy.ts";

export interface PageDecoders {
  readonly readHybrid: ReadHybrid;
  /** out[at + i] = values[places[i]], of `count` places, each of which is a place in `values`. */
  takeNumbers(
    out: Float64Array,
    at: number,
    values: Float64Array,
    places: Int32Array,
    count: number,
  ): void;
  /** The same of pairs. */
  takePairs(
    out: Int32Array,
    at: number,
    values: Int32Array,
    places: Int32Array,
    count: number,
  ): void;
  /**
   * Sets the offsets of rows that begin among levels `at` until `end`, all of which have a value,
   * until the row behind the last of `rows`; `row` of them have begun before, and `values` values.
   * Returns the rows so far, and the level where it ends.
   */
  markRows(
    offsets: Int32Array,
    row: number,
    rows: number,
    values: number,
    levels: { readonly repetition: Int32Array; readonly at: number; readonly end: number },
  ): { readonly row: number; readonly at: number };
  /** Unpacks to all of `body`. @throws Damage where the bytes unpack to others */
  unpackSnappy(body: Uint8Array, packed: Uint8Array): void;
}

/** The decoders that define what is decoded. */
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

/** The fastest decoders that there are: the addon's, where it is built. */
export function pageDecoders(addon: Addon | undefined = loadAddon()): PageDecoders {
  if (addon === undefined) return plainDecoders;
  const { readHybrid: read, markRows, takeNumbers, takePairs, unpackSnappy: unpack } = addon;
  // The addon checks types alone: with a wrong length it would touch other memory.
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
      // What is wrong, if it is, the other reader says.
      if (unpack(body, packed) !== 1) unpackSnappy(body, packed);
    },
  };
}
