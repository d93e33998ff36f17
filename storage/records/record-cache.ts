// The DDR tier: records in host memory over a store below, a set-associative cache like that of
// device memory, with write-back. Rows that go down from the device stay here until they have to
// make room; what the disk is asked for is what neither tier has.
//
// Invariants
//   D1. A record that differs from what lies below is dirty, and goes down before its place is
//       given away. So the store and what is dirty here are all records.
//   D2. Nothing is pinned between two calls.

import type { CacheKernels } from "../../src/kernels/row-cache.ts";
import { createPlacedMemory, createRowCache, type RowCache } from "../../src/kernels/row-cache.ts";
import type { RecordKernels } from "../../src/kernels/records.ts";
import { type CacheShape, cacheShapesOf } from "../../src/embedding/tiers.ts";
import type { RecordShard, RecordStats, RecordStore } from "./record-store.ts";

/** Rows that are placed at a time: as many spare places are needed at most. */
const chunkRows = 4096;

/** What a place holds. */
const absent = 0;
const clean = 1;
const dirty = 2;

/** What the cache was asked for. */
export interface RecordCacheStats extends RecordStats {
  /** Records that were asked for, and those that were here. */
  readonly asked: number;
  readonly hits: number;
}

/** A store whose records rest in memory as far as there is room. */
export interface RecordCache extends RecordStore {
  stats(): RecordCacheStats;
}

interface CachedRecords {
  readonly at: number;
  readonly shard: RecordShard;
  readonly cache: RowCache;
  /** (P * recordBytes) */
  readonly records: Uint8Array;
  /** (P): absent, clean or dirty; absent means that the store below has none either. */
  readonly held: Uint8Array;
}

/**
 * Records of `below` in at most `bytes` of memory, shared out by how many rows of a shard a request
 * moves (`rowsMax`).
 */
