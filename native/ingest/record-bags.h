// Writes the bags of rows into records. src/data/columnar/record-columns.ts is the definition.
//
// A row that this code cannot write is unusual: its `plain` becomes 0, and the caller handles it.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace osiris {

/// The bags of a feature, with entries that are mapped to rows of its table.
struct RecordBags {
  /// A bag without entries: gets table row 0 of its own, stays empty, or is unusual.
  enum Absent { own, empty, unusual };

  Absent absent;
  const int32_t* offsets;  // first entry of each row, or of each run, then the end
  int64_t offsetCount;
  const int32_t* runs;     // (rows): the run of each row; nullptr: each row is a run
  const int32_t* rowOf;    // table row by entry, or by code
  int64_t rowCount;
  const int32_t* codes;    // dictionary codes of entries, or nullptr
  int64_t codeCount;
};

/// Longest bag of a record: its length has 16 bits.
constexpr int64_t bagIdsMax = 65'535;

/// The range of entries of a row; from > end if the offsets are invalid.
struct BagEntries {
  int64_t from, end;
};

inline BagEntries entriesAt(const RecordBags& bag, int64_t row) {
  const int64_t at = bag.runs == nullptr ? row : bag.runs[row];
  if (at < 0 || at + 1 >= bag.offsetCount) return {1, 0};
  const int64_t from = bag.offsets[at], end = bag.offsets[at + 1];
  const int64_t entries = bag.codes == nullptr ? bag.rowCount : bag.codeCount;
  if (from < 0 || end > entries) return {1, 0};
  return {from, end};
}

/// The table row of an entry; -1: it has none, or an unusual one.
inline int32_t rowOfEntry(const RecordBags& bag, int64_t entry) {
  if (bag.codes == nullptr) return bag.rowOf[entry];
  const int64_t code = bag.codes[entry];
  return code >= 0 && code < bag.rowCount ? bag.rowOf[code] : -1;
}

/// The number of ids of a row's bag; -1: the bag is unusual.
inline int64_t lengthOfBag(const RecordBags& bag, int64_t row) {
  const BagEntries entries = entriesAt(bag, row);
  const int64_t length = entries.end - entries.from;
  if (length == 0) return bag.absent == RecordBags::own ? 1 : bag.absent == RecordBags::empty ? 0 : -1;
  if (length < 0 || length > bagIdsMax) return -1;
  bool usual = true;
  for (int64_t at = entries.from; at < entries.end; at++) usual &= rowOfEntry(bag, at) != -1;
  return usual ? length : -1;
}

/// Rows of a group, whose bags are measured feature by feature.
constexpr int64_t bagRowsTogether = 64;

/// Writes `starts` (rows+1) of records with heads of `headWords` words, and sets `plain` (rows) to
/// 0 for rows with an unusual bag. Returns the words of all records; -1: more than fit an int32.
inline int64_t measureBags(int32_t* starts, uint8_t* plain, int64_t rows, int64_t headWords,
                           const std::vector<RecordBags>& bags) {
  int64_t total = 0;
  starts[0] = 0;
  for (int64_t first = 0; first < rows; first += bagRowsTogether) {
    const int64_t end = std::min(first + bagRowsTogether, rows);
    int64_t sizes[bagRowsTogether];
    std::fill_n(sizes, end - first, headWords);
    for (const RecordBags& bag : bags) {
      int64_t before = -1, length = 0;
      for (int64_t row = first; row < end; row++) {
        if (plain[row] == 0) continue;
        // Rows of the same run have the same bag.
        const bool same = bag.runs != nullptr && before >= 0 && bag.runs[row] == bag.runs[before];
        if (!same) length = lengthOfBag(bag, row);
        before = row;
        if (length < 0) plain[row] = 0;
        sizes[row - first] += length;
      }
    }
    for (int64_t row = first; row < end; row++) {
      total += plain[row] == 0 ? 0 : sizes[row - first];
      if (total > INT32_MAX) return -1;
      starts[row + 1] = static_cast<int32_t>(total);
    }
  }
  return total;
}

/// Writes records, after `measureBags`: heads (rows,headWords), whose last words are overwritten
/// with the lengths of bags, then the bags.
inline void writeBags(int32_t* words, const int32_t* starts, const uint8_t* plain, int64_t rows,
                      const int32_t* heads, int64_t headWords,
                      const std::vector<RecordBags>& bags) {
  const int64_t features = static_cast<int64_t>(bags.size());
  const int64_t lengthsAt = headWords - (features + 1) / 2;
  for (int64_t row = 0; row < rows; row++) {
    if (plain[row] == 0) continue;
    int32_t* record = words + starts[row];
    std::memcpy(record, heads + row * headWords, static_cast<size_t>(headWords) * sizeof *words);
    int32_t* lengths = record + lengthsAt;
    std::fill(lengths, record + headWords, 0);
    int32_t* to = record + headWords;
    for (int64_t t = 0; t < features; t++) {
      const RecordBags& bag = bags[static_cast<size_t>(t)];
      const BagEntries entries = entriesAt(bag, row);
      const int64_t count = entries.end - entries.from;
      if (count == 0 && bag.absent == RecordBags::own) {
        *to++ = 0;
        lengths[t / 2] |= 1 << (t % 2 * 16);
        continue;
      }
      if (bag.codes == nullptr) {
        if (count > 0) {
          std::memcpy(to, bag.rowOf + entries.from, static_cast<size_t>(count) * sizeof *to);
        }
      } else {
        for (int64_t i = 0; i < count; i++) to[i] = bag.rowOf[bag.codes[entries.from + i]];
      }
      to += count;
      lengths[t / 2] |= static_cast<int32_t>(static_cast<uint32_t>(count) << (t % 2 * 16));
    }
  }
}

}  // namespace osiris
