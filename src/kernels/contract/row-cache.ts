// The index of a software-managed cache of rows (FBGEMM's 32-way cache; Neo, Mudigere et al., arXiv
// 2104.05158): which row is in which slot. A row belongs to one set of 32 ways. If the set has no
// free or evictable way, the row takes a spare slot, and stays only while a batch needs it. The
// index holds no weights: slots are rows of a tile in memory (`Rows`), and rows enter and leave
// slots as records (records.ts).
//
// Invariants
//   C1. A row has at most one slot, and `rowOf` of that slot is the row.
//   C2. A slot with pins is never given to another row.
//   C3. The effect of a call depends only on the cache, the ids and the tick, not on a clock or on
//       chance.

import assert from "node:assert/strict";

/** Slots of a set, which are probed together. */
export const cacheWays = 32;

/**
 * The eviction policy of a full set: least recently used, or least frequently used. LFU keeps the
 * old row if the new row was used less often.
 */
export type CachePolicy = "lru" | "lfu";

/** The index of a set-associative cache: plain memory that both implementations use. */
export interface RowCache {
  readonly policy: CachePolicy;
  readonly sets: number;
  /** Slots after the ways, for rows that find no free way in their set (conflict misses). */
  readonly spares: number;
  /** (sets*32 + spares) = (P): the row in each slot, relative to the tile's first; -1: none. */
  readonly rowOf: Int32Array;
  /** (P): the tick of each slot's last access. */
  readonly stamps: Int32Array;
  /** (P): batches in flight that need the slot. */
  readonly pins: Uint8Array;
  /**
   * LFU: access counts of rows: at index `row` if there is a count for every row, else at hash &
   * (length - 1), where rows that share a count seem more popular. LRU: empty.
   */
  readonly counts: Uint32Array;
  /** Hash table with open addressing, length a power of two: spare slots by row; -1: free. */
  readonly spareTable: Int32Array;
  /** (spares): a stack of the free spare slots, from element 0 on. */
  readonly spareFree: Int32Array;
  /** (2): number of free spare slots, and the tick of the last call. */
  readonly head: Int32Array;
}

/** The result of one call of `placeRows`. The arrays are views of the call's memory. */
export interface Placed {
  /**
   * Distinct slots of the call, each pinned once: first the hits, in order of first occurrence,
   * then the misses.
   */
  readonly placed: Int32Array;
  /** Slots to fill, and the row for each (m). */
  readonly missed: Int32Array;
  readonly missedRows: Int32Array;
  /**
   * Slots whose evicted row must be saved before they are filled, in the order of `missed`, and
   * these rows (e). Slots that were empty are left out.
   */
  readonly evicted: Int32Array;
  readonly evictedRows: Int32Array;
  /** Ids of the call, and distinct rows among them: hits are `distinct - missed.length`. */
  readonly lookups: number;
  readonly distinct: number;
  /** Missed rows that took a spare slot, and the lookups of these rows. */
  readonly conflicts: number;
  readonly conflictLookups: number;
}

/** Grow-only memory of `Placed` for one batch in flight. */
export interface PlacedMemory {
  words: Int32Array;
}

/** The shape of a cache. */
export interface RowCacheSpec {
  readonly policy: CachePolicy;
  readonly sets: number;
  readonly spares: number;
  /** Rows of the tile. */
  readonly rows: number;
}

