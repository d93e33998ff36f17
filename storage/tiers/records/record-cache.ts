// The DDR tier: a write-back cache of records in host memory over a backing store, set-associative
// like the cache in device memory. Rows that a device evicts stay in it until this cache evicts
// them too; the disk is read only for rows that neither cache has.
//
// Invariants
//   D1. A record that differs from the backing store is dirty, and is written back before its slot
//       is reused: the backing store and the dirty slots together hold all records.
//   D2. No slot stays pinned between two calls.

import {
  type CacheShape,
  cacheShapesOf,
  indexBytes,
} from "../../../src/embedding/rows/cache-sizes.ts";
import type { RecordKernels } from "../../../src/kernels/contract/records.ts";
import {
  type CacheKernels,
  cacheWays,
  createPlacedMemory,
  createRowCache,
  findPlace,
  type PlacedMemory,
  type RowCache,
} from "../../../src/kernels/contract/row-cache.ts";
import {
  ascending,
  checkBatch,
  elementsAt,
  type RecordShard,
  type RecordStats,
  type RecordStore,
} from "./record-store.ts";

/** Rows placed at a time, which bounds the spare slots needed. */
const chunkRows = 4096;

/** States of a slot. `absent`: the backing store has no record of the row either. */
const absent = 0;
const clean = 1;
const dirty = 2;

type Kernels = CacheKernels & Pick<RecordKernels, "moveRecords">;

/** A record store that caches records in memory. */
export interface RecordCache extends RecordStore {
  stats(): RecordCacheStats;
  /** Rows read that were in memory, so far. */
  hits(): number;
  /** Statistics of shard `at`. */
  figures(at: number): CacheFigures;
  /** Writes all dirty records to the backing store. Returns the number of rows. */
  flush(): number;
}

/** A shard's slots, resident and dirty records, and cumulative counts of rows. */
export interface CacheFigures {
  readonly slots: number;
  readonly resident: number;
  readonly dirty: number;
  readonly requested: number;
  readonly hits: number;
  readonly evicted: number;
}

export interface CachedRecordShard extends RecordShard {
  /** Most rows that one request moves. */
  readonly rowsMax: number;
  /** See `CacheDemand`. */
  readonly plannedBytes?: number | undefined;
}

export interface RecordCacheStats extends RecordStats {
  /** Rows requested so far; `hits` of them were in memory. */
  readonly requested: number;
  readonly hits: number;
  /** The work of the backing store. */
  readonly backing: RecordStats;
}

/**
 * Caches the records of `backing` in at most `bytes` of memory, divided among shards by the plan,
 * or else by the number of rows that a request moves. Closing the cache closes the backing store,
 * too.
 */
export function createRecordCache(options: {
  readonly backing: RecordStore;
  readonly shards: readonly CachedRecordShard[];
  readonly bytes: number;
  readonly policy: CacheShape["policy"];
  readonly kernels: Kernels;
}): RecordCache {
  const { backing, bytes, policy, kernels } = options;
  const shapes = shapesOf(options.shards, bytes, policy);
  const memory = createPlacedMemory();
  const shards = options.shards.map((shard, at) => {
    const shape = shapes[at] ?? { policy, sets: 1, spares: 0 };
    return new CachedRecords({ at, shard, shape, backing, kernels, memory });
  });
  const ofShard = (at: number): CachedRecords => {
    const found = shards[at];
    if (found === undefined) throw new RangeError(`The cache has no shard ${at}`);
    return found;
  };
  return {
    get stamp() {
      return backing.stamp;
    },
    read: (at, rows, records, found) => ofShard(at).readRows(rows, records, found),
    write: (at, rows, records) => ofShard(at).writeRows(rows, records),
    remove: (at, rows) => ofShard(at).removeRows(rows),
    count(at) {
      ofShard(at).flush();
      return backing.count(at);
    },
    scan(at, rowsMax) {
      ofShard(at).flush();
      return backing.scan(at, rowsMax);
    },
    sync(stamp) {
      for (const shard of shards) shard.flush();
      backing.sync(stamp);
    },
    stats() {
      const sumOf = (count: "requested" | "hits" | "read" | "written") =>
        shards.reduce((sum, shard) => sum + shard[count], 0);
      const [read, written] = [sumOf("read"), sumOf("written")];
      const stats = backing.stats();
      const { diskBytes } = stats;
      return {
        read,
        written,
        diskBytes,
        requested: sumOf("requested"),
        hits: sumOf("hits"),
        backing: stats,
      };
    },
    hits: () => shards.reduce((sum, { hits }) => sum + hits, 0),
    figures: ofShard,
    flush: () => shards.reduce((sum, shard) => sum + shard.flush(), 0),
    close: () => backing.close(),
  };
}

