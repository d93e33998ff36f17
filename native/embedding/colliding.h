// Finds the bags of a batch that have a row of another batch: the rows that an update between the
// two changes. Memory follows the ids of a batch, not the rows of a table.

#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"

namespace osiris {

/// The rows of one table in a batch: a bit for each row of the table, or, where the table has many
/// more rows than the batch has ids, a hash table of the ids.
class RowMarks {
 public:
  void mark(const int32_t* ids, int64_t count, int64_t rows) {
    isHashed = rows > bitsPerId * count;
    if (!isHashed) {
      bits.assign(rows / 64 + 1, 0);
      for (int64_t k = 0; k < count; k++) bits[word(ids[k])] |= bit(ids[k]);
      return;
    }
    int64_t slots = 16;
    shift = 64 - 4;
    for (; slots < 2 * count; slots *= 2) shift--;
    keys.assign(slots, -1);
    for (int64_t k = 0; k < count; k++) keys[slotOf(ids[k])] = ids[k];
  }

  bool has(int32_t id) const {
    return isHashed ? keys[slotOf(id)] == id : (bits[word(id)] & bit(id)) != 0;
  }

 private:
  static constexpr int64_t bitsPerId = 64;
  bool isHashed = false;
  int shift = 0;
  std::vector<uint64_t> bits;
  std::vector<int32_t> keys;  // -1: free

  static size_t word(int32_t id) { return static_cast<uint32_t>(id) / 64; }
  static uint64_t bit(int32_t id) { return uint64_t{1} << (static_cast<uint32_t>(id) % 64); }

  /// The slot of an id, or the free slot where it belongs.
  size_t slotOf(int32_t id) const {
    const size_t last = keys.size() - 1;
    // Fibonacci hashing: the high bits of the product.
    size_t slot = (static_cast<uint32_t>(id) * uint64_t{0x9e3779b97f4a7c15}) >> shift;
    while (keys[slot] != id && keys[slot] != -1) slot = (slot + 1) & last;
    return slot;
  }
};

/// Writes the indices of the bags of `next` that have a row of `current` in the same table to `out`,
/// as far as there is room for `most`. Returns their number.
inline int64_t collidingBags(int32_t* out, int64_t most, const Table* tables, const Bags& next,
                             const Bags& current) {
  static thread_local RowMarks marks;
  int64_t found = 0;
  for (int64_t first = 0; first < next.tables; first += tables[first].lookups) {
    const int64_t end = first + tables[first].lookups;
    const int64_t begin = current.offsets[first * current.samples];
    const int64_t count = current.offsets[end * current.samples] - begin;
    if (count == 0) continue;
    marks.mark(current.ids + begin, count, tables[first].rows);
    for (int64_t bag = first * next.samples; bag < end * next.samples; bag++) {
      const int32_t* id = next.ids + next.offsets[bag];
      const int32_t* const stop = next.ids + next.offsets[bag + 1];
      while (id < stop && !marks.has(*id)) id++;
      if (id == stop) continue;
      if (found < most) out[found] = static_cast<int32_t>(bag);
      found++;
    }
  }
  return found;
}

}  // namespace osiris
