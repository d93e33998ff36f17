// The index of a software-managed cache of rows (FBGEMM's 32-way cache; Neo, Mudigere et al., arXiv
// 2104.05158): which row lies in which place. A row belongs to one set of 32 ways; a row whose set
// has no way for it takes a spare place and is there only as long as a batch needs it. Nothing here
// holds weights: places are rows of a tile in memory (`Rows`), and records (records.ts) carry rows
// from place to place.
//
// Invariants
//   C1. A row has at most one place, and `rowOf` of that place is the row.
//   C2. A place with pins is never given to another row.
//   C3. What a call does depends on the cache, the ids and the tick: no clock, no chance.

import assert from "node:assert/strict";

/** Places of a set: probed together. */
export const cacheWays = 32;

/**
 * Which way of a full set goes: the one asked for longest ago, or the one asked for least often.
 * LFU keeps it where the new row was asked for less often still.
 */
export type CachePolicy = "lru" | "lfu";

/** A set-associative cache's index. Plain memory, that both implementations share. */
export interface RowCache {
  readonly policy: CachePolicy;
  readonly sets: number;
  /** Places behind the ways, for rows whose set has no way for them: conflict misses. */
  readonly spares: number;
  /** (sets*32 + spares) = (P): the row in each place, counted from the tile's first; -1: none. */
  readonly rowOf: Int32Array;
  /** (P): the tick at which each place was last asked for. */
  readonly stamps: Int32Array;
  /** (P): batches in flight that need the place. */
  readonly pins: Uint8Array;
  /**
   * LFU: how often each row was asked for, at `row` where there are so many, else at
   * hash & (length - 1): rows that share a count only seem more popular. LRU: empty.
   */
  readonly counts: Uint32Array;
  /** Open addressing, a power of two: the spare place at or behind a row's hash; -1: none. */
  readonly spareTable: Int32Array;
  /** (spares): a stack of the spare places that are free, from element 0 on. */
  readonly spareFree: Int32Array;
  /** (2): how many spare places are free, and the tick of the last call. */
  readonly head: Int32Array;
}

/** What one call of `placeRows` did. The arrays are views of the memory that it was given. */
export interface Placed {
  /**
   * Distinct places of the call, each pinned once: first those that were found, in order of first
   * sight, then those that were missed.
   */
  readonly placed: Int32Array;
  /** Places to be filled, and the row that each is to hold (m). */
  readonly missed: Int32Array;
  readonly missedRows: Int32Array;
  /**
   * Places whose former row has to go before they are filled, in the order of `missed`, and those
   * rows (e). Places that were empty are not among them.
   */
  readonly evicted: Int32Array;
  readonly evictedRows: Int32Array;
  /** Ids of the call; and distinct rows among them: hits are `distinct - missed.length`. */
  readonly lookups: number;
  readonly distinct: number;
  /** Missed rows that took a spare place, and the lookups of these. */
  readonly conflicts: number;
  readonly conflictLookups: number;
}

/** The memory of `Placed`, for one batch in flight. It grows. */
export interface PlacedMemory {
  words: Int32Array;
}

/** What a cache is made of. */
export interface RowCacheSpec {
  readonly policy: CachePolicy;
  readonly sets: number;
  readonly spares: number;
  /** Rows of the tile. */
  readonly rows: number;
}

/** Kernels of a cache's index. */
export interface CacheKernels {
  /** An empty cache (`createRowCache`), in memory where a set is two cache lines. */
  rowCache(spec: RowCacheSpec): RowCache;
  /**
   * places (n): where each of ids (n), rows of the tile, lies from now on. Each distinct place is
   * pinned once, until `releaseRows`. `tick` is above that of the last call.
   *
   * Rows that are there are found first. Then the others, under LRU in order of first sight, under
   * LFU by descending count, then ascending row, take an empty way of their set; or the way without
   * pins of the lowest stamp (LRU) or count (LFU, if that is not above the row's own), of equal
   * ones the lowest; or a spare place. LFU counts every lookup before it places the first row.
   *
   * Arrays of the result lie in `memory`, new where it is left out.
   * @throws RangeError where a row is left without a place: then the cache cannot be used any more
   */
  placeRows(
    cache: RowCache,
    places: Int32Array,
    ids: Int32Array,
    tick: number,
    memory?: PlacedMemory,
  ): Placed;
  /**
   * Takes one pin from each of `placed`, as a call of `placeRows` gave them. Returns spare places
   * that have none left: their rows are taken out, and the places freed, before the next call.
   */
  releaseRows(cache: RowCache, placed: Int32Array): Int32Array;
  /** Empties spare places without pins. */
  freeSpares(cache: RowCache, places: Int32Array): void;
}

/**
 * An empty cache in memory that `allocate` gives, zeroed; left out, wherever it lies. LFU counts
 * rows in at most 16 words a place, or one a row.
 */
