// Counts ids of features. src/data/cache/id-counts.ts is the definition.

#pragma once

#include <cstdint>

namespace osiris {

/// MurmurHash3's 32-bit finalizer.
inline uint32_t mix32(uint32_t bits) {
  bits = (bits ^ bits >> 16) * 0x85ebca6bu;
  bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
  return bits ^ bits >> 16;
}

/// A hash table of sampled distinct hashes. A slot has a hash and its count; count 0: free.
struct DistinctSlots {
  int32_t* slots;    // (mask + 1, 2)
  uint32_t sampled;  // only hashes in which these bits are zero are counted
  uint32_t mask;
  int32_t countMax;  // counts saturate at this value
};

/// Counts ids by their hashes; with `areHashes`, the ids are hashes. Returns the number of
/// processed ids; it is less than `count` if the table is half full, so that the caller has to make
/// room first. `counted`: number of distinct hashes.
inline int64_t countDistinct(const DistinctSlots& of, int32_t& counted, const int32_t* ids,
                             int64_t count, bool areHashes) {
  for (int64_t i = 0; i < count; i++) {
    const uint32_t id = static_cast<uint32_t>(ids[i]);
    const uint32_t hash = areHashes ? id : mix32(id);
    if ((hash & of.sampled) != 0) continue;
    uint32_t slot = hash >> 16 & of.mask;
    const auto taken = [&] { return of.slots[2 * slot + 1] > 0; };
    while (taken() && of.slots[2 * slot] != static_cast<int32_t>(hash)) slot = (slot + 1) & of.mask;
    int32_t& times = of.slots[2 * slot + 1];
    if (times > 0) {
      if (times < of.countMax) times++;
      continue;
    }
    of.slots[2 * slot] = static_cast<int32_t>(hash);
    times = 1;
    counted++;
    if (2 * static_cast<int64_t>(counted) > of.mask) return i + 1;
  }
  return count;
}

/// Counts ids in runs of rows of equal length. Ids beyond the last run are not counted.
inline void countRuns(double* runs, int64_t runCount, const int32_t* ids, int64_t count,
                      double perRow) {
  for (int64_t i = 0; i < count; i++) {
    const double run = ids[i] * perRow;
    if (run >= 0 && run < static_cast<double>(runCount)) runs[static_cast<int64_t>(run)]++;
  }
}

}  // namespace osiris
