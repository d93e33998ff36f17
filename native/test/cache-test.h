// Tests the index of a cache, the conversion of rows to records and back, and undo logs.

#pragma once

#include "test/test-support.h"

namespace osiris::test {

/// A cache in buffers of exact size.
struct TestCache {
  std::vector<int32_t> rowOf, stamps, spareTable, spareFree, head;
  std::vector<uint8_t> pins;
  std::vector<uint32_t> counts;
  RowCache cache;

  TestCache(int64_t sets, int64_t spares, int64_t countsLength)
      : rowOf(sets * cacheWays + spares, -1), stamps(rowOf.size()), spareTable(2, -1),
        pins(rowOf.size()), counts(countsLength) {
    while (static_cast<int64_t>(spareTable.size()) < 2 * spares) {
      spareTable.resize(2 * spareTable.size(), -1);
    }
    for (int64_t i = 0; i < spares; i++) {
      spareFree.push_back(static_cast<int32_t>(sets * cacheWays + i));
    }
    head = {static_cast<int32_t>(spares), 0};
    cache = {sets,
             spares,
             rowOf.data(),
             stamps.data(),
             pins.data(),
             counts.data(),
             countsLength,
             spareTable.data(),
             static_cast<int64_t>(spareTable.size()),
             spareFree.data(),
             head.data()};
  }
};

/// Places rows, and releases all pinned ways or none after each call, until spare slots run out.
inline void testCache(const Kernels& k) {
  const int64_t sets = 1 + below(4), spares = below(100), rows = 50 + below(500);
  const int64_t counts = below(2) == 0 ? 0 : below(2) == 0 ? rows : 32;
  TestCache test(sets, spares, counts);
  bool good = true;
  for (int32_t tick = 1; tick <= 20 && good; tick++) {
    const int64_t n = below(150), room = std::min<int64_t>(n, test.rowOf.size());
    std::vector<int32_t> ids(n), places(n), words(5 * room);
    for (int32_t& id : ids) id = static_cast<int32_t>(below(rows));
    PlacedLists out{};
    out.placed = words.data();
    out.missed = words.data() + room;
    out.missedRows = words.data() + 2 * room;
    out.evicted = words.data() + 3 * room;
    out.evictedRows = words.data() + 4 * room;
    good = k.placeRows(test.cache, places.data(), ids.data(), n, tick, out);
    if (!good) {
      expect(test.head[0] == 0, k.name, "placeRows, a row without a place");
      break;
    }
    for (int64_t i = 0; i < n; i++) {
      expect(test.rowOf[places[i]] == ids[i], k.name, "placeRows");
      expect(test.pins[places[i]] > 0, k.name, "placeRows, its pins");
    }
    if (below(3) == 0) continue;
    // Spare slots keep their rows: only ways may be reassigned.
    for (int64_t i = 0; i < sets * cacheWays; i++) test.pins[i] = 0;
  }
}

/// Converts rows to records, reorders them, and converts them back in other slots.
inline void testRecords(const Kernels& k, Precision precision) {
  const int64_t rows = 20 + below(30), dim = 1 + below(100), width = below(3), count = below(20);
  const int64_t bytes = precision == Precision::int8 ? 1 : precision == Precision::float32 ? 4 : 2;
  std::vector<char> codes(rows * dim * bytes);
  std::vector<int8_t> exponents(precision == Precision::int8 ? rows * ((dim + 31) / 32) : 0);
  for (char& code : codes) code = static_cast<char>(below(256));
  for (int8_t& exponent : exponents) exponent = static_cast<int8_t>(below(100));
  Buffer state(rows * width);
  std::vector<uint8_t> touched(rows, 1);
  Table table{};
  if (precision == Precision::float32) table.weights = reinterpret_cast<float*>(codes.data());
  else table.codes = codes.data();
  // Without state, as in a served model: no memory is allocated for it.
  table.state = width == 0 ? nullptr : state.data();
  table.touched = touched.data();
  table.rows = rows;
  table.dim = table.tableDim = dim;
  table.stateWidth = width;
  table.precision = precision;
  table.exponents = exponents.data();
  const int64_t each = dim * bytes + (precision == Precision::int8 ? (dim + 31) / 32 : 0);
  const int64_t size = (each + 3) / 4 * 4 + width * 4;
  std::vector<int32_t> places, order;
  for (int64_t i = 0; i < count; i++) {
    places.push_back(static_cast<int32_t>(i + below(rows - 19)));
    order.push_back(static_cast<int32_t>(count - 1 - i));
  }
  std::vector<char> out(count * size), store(count * size), again(count * size);
  k.gatherRecords(out.data(), table, places.data(), count);
  k.moveRecords(store.data(), order.data(), out.data(), nullptr, count, size);
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < count; i++) targets.push_back(static_cast<int32_t>(rows - 1 - i));
  k.scatterRecords(table, targets.data(), count, store.data(), order.data());
  k.gatherRecords(again.data(), table, targets.data(), count);
  expect(out == again, k.name, "records");
  for (const int32_t target : targets) expect(touched[target] == 0, k.name, "scatterRecords");
  const uint32_t key[2] = {1, 2};
  k.bornAt(table, places.data(), targets.data(), count, key, 3, 0.5f, 0.25f);
  for (const int32_t place : places) {
    expect(width == 0 || state[place * width] == 0.25f, k.name, "bornAt, its state");
  }
}

