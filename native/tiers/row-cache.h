// Assigns slots of a cache to rows (src/kernels/contract/row-cache.ts). Included by tiers/tiers.cc
// for each instruction set. A lookup of a cached row reads the cache lines of its set, then its
// stamp and its pins; both are prefetched in this order.

/// The way of a set that has `row`, or -1. For `row` -1: the first empty way.
INLINE int wayOf(const int32_t* ways, int32_t row) {
#if defined(OSIRIS_AVX512)
  const __m512i wanted = _mm512_set1_epi32(row);
  const uint32_t low = _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(ways), wanted);
  const uint32_t high = _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(ways + 16), wanted);
  const uint32_t found = low | high << 16;
#elif defined(OSIRIS_AVX2)
  const __m256i wanted = _mm256_set1_epi32(row);
  uint32_t found = 0;
  UNROLL for (int i = 0; i < cacheWays; i += 8) {
    const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ways + i));
    const __m256 same = _mm256_castsi256_ps(_mm256_cmpeq_epi32(some, wanted));
    found |= static_cast<uint32_t>(_mm256_movemask_ps(same)) << i;
  }
#elif defined(OSIRIS_NEON)
  // One byte per way, of which one bit is kept; pairs are added until a way has its bit of a word.
  const int32x4_t wanted = vdupq_n_s32(row);
  uint16x8_t same[cacheWays / 8];
  UNROLL for (int i = 0; i < cacheWays / 8; i++) {
    const uint32x4_t low = vceqq_s32(vld1q_s32(ways + 8 * i), wanted);
    const uint32x4_t high = vceqq_s32(vld1q_s32(ways + 8 * i + 4), wanted);
    same[i] = vcombine_u16(vmovn_u32(low), vmovn_u32(high));
  }
  const uint8x16_t bits = (uint8x16_t)vdupq_n_u64(0x8040201008040201u);
  const uint8x16_t low = vandq_u8(vcombine_u8(vmovn_u16(same[0]), vmovn_u16(same[1])), bits);
  const uint8x16_t high = vandq_u8(vcombine_u8(vmovn_u16(same[2]), vmovn_u16(same[3])), bits);
  const uint8x16_t pairs = vpaddq_u8(low, high), fours = vpaddq_u8(pairs, pairs);
  const uint32_t found = vgetq_lane_u32((uint32x4_t)vpaddq_u8(fours, fours), 0);
#else
  uint32_t found = 0;
  for (int i = 0; i < cacheWays; i++) found |= static_cast<uint32_t>(ways[i] == row) << i;
#endif
  return found == 0 ? -1 : __builtin_ctz(found);
}

/// Murmur3's 32-bit finalizer.
INLINE uint32_t hashRow(int32_t row) {
  uint32_t bits = static_cast<uint32_t>(row);
  bits = (bits ^ bits >> 16) * 0x85ebca6bu;
  bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
  return bits ^ bits >> 16;
}

/// The first way of a row's set.
INLINE int64_t firstWay(const RowCache& c, uint32_t hash) {
  return hash % static_cast<uint32_t>(c.sets) * int64_t{cacheWays};
}

/// Address of a row's count.
INLINE uint32_t* countOf(const RowCache& c, int32_t row) {
  return c.counts + (row < c.countsLength ? row : hashRow(row) & (c.countsLength - 1));
}

/// The index in spareTable where probing for a row begins.
INLINE int64_t spareSlot(const RowCache& c, uint32_t hash) {
  return static_cast<int64_t>(static_cast<uint64_t>(hash) * c.spareTableLength >> 32);
}

/// The slot of a row, or -1.
INLINE int32_t placeOf(const RowCache& c, int32_t row, uint32_t hash, int64_t first) {
  const int way = wayOf(c.rowOf + first, row);
  if (way >= 0) return static_cast<int32_t>(first + way);
  if (c.head[0] == c.spares) return -1;
  const int64_t mask = c.spareTableLength - 1;
  for (int64_t at = spareSlot(c, hash); c.spareTable[at] >= 0; at = (at + 1) & mask) {
    if (c.rowOf[c.spareTable[at]] == row) return c.spareTable[at];
  }
  return -1;
}

/// An empty way of the row's set, else the way of the row to evict; -1: there is none.
INLINE int64_t wayFor(const RowCache& c, int32_t row, int64_t first) {
  const int empty = wayOf(c.rowOf + first, -1);
  if (empty >= 0) return first + empty;
  const bool lfu = c.countsLength > 0;
  int64_t victim = -1;
  uint64_t least = UINT64_MAX;
  for (int64_t place = first; place < first + cacheWays; place++) {
    const uint64_t cost = lfu ? *countOf(c, c.rowOf[place]) : static_cast<uint32_t>(c.stamps[place]);
    if (c.pins[place] > 0 || cost >= least) continue;
    victim = place;
    least = cost;
  }
  return lfu && victim >= 0 && least > *countOf(c, row) ? -1 : victim;
}

/// Takes a free spare slot, and enters it in the hash table for the row; -1: none is free.
INLINE int64_t takeSpare(const RowCache& c, uint32_t hash) {
  if (c.head[0] == 0) return -1;
  const int32_t place = c.spareFree[--c.head[0]];
  int64_t at = spareSlot(c, hash);
  while (c.spareTable[at] >= 0) at = (at + 1) & (c.spareTableLength - 1);
  c.spareTable[at] = place;
  return place;
}

