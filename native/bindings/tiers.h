// Bindings of the kernels of memory tiers: the index of a cache, and files of records.

#pragma once

#include "bindings/arguments.h"
#include "bindings/running.h"
#include "tiers/record-file.h"

namespace osiris {

/// rowOf, stamps, pins, counts, spareTable, spareFree, head, sets.
template <>
struct Argument<RowCache> {
  static constexpr size_t count = 8;
  RowCache value{};
  Argument(Call& call, size_t i) {
    value.rowOf = call.array<int32_t>(i);
    value.stamps = call.array<int32_t>(i + 1);
    value.pins = call.array<uint8_t>(i + 2);
    value.counts = call.array<uint32_t>(i + 3, &value.countsLength);
    value.spareTable = call.array<int32_t>(i + 4, &value.spareTableLength);
    value.spareFree = call.array<int32_t>(i + 5, &value.spares);
    value.head = call.array<int32_t>(i + 6);
    value.sets = call.integer(i + 7);
  }
  const RowCache& get() const { return value; }
};

/// Descriptor, bytes of a record.
template <>
struct Argument<RecordFile> {
  static constexpr size_t count = 2;
  RecordFile value;
  Argument(Call& call, size_t i) : value{static_cast<int>(call.integer(i)), call.integer(i + 1)} {}
  const RecordFile& get() const { return value; }
};

/// Tiles whose rows change: the list of their bits, the list of all their arrays, numbers as
/// `listUndone` in src/kernels/table/lists.ts writes them, ids, and a range of ids for each tile.
struct UndoneTiles {
  std::vector<UndoneTile> tiles;
  const int32_t* ids = nullptr;
};
template <>
struct Argument<UndoneTiles> {
  static constexpr size_t count = 5;
  UndoneTiles value;
  [[gnu::noinline]] Argument(Call& call, size_t i) {
    const auto numbers = Argument<Array<const int32_t>>(call, i + 2).value;
    value.ids = call.array<int32_t>(i + 3);
    const auto ranges = Argument<Array<const int32_t>>(call, i + 4).value;
    if (!call.valid()) return;
    value.tiles.resize(call.count(i));
    const int32_t* next = numbers.data;
    uint32_t array = 0;
    for (size_t t = 0; t < value.tiles.size(); t++) {
      UndoneTile& tile = value.tiles[t];
      tile.tile = *next++;
      tile.seen = static_cast<uint32_t*>(call.element(i, t, napi_int32_array));
      tile.first = ranges.data[2 * t];
      tile.end = ranges.data[2 * t + 1];
      tile.arrays = *next++;
      for (int64_t a = 0; a < tile.arrays; a++) {
        tile.of[a] = static_cast<const char*>(call.element(i + 1, array++, napi_uint8_array));
        tile.rowBytes[a] = *next++;
      }
    }
  }
  const UndoneTiles& get() const { return value; }
};

namespace binding {

inline bool keepRows(Array<char> log, int32_t* used, const UndoneTiles& of) {
  return running().keepRows(log.data, log.length / 64, used, of.tiles.data(),
                            static_cast<int64_t>(of.tiles.size()), of.ids);
}

/// Returns false if a row finds no slot. words: the five lists of the result. found (5): the counts
/// for `placedOf`.
inline bool placeRows(const RowCache& cache, int32_t* places, Array<const int32_t> ids,
                      int32_t tick, Array<int32_t> words, int32_t* found) {
  const int64_t room = words.length / 5;
  PlacedLists out{};
  int32_t** const lists[] = {&out.placed, &out.missed, &out.missedRows, &out.evicted,
                             &out.evictedRows};
  for (int i = 0; i < 5; i++) *lists[i] = words.data + i * room;
  const bool good = running().placeRows(cache, places, ids.data, ids.length, tick, out);
  const int64_t counts[] = {out.distinct, out.missedCount, out.evictedCount, out.conflicts,
                            out.conflictLookups};
  for (int i = 0; i < 5; i++) found[i] = static_cast<int32_t>(counts[i]);
  return good;
}

/// Writes the outcome of a batch of records: index of the first row that failed, errno, number of
/// system calls.
inline void write(double* outcome, const RecordOutcome& of) {
  outcome[0] = static_cast<double>(of.at);
  outcome[1] = of.error;
  outcome[2] = static_cast<double>(of.calls);
}

inline void readRecords(double* outcome, const RecordFile& file, Array<const int32_t> rows,
                        const uint8_t* wanted, uint8_t* records) {
  write(outcome, osiris::readRecords(file, rows.data, wanted, rows.length, records));
}

inline void writeRecords(double* outcome, const RecordFile& file, Array<const int32_t> rows,
                         const uint8_t* records) {
  write(outcome, osiris::writeRecords(file, rows.data, rows.length, records));
}

/// Returns an errno, or 0 for success.
inline int64_t dropCached(int64_t descriptor) {
  return osiris::dropCached(static_cast<int>(descriptor));
}

}  // namespace binding

}  // namespace osiris