/** Kernels of a cache's index. */
export interface CacheKernels {
  /** An empty cache (`createRowCache`), in memory where a set takes two cache lines. */
  rowCache(spec: RowCacheSpec): RowCache;
  /**
   * Assigns a slot to each of ids (n), rows of the tile, and writes the slots to places (n). Each
   * distinct slot is pinned once, until `releaseRows`. `tick` must be above the last call's.
   *
   * Rows in the cache are found first. Then missing rows take slots, under LRU in order of first
   * occurrence, under LFU by descending count, then ascending row. Each takes an empty way of its
   * set; or the unpinned way with the lowest stamp (LRU) or count (LFU, if not above the row's
   * own), among equals the lowest way; or a spare slot. LFU counts every lookup before it places
   * the first row.
   *
   * The arrays of the result are in `memory`; left out: in new memory.
   * @throws RangeError where a row finds no slot; the cache is unusable from then on
   */
  placeRows(
    cache: RowCache,
    places: Int32Array,
    ids: Int32Array,
    tick: number,
    memory?: PlacedMemory,
  ): Placed;
  /**
   * Removes one pin from each slot of `placed`, the result of a `placeRows`. Returns the spare
   * slots that have no pins left: the caller must save their rows and free the slots
   * (`freeSpares`) before the next call.
   */
  releaseRows(cache: RowCache, placed: Int32Array): Int32Array;
  /** Frees the spare slots `places`, which must have no pins. */
  freeSpares(cache: RowCache, places: Int32Array): void;
}

/**
 * An empty cache, in zeroed memory from `allocate` if it is given. LFU counts rows in at most 16
 * words per slot, or one per row.
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
    spareFree: new Int32Array(spares).map((_, i) => places - 1 - i),
    head: Int32Array.of(spares, 0),
  };
}

/** The cache with more spare slots, in new memory. All rows keep their slots. */
export function withSpares(cache: RowCache, spares: number): RowCache {
  const { policy, sets, rowOf, stamps, pins, counts, head } = cache;
  const grown = createRowCache({ policy, sets, spares, rows: 0 });
  grown.rowOf.set(rowOf);
  grown.stamps.set(stamps);
  grown.pins.set(pins);
  const { spareTable, spareFree } = grown;
  const mask = spareTable.length - 1;
  let free = 0;
  for (let place = grown.rowOf.length - 1; place >= sets * cacheWays; place--) {
    if (grown.rowOf[place]! < 0) {
      spareFree[free++] = place;
      continue;
    }
    let at = spareSlot(grown, grown.rowOf[place]!);
    while (spareTable[at]! >= 0) at = (at + 1) & mask;
    spareTable[at] = place;
  }
  grown.head.set([free, head[1]!]);
  return { ...grown, counts };
}

/** The smallest power of two that is at least `count`. */
function powerAbove(count: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, count)));
}

/** Empty memory for `Placed`. */
export function createPlacedMemory(): PlacedMemory {
  return { words: new Int32Array() };
}

/** Grows the memory for the results of `lookups` ids: five lists. Returns the length of a list. */
export function growPlaced(memory: PlacedMemory, cache: RowCache, lookups: number): number {
  const room = Math.min(lookups, cache.rowOf.length);
  if (memory.words.length < 5 * room) memory.words = new Int32Array(5 * Math.ceil(1.25 * room));
  return memory.words.length / 5;
}

/**
 * The result of a call of `placeRows`, as views of the memory that it filled. `counts`: distinct,
 * missed and evicted slots, conflicts, and lookups of conflicts.
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

/** The error for a row that finds no slot. */
export function noSpareLeft({ spares }: RowCache): RangeError {
  return new RangeError(
    `Expected a spare place for each row whose set is full, but all ${spares} are in use; ` +
      "give the cache more spares, or more sets",
  );
}

/** Murmur3's 32-bit finalizer: a permutation in which every input bit affects every output bit. */
export function hashRow(row: number): number {
  let bits = row;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}

/**
 * The index in `spareTable` where probing for a row begins: from the hash's upper bits, as sets use
 * the lower bits.
 */
export function spareSlot({ spareTable }: RowCache, row: number): number {
  return Math.floor((hashRow(row) * spareTable.length) / 2 ** 32);
}

/** The slot of a row of the tile; -1: the row has none. */
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

// Few slots are released at a time, so one implementation serves both kernels.

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

/**
 * See `CacheKernels.freeSpares`. Entries after a gap move into it, so that probing finds them.
 */
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
