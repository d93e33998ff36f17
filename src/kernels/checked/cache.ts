// Argument checks of the kernels of a cache's index and of records, for checked.ts. Slots are
// checked one by one, because a wrong slot would silently access another row, and the check costs
// little compared with moving the row.

import assert from "node:assert/strict";
import type { CacheKernels, Kernels, RecordKernels } from "../contract/kernels.ts";
import { recordBytesOf } from "../contract/records.ts";
import { cacheWays } from "../contract/row-cache.ts";
import { type Rows, rowsMax } from "../contract/tables.ts";

/** The kernels of a cache's index, with checked arguments. */
export function checkCache(inner: Kernels): CacheKernels {
  return {
    rowCache(spec) {
      const { sets, spares, rows } = spec;
      const places = sets * cacheWays + spares;
      const isWhole = [sets, spares, rows].every(Number.isInteger) && sets >= 1 && spares >= 0;
      assert(isWhole && places <= rowsMax, `Expected 1 to ${rowsMax} places, got ${places}`);
      return inner.rowCache(spec);
    },
    placeRows(cache, places, ids, tick, memory) {
      assert.equal(places.length, ids.length, "Expected a place for every id");
      const last = cache.head[1] ?? 0;
      const isNext = Number.isInteger(tick) && tick > last && tick < 2 ** 31;
      assert(isNext, `Expected a tick above ${last} and below 2^31, got ${tick}`);
      return inner.placeRows(cache, places, ids, tick, memory);
    },
    releaseRows(cache, placed) {
      for (const place of placed) {
        if (cache.pins[place]! > 0) continue;
        assert.fail(`Expected a place with pins, got ${place}`);
      }
      return inner.releaseRows(cache, placed);
    },
    freeSpares: (cache, places) => inner.freeSpares(cache, places),
  };
}

/** The kernels of records, with checked arguments. */
export function checkRecords(inner: Kernels): RecordKernels & Pick<Kernels, "born"> {
  return {
    born(rows, key, purpose, scale) {
      assert(rows.names === undefined, "Expected `bornAt` for the places of a cache");
      inner.born(rows, key, purpose, scale);
    },
    gatherRecords(out, rows, places) {
      areWithin("places", places, rows.rows);
      assert.equal(out.byteLength, places.length * bytesOf(rows), "Expected room for each record");
      aligned("out", out);
      inner.gatherRecords(out, rows, places);
    },
    scatterRecords(rows, places, records, at) {
      areWithin("places", places, rows.rows);
      aligned("records", records);
      areRecords(at, places.length, records, bytesOf(rows));
      inner.scatterRecords(rows, places, records, at);
    },
    bornAt(rows, places, ids, key, purpose, scale, initialState) {
      areWithin("places", places, rows.rows);
      assert.equal(ids.length, places.length, "Expected a row for every place");
      inner.bornAt(rows, places, ids, key, purpose, scale, initialState);
    },
    moveRecords(to, toAt, from, fromAt, count, bytes) {
      areRecords(toAt, count, to, bytes);
      areRecords(fromAt, count, from, bytes);
      inner.moveRecords(to, toAt, from, fromAt, count, bytes);
    },
  };
}

function bytesOf(rows: Rows): number {
  return recordBytesOf(rows, rows.state.shape[1] ?? 0);
}

function aligned(name: string, bytes: Uint8Array): void {
  if (bytes.byteOffset % 4 === 0) return;
  assert.fail(`Expected ${name} to begin at a multiple of 4 bytes, got ${bytes.byteOffset}`);
}

/** Asserts that `records` has the records at the indices `at`, or, if undefined, 0..count-1. */
function areRecords(
  at: Int32Array | undefined,
  count: number,
  records: Uint8Array,
  bytes: number,
): void {
  const held = bytes > 0 ? Math.floor(records.byteLength / bytes) : 0;
  if (at === undefined) {
    assert(count <= held, `Expected ${count} records, got ${held}`);
  } else {
    assert.equal(at.length, count, "Expected a record for every row");
    areWithin("records", at, held);
  }
}

function areWithin(name: string, values: Int32Array, end: number): void {
  for (const value of values) {
    if (value >= 0 && value < end) continue;
    assert.fail(`Expected ${name} within 0..${end - 1}, got ${value}`);
  }
}