/// Stamps, pins and lists a slot at its first occurrence in this call.
INLINE void see(const RowCache& c, int64_t place, int32_t tick, PlacedLists& out) {
  if (c.stamps[place] == tick) return;
  c.stamps[place] = tick;
  c.pins[place]++;
  out.placed[out.distinct++] = static_cast<int32_t>(place);
}

/// Finds and stamps the cached rows. Returns the number of missed lookups, listed in `misses`.
inline int64_t findRows(const RowCache& c, int32_t* places, const int32_t* ids, int64_t n,
                        int32_t tick, PlacedLists& out, Miss* misses) {
  constexpr int64_t setsAhead = 64, stampsAhead = 32;
  const bool lfu = c.countsLength > 0;
  uint32_t hashes[setsAhead];
  int64_t firsts[setsAhead], missed = 0;
  for (int64_t k = -setsAhead; k < n; k++) {
    const int64_t asked = k + setsAhead, probed = k + stampsAhead;
    // Lookup k has been probed already, so lookup `asked` reuses its entry in `hashes` and
    // `firsts`.
    if (asked < n) {
      const uint32_t hash = hashRow(ids[asked]);
      hashes[asked % setsAhead] = hash;
      firsts[asked % setsAhead] = firstWay(c, hash);
      prefetch(c.rowOf + firsts[asked % setsAhead], cacheWays * sizeof(int32_t));
      if (lfu) prefetch(countOf(c, ids[asked]), 1);
    }
    if (probed >= 0 && probed < n) {
      const int64_t slot = probed % setsAhead;
      places[probed] = placeOf(c, ids[probed], hashes[slot], firsts[slot]);
      if (places[probed] >= 0) {
        prefetch(c.stamps + places[probed], 1);
        prefetch(c.pins + places[probed], 1);
      }
    }
    if (k < 0) continue;
    if (lfu) {
      uint32_t* count = countOf(c, ids[k]);
      *count += *count < UINT32_MAX;
    }
    if (places[k] >= 0) see(c, places[k], tick, out);
    else misses[missed++] = {0, static_cast<int32_t>(k)};
  }
  return missed;
}

/// Sorts misses in LFU's order: by descending count, then by ascending row.
inline void sortMisses(const RowCache& c, const int32_t* ids, Miss* misses, int64_t missed) {
  for (Miss* miss = misses; miss < misses + missed; miss++) {
    const uint64_t row = static_cast<uint32_t>(ids[miss->lookup]);
    miss->key = static_cast<uint64_t>(~*countOf(c, ids[miss->lookup])) << 32 | row;
  }
  std::sort(misses, misses + missed, [](const Miss& a, const Miss& b) {
    return a.key != b.key ? a.key < b.key : a.lookup < b.lookup;
  });
}

/// Prefetches the memory for placing a later row in its set: the set, and for LFU, once the set is
/// in the cache, the counts of its rows.
INLINE void askForMiss(const RowCache& c, const int32_t* ids, const Miss* misses, int64_t missed,
                       int64_t i) {
  constexpr int64_t setsAhead = 16, countsAhead = 8;
  if (i + setsAhead < missed) {
    const int64_t first = firstWay(c, hashRow(ids[misses[i + setsAhead].lookup]));
    prefetch(c.rowOf + first, cacheWays * sizeof(int32_t));
    prefetch(c.stamps + first, cacheWays * sizeof(int32_t));
    prefetch(c.pins + first, cacheWays);
  }
  if (c.countsLength > 0 && i + countsAhead < missed) {
    const int64_t first = firstWay(c, hashRow(ids[misses[i + countsAhead].lookup]));
    for (int64_t way = first; way < first + cacheWays; way++) {
      if (c.rowOf[way] >= 0) prefetch(countOf(c, c.rowOf[way]), 1);
    }
  }
}

/// See `CacheKernels.placeRows`. Returns false if a row finds no slot.
inline bool placeRows(const RowCache& c, int32_t* places, const int32_t* ids, int64_t n,
                      int32_t tick, PlacedLists& out) {
  c.head[1] = tick;
  Miss* misses = scratches().misses.take<Miss>(n);
  const int64_t missed = findRows(c, places, ids, n, tick, out, misses);
  if (c.countsLength > 0) sortMisses(c, ids, misses, missed);
  for (int64_t i = 0; i < missed; i++) {
    askForMiss(c, ids, misses, missed, i);
    const int64_t k = misses[i].lookup;
    const int32_t row = ids[k];
    const uint32_t hash = hashRow(row);
    const int64_t first = firstWay(c, hash);
    int64_t place = placeOf(c, row, hash, first);
    if (place < 0) {
      place = wayFor(c, row, first);
      if (place < 0) {
        place = takeSpare(c, hash);
        if (place < 0) return false;
        out.conflicts++;
      } else if (c.rowOf[place] >= 0) {
        out.evicted[out.evictedCount] = static_cast<int32_t>(place);
        out.evictedRows[out.evictedCount++] = c.rowOf[place];
      }
      c.rowOf[place] = row;
      out.missed[out.missedCount] = static_cast<int32_t>(place);
      out.missedRows[out.missedCount++] = row;
      see(c, place, tick, out);
    }
    if (place >= c.sets * cacheWays) out.conflictLookups++;
    places[k] = static_cast<int32_t>(place);
  }
  return true;
}
