// Writes columns into the records of a data cache. src/data/columnar/record-columns.ts is the
// definition. A value that this code cannot write is unusual: the row's `plain` becomes 0, and the
// caller handles the row.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace osiris {

/// Memory for the records of a batch: words (rows,width), plain (rows).
struct RecordMemory {
  int32_t* words;
  int64_t width;
  uint8_t* plain;
};

/// A column, which is written to one word of every record, or to two with `indicator`.
struct RecordColumn {
  enum Kind { same, numbers, ids };
  enum Absent { unusual, zero, none };

  Kind kind;
  int64_t at;
  int32_t value = 0;               // of kind `same`
  const double* values = nullptr;  // of kind `numbers`
  Absent absent = unusual;
  bool indicator = false;
  const int32_t* offsets = nullptr;  // of kind `ids`: (rows+1)
  const int32_t* rowOf = nullptr;    // table row by entry, or by code
  int64_t rowCount = 0;
  bool coded = false;
  const int32_t* codes = nullptr;  // dictionary codes of entries
  int64_t codeCount = 0;
  bool own = false;  // whether a row without an id gets table row 0
};

inline int32_t bitsOfFloat(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline void writeNumbers(const RecordMemory& out, const RecordColumn& column, int64_t first,
                         int64_t end) {
  const int32_t absent = bitsOfFloat(
      column.absent == RecordColumn::none ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
  int32_t* to = out.words + first * out.width + column.at;
  for (int64_t row = first; row < end; row++, to += out.width) {
    const double value = column.values[row];
    const float narrow = static_cast<float>(value);
    const bool there = std::isfinite(narrow);
    if (there) {
      *to = bitsOfFloat(narrow);
    } else if (std::isnan(value) && column.absent != RecordColumn::unusual) {
      *to = absent;
    } else {
      out.plain[row] = 0;
    }
    if (column.indicator) to[1] = bitsOfFloat(there ? 0.0f : 1.0f);
  }
}

/// The table row of an entry; -1: it has none, or an unusual one.
inline int32_t rowOfEntry(const RecordColumn& column, int64_t entry) {
  int64_t at = entry;
  if (column.coded) {
    if (entry < 0 || entry >= column.codeCount) return -1;
    at = column.codes[entry];
  }
  return at >= 0 && at < column.rowCount ? column.rowOf[at] : -1;
}

inline void writeIds(const RecordMemory& out, const RecordColumn& column, int64_t first,
                     int64_t end) {
  int32_t* to = out.words + first * out.width + column.at;
  int32_t from = column.offsets[first];
  for (int64_t row = first; row < end; row++, to += out.width) {
    const int32_t next = column.offsets[row + 1];
    int32_t id = -1;
    if (next - from == 1) {
      id = rowOfEntry(column, from);
    } else if (next == from && column.own) {
      id = 0;
    }
    *to = id;
    if (id == -1) out.plain[row] = 0;
    from = next;
  }
}

/// Writes columns to the first `rows` records.
inline void writeColumns(const RecordMemory& out, int64_t rows,
                         const std::vector<RecordColumn>& columns) {
  // A group of rows whose records stay in the first-level cache.
  constexpr int64_t rowsTogether = 64;
  for (int64_t first = 0; first < rows; first += rowsTogether) {
    const int64_t end = std::min(first + rowsTogether, rows);
    for (const RecordColumn& column : columns) {
      if (column.kind == RecordColumn::numbers) {
        writeNumbers(out, column, first, end);
      } else if (column.kind == RecordColumn::ids) {
        writeIds(out, column, first, end);
      } else {
        int32_t* to = out.words + first * out.width + column.at;
        for (int64_t row = first; row < end; row++, to += out.width) *to = column.value;
      }
    }
  }
}

}  // namespace osiris
