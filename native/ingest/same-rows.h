// Compares each row with the row before it. src/data/sessions/repeated-rows.ts is the definition.

#pragma once

#include <cstdint>
#include <cstring>

namespace osiris {

/// The entries of rows. `offsets`: first entry of each row; nullptr: each row has one entry.
struct RowWords {
  const int32_t* words;
  int64_t perEntry;
  const int32_t* offsets;

  int64_t begin(int64_t row) const { return perEntry * (offsets == nullptr ? row : offsets[row]); }
};

/// Sets same[r] = 0 for rows first .. end-1 whose entries differ from those of row r-1.
inline void markSame(uint8_t* same, int64_t first, int64_t end, const RowWords& entries) {
  for (int64_t row = first; row < end; row++) {
    if (same[row] == 0) continue;
    if (row == 0) {
      same[row] = 0;
      continue;
    }
    const int64_t before = entries.begin(row - 1), from = entries.begin(row);
    const int64_t count = entries.begin(row + 1) - from;
    const bool equal = count == from - before &&
                       (count <= 0 || std::memcmp(entries.words + from, entries.words + before,
                                                  static_cast<size_t>(count) * sizeof(int32_t)) == 0);
    if (!equal) same[row] = 0;
  }
}

/// Copies the entries of rows: row i of `out`, which begins at outOffsets[i], is row rows[i] of
/// `entries`.
inline void copyRows(int32_t* out, const int32_t* outOffsets, const int32_t* rows, int64_t count,
                     const RowWords& entries) {
  for (int64_t i = 0; i < count; i++) {
    const int64_t to = entries.perEntry * outOffsets[i];
    const int64_t size = entries.perEntry * outOffsets[i + 1] - to;
    if (size > 0) {
      std::memcpy(out + to, entries.words + entries.begin(rows[i]),
                  static_cast<size_t>(size) * sizeof *out);
    }
  }
}

}  // namespace osiris