function shapesOf(
  shards: readonly CachedRecordShard[],
  hbmBytes: number,
  policy: CacheShape["policy"],
): CacheShape[] {
  const demands = shards.map((shard) => {
    const { recordBytes, rowsMax: lookupsMax, plannedBytes } = shard;
    return { shard, placeBytes: recordBytes + indexBytes, lookupsMax, plannedBytes };
  });
  return cacheShapesOf(demands, { hbmBytes, policy, prefetch: 0 }).map((shape, at) => {
    return { ...shape, spares: Math.min(chunkRows, shards[at]?.rows ?? 0) };
  });
}

/** Bytes of the records of each shard in a cache of `ddrBytes`: the length of an array. */
export function recordCacheBytes(
  shards: readonly Omit<CachedRecordShard, "name">[],
  { ddrBytes, policy }: { readonly ddrBytes: number; readonly policy: CacheShape["policy"] },
): number[] {
  if (ddrBytes === 0) return [];
  const named = shards.map((shard) => ({ name: "", ...shard }));
  return shapesOf(named, ddrBytes, policy).map(({ sets, spares }, at) => {
    return (sets * cacheWays + spares) * (shards[at]?.recordBytes ?? 0);
  });
}

/** The records of one shard. */
class CachedRecords implements CacheFigures {
  requested = 0;
  hits = 0;
  resident = 0;
  dirty = 0;
  evicted = 0;
  read = 0;
  written = 0;
  readonly #at: number;
  readonly #shard: RecordShard;
  readonly #bytes: number;
  readonly #backing: RecordStore;
  readonly #kernels: Kernels;
  readonly #memory: PlacedMemory;
  readonly #cache: RowCache;
  readonly #places = new Int32Array(chunkRows);
  /** (P * recordBytes), and (P): the record and the state of each slot. */
  readonly #records: Uint8Array;
  readonly #held: Uint8Array;
  #tick = 0;

  constructor(options: {
    readonly at: number;
    readonly shard: RecordShard;
    readonly shape: CacheShape;
    readonly backing: RecordStore;
    readonly kernels: Kernels;
    readonly memory: PlacedMemory;
  }) {
    const { at, shard, shape, backing, kernels, memory } = options;
    this.#at = at;
    this.#shard = shard;
    this.#bytes = shard.recordBytes;
    this.#backing = backing;
    this.#kernels = kernels;
    this.#memory = memory;
    this.#cache = createRowCache({ ...shape, rows: shard.rows });
    this.#records = new Uint8Array(this.#cache.rowOf.length * shard.recordBytes);
    this.#held = new Uint8Array(this.#cache.rowOf.length);
  }

  get slots(): number {
    return this.#held.length;
  }

