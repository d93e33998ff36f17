// Feature transforms of whole columns. src/data/transforms/whole-columns.ts is the definition.

#pragma once

#include <cstdint>

namespace osiris {

/// Parameters of a hash into ids 0 .. max-1; `max` is at most 2^48.
struct HashArguments {
  uint64_t salt;
  int64_t max;
};

/// Thomas Wang's mix of a 64-bit integer (folly, twang_mix64).
inline uint64_t twangMix64(uint64_t k) {
  k = ~k + (k << 21);
  k ^= k >> 24;
  k *= 265;
  k ^= k >> 14;
  k *= 21;
  k ^= k >> 28;
  return k + (k << 31);
}

/// folly's hash_128_to_64: CityHash's mix.
inline uint64_t hashCombine(uint64_t upper, uint64_t lower) {
  constexpr uint64_t factor = 0x9ddfea08eb382d69;
  uint64_t a = (lower ^ upper) * factor;
  a ^= a >> 47;
  uint64_t b = (upper ^ a) * factor;
  b ^= b >> 47;
  return b * factor;
}

/// TorchArrow's sigrid_hash: the positive remainder of the salted mix.
inline int64_t sigridHashOf(uint64_t id, const HashArguments& hash) {
  const int64_t mixed = static_cast<int64_t>(hashCombine(hash.salt, twangMix64(id)));
  const int64_t rest = mixed % hash.max;
  return rest < 0 ? rest + hash.max : rest;
}

inline void sigridHash(int64_t* out, const int64_t* ids, int64_t count, const HashArguments& hash) {
  for (int64_t i = 0; i < count; i++) out[i] = sigridHashOf(static_cast<uint64_t>(ids[i]), hash);
}

/// out[i] = the number of borders below values[i]; a border that occurs twice has its own bucket,
/// for values equal to it. NaN gives 0.
inline void bucketize(int64_t* out, const double* values, int64_t count, const double* borders,
                      int64_t borderCount) {
  for (int64_t i = 0; i < count; i++) {
    const double value = values[i];
    // The binary search has no branch on a value, as the processor could not predict it.
    const double* at = borders;
    int64_t left = borderCount;
    while (left > 0) {
      const int64_t half = left / 2;
      const bool below = at[half] < value;
      at = below ? at + half + 1 : at;
      left = below ? left - half - 1 : half;
    }
    const int64_t low = at - borders;
    const bool next = low < borderCount - 1 && value >= at[1];
    out[i] = low + (next ? 1 : 0);
  }
}

/// n-grams: hashes each window of n consecutive ids of a row to one id; row r has the windows
/// outOffsets[r] .. outOffsets[r+1]-1. `mixed`: scratch for as many words as ids.
inline void nGram(int64_t* out, const int32_t* outOffsets, const int64_t* ids,
                  const int32_t* offsets, int64_t rows, int64_t n, uint64_t* mixed,
                  const HashArguments& hash) {
  for (int64_t i = 0; i < offsets[rows]; i++) mixed[i] = twangMix64(static_cast<uint64_t>(ids[i]));
  for (int64_t row = 0; row < rows; row++) {
    const uint64_t* first = mixed + offsets[row];
    for (int64_t at = outOffsets[row]; at < outOffsets[row + 1]; at++, first++) {
      uint64_t id = first[0];
      for (int64_t i = 1; i < n; i++) id = hashCombine(id, first[i]);
      out[at] = sigridHashOf(id, hash);
    }
  }
}

}  // namespace osiris
