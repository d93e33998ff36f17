// Hashes of rows for the digest of a table: the sums of src/embedding/rows/digest.ts, which defines
// them.

#pragma once

#include <cstdint>
#include <cstring>

#include "bindings/call.h"

namespace osiris::binding {

/// The two hashes of some words of a row (src/embedding/rows/digest.ts).
struct RowHash {
  uint32_t a, b;

  RowHash(uint32_t row, int64_t quantum) {
    const uint32_t salt = static_cast<uint32_t>(quantum + 2) * 0x9e3779b1u;
    a = finish(row ^ salt ^ 0x2545f491u);
    b = finish(row * 0x85ebca77u ^ salt ^ 0x5bd1e995u);
  }
  void mix(const float* words, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
      uint32_t word;
      std::memcpy(&word, words + i, sizeof word);
      a = turned(a ^ turned(word * 0xcc9e2d51u, 15) * 0x1b873593u, 13) * 5 + 0xe6546b64u;
      b = turned(b ^ turned(word * 0x239b961bu, 16) * 0xab0e9789u, 17) * 5 + 0x0bcaa747u;
    }
  }
  void addTo(uint32_t* sum) const {
    sum[0] += finish(a);
    sum[1] += finish(b);
  }

 private:
  static uint32_t turned(uint32_t word, int by) { return word << by | word >> (32 - by); }
  static uint32_t finish(uint32_t h) {
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
  }
};

/// hashes (n, words): those of records i with wanted[i], or of all.
inline void hashRows(uint32_t* hashes, Array<const int32_t> rows, const float* weights,
                     const float* state, Optional<const uint8_t> wanted, int64_t firstQuantum,
                     int64_t columns, int64_t copies, int64_t perRow, int64_t words) {
  const int64_t width = copies * columns + perRow;
  for (int64_t i = 0; i < rows.length; i++) {
    if (wanted != nullptr && wanted[i] == 0) continue;
    uint32_t* const own = hashes + i * words;
    std::memset(own, 0, static_cast<size_t>(words) * sizeof(uint32_t));
    const uint32_t row = static_cast<uint32_t>(rows.data[i]);
    const float* const states = state + i * width;
    for (int64_t first = 0; first < columns; first += 32) {
      const int64_t count = columns - first < 32 ? columns - first : 32;
      RowHash hash(row, firstQuantum + first / 32);
      hash.mix(weights + i * columns + first, count);
      for (int64_t c = 0; c < copies; c++) hash.mix(states + c * columns + first, count);
      hash.addTo(own);
    }
    if (perRow == 0) continue;
    RowHash hash(row, -1);
    hash.mix(states + copies * columns, perRow);
    hash.addTo(own + words - 2);
  }
}

}  // namespace osiris::binding