export function createRecordCache(options: {
  readonly below: RecordStore;
  readonly shards: readonly (RecordShard & { readonly rowsMax: number })[];
  readonly bytes: number;
  readonly policy: CacheShape["policy"];
  readonly kernels: CacheKernels & Pick<RecordKernels, "moveRecords">;
}): RecordCache {
  const { below, bytes, policy, kernels } = options;
  const demands = options.shards.map((shard) => {
    return { shard, placeBytes: shard.recordBytes + placeBytes, lookupsMax: shard.rowsMax };
  });
  const shapes = cacheShapesOf(demands, { hbmBytes: bytes, policy, prefetch: 0 });
  const shards = options.shards.map((shard, at): CachedRecords => {
    const { sets = 1 } = shapes[at] ?? {};
    const spares = Math.min(chunkRows, shard.rows);
    const cache = createRowCache({ policy, sets, spares, rows: shard.rows });
    const places = cache.rowOf.length;
    const records = new Uint8Array(places * shard.recordBytes);
    return { at, shard, cache, records, held: new Uint8Array(places) };
  });
  const memory = createPlacedMemory();
  const places = new Int32Array(chunkRows);
  let tick = 0;
  const counts = { asked: 0, hits: 0 };
  const ofShard = (at: number): CachedRecords => {
    const found = shards[at];
    if (found === undefined) throw new RangeError(`The cache has no shard ${at}`);
    return found;
  };

  /** Gives the rows places; those that make room go down. Returns the places, and the missing. */
  const placed = (own: CachedRecords, rows: Int32Array) => {
    const at = places.subarray(0, rows.length);
    const { missed, missedRows, evicted, evictedRows, placed: pinned } = kernels.placeRows(
      own.cache,
      at,
      rows,
      ++tick,
      memory,
    );
    sendDown(own, evicted, evictedRows);
    for (const place of missed) own.held[place] = absent;
    return { at, missed, missedRows, pinned };
  };

  /** Writes those of the places that are dirty into the store below. D1 */
  const sendDown = (own: CachedRecords, from: Int32Array, rowOf: Int32Array): void => {
    const leaving = [...from.keys()].filter((i) => own.held[from[i] ?? 0] === dirty);
    if (leaving.length === 0) return;
    leaving.sort((a, b) => (rowOf[a] ?? 0) - (rowOf[b] ?? 0));
    const rows = Int32Array.from(leaving, (i) => rowOf[i] ?? 0);
    const at = Int32Array.from(leaving, (i) => from[i] ?? 0);
    const { recordBytes } = own.shard;
    const records = new Uint8Array(rows.length * recordBytes);
    kernels.moveRecords(records, undefined, own.records, at, rows.length, recordBytes);
    below.write(own.at, rows, records);
    for (const place of at) own.held[place] = clean;
  };

  const release = (own: CachedRecords, pinned: Int32Array): void => {
    const spares = kernels.releaseRows(own.cache, pinned).slice(); // D2
    sendDown(own, spares, spares.map((place) => own.cache.rowOf[place] ?? 0));
    kernels.freeSpares(own.cache, spares);
  };

  /** Brings the missing rows, which are ascending or not, from the store below. */
  const fetch = (own: CachedRecords, missed: Int32Array, missedRows: Int32Array): void => {
    if (missed.length === 0) return;
    const order = [...missedRows.keys()].sort((a, b) => {
      return (missedRows[a] ?? 0) - (missedRows[b] ?? 0);
    });
    const { recordBytes } = own.shard;
    const rows = Int32Array.from(order, (i) => missedRows[i] ?? 0);
    const records = new Uint8Array(rows.length * recordBytes);
    const found = new Uint8Array(rows.length);
    below.read(own.at, rows, records, found);
    const to = Int32Array.from(order, (i) => missed[i] ?? 0);
    kernels.moveRecords(own.records, to, records, undefined, rows.length, recordBytes);
    for (const [i, place] of to.entries()) own.held[place] = found[i] === 1 ? clean : absent;
  };

  /** All that is dirty goes down. */
  const flush = (own: CachedRecords): void => {
    const { rowOf } = own.cache;
    const at = Int32Array.from([...own.held.keys()].filter((place) => own.held[place] === dirty));
    sendDown(own, at, at.map((place) => rowOf[place] ?? 0));
  };

  const inChunks = (own: CachedRecords, rows: Int32Array, body: (part: Part) => void): void => {
    const { recordBytes } = own.shard;
    for (let first = 0; first < rows.length; first += chunkRows) {
      const end = Math.min(rows.length, first + chunkRows);
      body({ first, rows: rows.subarray(first, end), bytes: [first, end].map((i) => i * recordBytes) });
    }
  };

  return {
    get stamp() {
      return below.stamp;
    },
    read(at, rows, records, found) {
      const own = ofShard(at);
      inChunks(own, rows, ({ first, rows: some, bytes: [from, to] }) => {
        const { at: places, missed, missedRows, pinned } = placed(own, some);
        fetch(own, missed, missedRows);
        const { recordBytes } = own.shard;
        const out = records.subarray(from, to);
        kernels.moveRecords(out, undefined, own.records, places, some.length, recordBytes);
        for (const [i, place] of places.entries()) {
          found[first + i] = own.held[place] === absent ? 0 : 1;
        }
        counts.asked += some.length;
        counts.hits += some.length - missed.length;
        release(own, pinned);
      });
    },
    write(at, rows, records) {
      const own = ofShard(at);
      inChunks(own, rows, ({ rows: some, bytes: [from, to] }) => {
        const { at: places, pinned } = placed(own, some);
        const { recordBytes } = own.shard;
        const given = records.subarray(from, to);
        kernels.moveRecords(own.records, places, given, undefined, some.length, recordBytes);
        for (const place of places) own.held[place] = dirty;
        release(own, pinned);
      });
    },
    count(at) {
      flush(ofShard(at));
      return below.count(at);
    },
    scan(at, rowsMax) {
      flush(ofShard(at));
      return below.scan(at, rowsMax);
    },
    sync(stamp) {
      for (const own of shards) flush(own);
      below.sync(stamp);
    },
    stats: () => ({ ...below.stats(), ...counts }),
    close: () => below.close(),
  };
}

/** Bytes of a place beside its record: its row, when it was asked for, its pins, what it holds. */
const placeBytes = 10;

/** Some of the rows of a call. */
interface Part {
  readonly first: number;
  readonly rows: Int32Array;
  /** Where their records begin and end. */
  readonly bytes: readonly number[];
}