export function createRowCache(
  { policy, sets, spares, rows }: RowCacheSpec,
  allocate = (bytes: number): ArrayBufferView => new Uint8Array(bytes),
): RowCache {
  const words = (count: number): Int32Array => {
    const { buffer, byteOffset } = allocate(4 * count);
    return new Int32Array(buffer, byteOffset, count);
  };
  const places = sets * cacheWays + spares;
  const counts = words(policy === "lfu" ? Math.min(Math.max(1, rows), 8 * powerAbove(places)) : 0);
  const pins = words(Math.ceil(places / 4));
  return {
    policy,
    sets,
    spares,
    rowOf: words(places).fill(-1),
    stamps: words(places),
    pins: new Uint8Array(pins.buffer, pins.byteOffset, places),
    counts: new Uint32Array(counts.buffer, counts.byteOffset, counts.length),
    spareTable: new Int32Array(2 * powerAbove(spares)).fill(-1),
    spareFree: Int32Array.from({ length: spares }, (_, i) => places - 1 - i),
    head: Int32Array.of(spares, 0),
  };
}

/** The smallest power of two that is at least `count`. */
function powerAbove(count: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, count)));
}

/** Memory for `Placed` that has room for nothing yet. */
export function createPlacedMemory(): PlacedMemory {
  return { words: new Int32Array() };
}

/** Makes room for what a call of `lookups` ids may list: five lists; returns their length. */
export function growPlaced(memory: PlacedMemory, cache: RowCache, lookups: number): number {
  const room = Math.min(lookups, cache.rowOf.length);
  if (memory.words.length < 5 * room) memory.words = new Int32Array(5 * Math.ceil(1.25 * room));
  return memory.words.length / 5;
}

/**
 * The result of a call from the memory that it filled. `counts`: distinct, missed and evicted
 * places, conflicts, and lookups of these.
 */
export function placedOf(memory: PlacedMemory, lookups: number, counts: Iterable<number>): Placed {
  const [distinct = 0, missed = 0, evicted = 0, conflicts = 0, conflictLookups = 0] = counts;
  const room = memory.words.length / 5;
  const list = (i: number, count: number) => memory.words.subarray(i * room, i * room + count);
  return {
    placed: list(0, distinct),
    missed: list(1, missed),
    missedRows: list(2, missed),
    evicted: list(3, evicted),
    evictedRows: list(4, evicted),
    lookups,
    distinct,
    conflicts,
    conflictLookups,
  };
}

/** What a call says that left a row without a place. */
export function noSpareLeft({ spares }: RowCache): RangeError {
  return new RangeError(
    `Expected a spare place for each row whose set is full, but all ${spares} are in use; ` +
      "give the cache more spares, or more sets",
  );
}

/** Murmur3's finaliser of 32 bits: a permutation in which every bit of a row moves every bit. */
export function hashRow(row: number): number {
  let bits = row;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}

/** Where the probing for a row's spare place begins: at the hash's upper bits, as sets take low. */
export function spareSlot({ spareTable }: RowCache, row: number): number {
  return Math.floor((hashRow(row) * spareTable.length) / 2 ** 32);
}

/** The place of a row of the tile; -1: it has none. */
export function findPlace(cache: RowCache, row: number): number {
  const { sets, rowOf, spareTable } = cache;
  const first = (hashRow(row) % sets) * cacheWays;
  for (let place = first; place < first + cacheWays; place++) {
    if (rowOf[place] === row) return place;
  }
  const mask = spareTable.length - 1;
  for (let at = spareSlot(cache, row); spareTable[at]! >= 0; at = (at + 1) & mask) {
    if (rowOf[spareTable[at]!] === row) return spareTable[at]!;
  }
  return -1;
}

// Few places come back at a time: one implementation serves both.

/** See `CacheKernels.releaseRows`. */
export const releaseRows: CacheKernels["releaseRows"] = (cache, placed) => {
  const { pins } = cache;
  const firstSpare = cache.sets * cacheWays;
  const free: number[] = [];
  for (let i = 0; i < placed.length; i++) {
    const place = placed[i]!;
    const left = pins[place]! - 1;
    pins[place] = left;
    if (left === 0 && place >= firstSpare) free.push(place);
  }
  return Int32Array.from(free);
};

/** See `CacheKernels.freeSpares`. Entries behind a gap move up, so that probing finds them. */
export const freeSpares: CacheKernels["freeSpares"] = (cache, places) => {
  const { rowOf, spareTable, spareFree, head } = cache;
  const mask = spareTable.length - 1;
  for (const place of places) {
    const isHeld = place >= cache.sets * cacheWays && rowOf[place]! >= 0 && cache.pins[place] === 0;
    assert(isHeld, `Expected a spare place that holds a row and has no pins, got ${place}`);
    let gap = spareSlot(cache, rowOf[place]!);
    while (spareTable[gap] !== place) gap = (gap + 1) & mask;
    for (let at = (gap + 1) & mask; spareTable[at]! >= 0; at = (at + 1) & mask) {
      const home = spareSlot(cache, rowOf[spareTable[at]!]!);
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      spareTable[gap] = spareTable[at]!;
      gap = at;
    }
    spareTable[gap] = -1;
    rowOf[place] = -1;
    spareFree[head[0]!] = place;
    head[0]!++;
  }
};