/// Appends rows of some tiles to a log of exact size until it is full, and compares them.
inline void testUndo(const Kernels& k) {
  const int64_t lines = 1 + below(400), tiles = 1 + below(3);
  std::vector<std::vector<char>> arrays;
  std::vector<std::vector<uint32_t>> seen;
  std::vector<int64_t> rows;
  std::vector<UndoneTile> all(static_cast<size_t>(tiles));
  for (int64_t t = 0; t < tiles; t++) {
    rows.push_back(1 + below(100));
    seen.emplace_back(static_cast<size_t>((rows.back() + 31) / 32));
    all[t].tile = t;
    all[t].arrays = 1 + below(keptArraysMax);
    for (int64_t a = 0; a < all[t].arrays; a++) {
      const int64_t widths[] = {1, 4, 64, 256, 1 + below(300)};
      all[t].rowBytes[a] = widths[below(5)];
      arrays.emplace_back(static_cast<size_t>(rows.back() * all[t].rowBytes[a]));
      for (char& byte : arrays.back()) byte = static_cast<char>(below(256));
      all[t].of[a] = arrays.back().data();
    }
  }
  for (int64_t t = 0; t < tiles; t++) all[t].seen = seen[t].data();
  std::vector<char> log(static_cast<size_t>(64 * lines));
  int32_t used = 0;
  for (int step = 0; step < 20; step++) {
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < tiles; t++) {
      all[t].first = static_cast<int64_t>(ids.size());
      for (int64_t n = below(40); n > 0; n--) ids.push_back(static_cast<int32_t>(below(rows[t])));
      all[t].end = static_cast<int64_t>(ids.size());
    }
    const int32_t before = used;
    if (!k.keepRows(log.data(), lines, &used, all.data(), tiles, ids.data())) {
      expect(used == before, k.name, "keepRows, without room");
      break;
    }
    for (int64_t line = before; line < used;) {
      const int32_t* head = reinterpret_cast<const int32_t*>(log.data() + 64 * line);
      const UndoneTile& tile = all[head[0]];
      const char* next = reinterpret_cast<const char*>(head + 4 + head[1]);
      for (int64_t a = 0; a < tile.arrays; a++) {
        const int64_t bytes = tile.rowBytes[a];
        for (int64_t i = 0; i < head[1]; i++) {
          const char* row = tile.of[a] + head[4 + i] * bytes;
          expect(std::memcmp(next + i * bytes, row, bytes) == 0, k.name, "keepRows");
        }
        next += (bytes * head[1] + 3) / 4 * 4;
      }
      line += head[2];
    }
  }
}

}  // namespace osiris::test
