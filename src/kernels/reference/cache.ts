// Assigns slots of a cache to rows, in plain loops.

import {
  type CacheKernels,
  cacheWays,
  createPlacedMemory,
  findPlace,
  growPlaced,
  hashRow,
  noSpareLeft,
  placedOf,
  type RowCache,
  spareSlot,
} from "../contract/row-cache.ts";

/** See `CacheKernels.placeRows`. */
export const placeRows: CacheKernels["placeRows"] = (
  cache,
  places,
  ids,
  tick,
  memory = createPlacedMemory(),
) => {
  const { policy, sets, rowOf, stamps, pins, counts, head } = cache;
  const room = growPlaced(memory, cache, ids.length);
  const { words } = memory;
  let [distinct, missed, evicted, conflicts, conflictLookups] = [0, 0, 0, 0, 0];
  const see = (place: number): void => {
    if (stamps[place] === tick) return;
    stamps[place] = tick;
    pins[place]!++;
    words[distinct++] = place;
  };

  head[1] = tick;
  const misses: number[] = [];
  ids.forEach((row, k) => {
    if (policy === "lfu")
      counts[countAt(cache, row)] = Math.min(countOf(cache, row) + 1, 2 ** 32 - 1);
    const place = findPlace(cache, row);
    places[k] = place;
    if (place < 0) misses.push(k);
    else see(place);
  });

  if (policy === "lfu") {
    const popular = (k: number): number => countOf(cache, ids[k]!);
    misses.sort((a, b) => popular(b) - popular(a) || ids[a]! - ids[b]! || a - b);
  }
  for (const k of misses) {
    const row = ids[k]!;
    let place = findPlace(cache, row);
    if (place < 0) {
      place = wayFor(cache, row);
      if (place < 0) {
        place = takeSpare(cache, row);
        conflicts++;
      } else if (rowOf[place]! >= 0) {
        words[3 * room + evicted] = place;
        words[4 * room + evicted++] = rowOf[place]!;
      }
      rowOf[place] = row;
      words[room + missed] = place;
      words[2 * room + missed++] = row;
      see(place);
    }
    if (place >= sets * cacheWays) conflictLookups++;
    places[k] = place;
  }
  return placedOf(memory, ids.length, [distinct, missed, evicted, conflicts, conflictLookups]);
};

/** The index of a row's access count. */
function countAt({ counts }: RowCache, row: number): number {
  return row < counts.length ? row : hashRow(row) & (counts.length - 1);
}

function countOf(cache: RowCache, row: number): number {
  return cache.counts[countAt(cache, row)]!;
}

/** An empty way of the row's set, else the way of the row to evict; -1: there is none. */
function wayFor(cache: RowCache, row: number): number {
  const { policy, sets, rowOf, stamps, pins } = cache;
  const first = (hashRow(row) % sets) * cacheWays;
  let [victim, least] = [-1, Number.POSITIVE_INFINITY];
  for (let place = first; place < first + cacheWays; place++) {
    if (rowOf[place]! < 0) return place;
    const cost = policy === "lfu" ? countOf(cache, rowOf[place]!) : stamps[place]!;
    if (pins[place] === 0 && cost < least) [victim, least] = [place, cost];
  }
  return policy === "lfu" && least > countOf(cache, row) ? -1 : victim;
}

/** Takes a free spare slot for the row, and enters it in the hash table of spare slots. */
function takeSpare(cache: RowCache, row: number): number {
  const { spareTable, spareFree, head } = cache;
  if (head[0] === 0) throw noSpareLeft(cache);
  head[0]!--;
  const place = spareFree[head[0]!]!;
  let at = spareSlot(cache, row);
  while (spareTable[at]! >= 0) at = (at + 1) & (spareTable.length - 1);
  spareTable[at] = place;
  return place;
}
