// The addon's kernels of a cache's index and of records, with the contract's signatures.

import type { Addon } from "../../ports/addon.ts";
import type { CacheKernels, RecordKernels } from "../contract/kernels.ts";
import {
  createPlacedMemory,
  createRowCache,
  freeSpares,
  growPlaced,
  noSpareLeft,
  placedOf,
  releaseRows,
} from "../contract/row-cache.ts";
import { aligned, listTables } from "./tables.ts";

/** The kernels of a cache's index. */
export function cache(addon: Addon): CacheKernels {
  const found = new Int32Array(5);
  const allocate = (bytes: number): Float32Array => {
    const memory = aligned(addon, Math.ceil(bytes / 4));
    addon.useLargePages!(memory);
    return memory;
  };
  return {
    rowCache: (spec) => createRowCache(spec, allocate),
    placeRows(cache, places, ids, tick, memory = createPlacedMemory()) {
      growPlaced(memory, cache, ids.length);
      const { rowOf, stamps, pins, counts, spareTable, spareFree, head, sets } = cache;
      const index = [rowOf, stamps, pins, counts, spareTable, spareFree, head, sets];
      const failed = addon.placeRows!(...index, places, ids, tick, memory.words, found);
      if (failed !== 0) throw noSpareLeft(cache);
      return placedOf(memory, ids.length, found);
    },
    releaseRows,
    freeSpares,
  };
}

/** The kernels of records. */
export function records(addon: Addon): RecordKernels {
  return {
    gatherRecords: (out, rows, places) =>
      void addon.gatherRecords!(out, ...listTables([rows]), places),
    scatterRecords: (rows, places, from, at) =>
      void addon.scatterRecords!(...listTables([rows]), places, from, at),
    bornAt(rows, places, ids, key, purpose, scale, initialState) {
      const numbers = [key[0], key[1], purpose, scale, initialState];
      addon.bornAt!(...listTables([rows]), places, ids, ...numbers);
    },
    moveRecords: (to, toAt, from, fromAt, count, bytes) =>
      void addon.moveRecords!(to, toAt, from, fromAt, count, bytes),
  };
}
