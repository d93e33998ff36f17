// Compares rows with the row before them, as src/data/sessions/same-rows.ts defines it.

#pragma once

#include <cstdint>
#include <cstring>

namespace osiris {

/// The entries of rows; `offsets` is nullptr where each row has one.
struct RowWords {
  const int32_t* words;
  int64_t perEntry;
  const int32_t* offsets;

  int64_t begin(int64_t row) const { return perEntry * (offsets == nullptr ? row : offsets[row]); }
};

/// same[r] = 0 for rows first .. end-1 whose entries are not those of row r-1.
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