  readRows(rows: Int32Array, records: Uint8Array, found: Uint8Array): void {
    checkBatch(this.#shard, rows, records, found);
    for (let first = 0; first < rows.length; first += chunkRows) {
      const some = rows.subarray(first, first + chunkRows);
      const { places, missed, missedRows, pinned } = this.#place(some);
      this.#fetch(missed, missedRows);
      const out = records.subarray(first * this.#bytes, (first + some.length) * this.#bytes);
      this.#move(out, undefined, this.#records, places, some.length);
      for (let i = 0; i < some.length; i++) {
        const isHere = this.#held[places[i] ?? 0] !== absent;
        found[first + i] = isHere ? 1 : 0;
        if (isHere) this.read++;
      }
      this.requested += some.length;
      this.hits += some.length - missed.length;
      this.#release(pinned);
    }
  }

  writeRows(rows: Int32Array, records: Uint8Array): void {
    checkBatch(this.#shard, rows, records);
    this.written += rows.length;
    for (let first = 0; first < rows.length; first += chunkRows) {
      const some = rows.subarray(first, first + chunkRows);
      const { places, pinned } = this.#place(some);
      const given = records.subarray(first * this.#bytes, (first + some.length) * this.#bytes);
      this.#move(this.#records, places, given, undefined, some.length);
      for (const place of places) this.#mark(place, dirty);
      this.#release(pinned);
    }
  }

  removeRows(rows: Int32Array): void {
    this.#backing.remove(this.#at, rows);
    for (const row of rows) {
      const place = findPlace(this.#cache, row);
      if (place >= 0) this.#mark(place, absent);
    }
  }

  /** Writes all dirty records to the backing store. Returns their number. */
  flush(): number {
    const places = new Int32Array(this.#held.length);
    let count = 0;
    for (let place = 0; place < this.#held.length; place++) {
      if (this.#held[place] === dirty) places[count++] = place;
    }
    const all = places.subarray(0, count);
    this.#sendDown(all, elementsAt(this.#cache.rowOf, all));
    return count;
  }

  #mark(place: number, state: number): void {
    const before = this.#held[place] ?? absent;
    this.dirty += Number(state === dirty) - Number(before === dirty);
    this.resident += Number(state !== absent) - Number(before !== absent);
    this.#held[place] = state;
  }

  /** Assigns slots to the rows and pins them. Dirty evicted rows are written back first. */
  #place(rows: Int32Array) {
    const places = this.#places.subarray(0, rows.length);
    this.#tick++;
    const placed = this.#kernels.placeRows(this.#cache, places, rows, this.#tick, this.#memory);
    const { missed, missedRows, evicted, evictedRows, placed: pinned } = placed;
    this.#sendDown(evicted, evictedRows); // D1
    for (const place of missed) this.#mark(place, absent);
    this.evicted += evicted.length;
    return { places, missed, missedRows, pinned };
  }

  /** Unpins the slots of a call. D2 */
  #release(pinned: Int32Array): void {
    const spares = this.#kernels.releaseRows(this.#cache, pinned).slice();
    this.#sendDown(spares, elementsAt(this.#cache.rowOf, spares));
    this.#kernels.freeSpares(this.#cache, spares);
    for (const place of spares) this.#mark(place, absent);
    this.evicted += spares.length;
  }

  /** Writes the dirty records of some slots to the backing store. */
  #sendDown(places: Int32Array, rows: Int32Array): void {
    const leaving = Int32Array.from(places.keys()).filter((i) => {
      return this.#held[places[i] ?? 0] === dirty;
    });
    if (leaving.length === 0) return;
    const order = ascending(elementsAt(rows, leaving));
    const sorted = order === undefined ? leaving : elementsAt(leaving, order);
    const from = elementsAt(places, sorted);
    const records = new Uint8Array(sorted.length * this.#bytes);
    this.#move(records, undefined, this.#records, from, sorted.length);
    this.#backing.write(this.#at, elementsAt(rows, sorted), records);
    for (const place of from) this.#mark(place, clean);
  }

  /** Reads missing rows from the backing store. */
  #fetch(missed: Int32Array, missedRows: Int32Array): void {
    if (missed.length === 0) return;
    const order = ascending(missedRows);
    const to = order === undefined ? missed : elementsAt(missed, order);
    const rows = order === undefined ? missedRows : elementsAt(missedRows, order);
    const records = new Uint8Array(rows.length * this.#bytes);
    const found = new Uint8Array(rows.length);
    this.#backing.read(this.#at, rows, records, found);
    this.#move(this.#records, to, records, undefined, rows.length);
    for (let i = 0; i < to.length; i++) this.#mark(to[i] ?? 0, found[i] === 1 ? clean : absent);
  }

  #move(
    to: Uint8Array,
    toAt: Int32Array | undefined,
    from: Uint8Array,
    fromAt: Int32Array | undefined,
    count: number,
  ): void {
    this.#kernels.moveRecords(to, toAt, from, fromAt, count, this.#bytes);
  }
}
