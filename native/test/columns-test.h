// Tests the decoding of pages and the writing of records: random bytes in memory of exact size,
// runs and packed bits, snappy, and columns of random values.

#pragma once

#include <vector>

#include "ingest/pages.h"
#include "ingest/record-bags.h"
#include "ingest/records.h"
#include "ingest/same-rows.h"
#include "test/test-support.h"

namespace osiris::test {

/// Reads packed bits of every width, in two pieces, and compares them with the packed values.
inline void testHybrid() {
  const int width = static_cast<int>(below(33));
  const int64_t groups = below(9), count = 8 * groups;
  std::vector<uint8_t> bytes{static_cast<uint8_t>(2 * groups + 1)};
  std::vector<uint32_t> values(static_cast<size_t>(count));
  for (uint32_t& value : values) value = static_cast<uint32_t>(below(int64_t{1} << width));
  for (int64_t bit = 0; bit < count * width; bit++) {
    if (bit % 8 == 0) bytes.push_back(0);
    const uint32_t set = values[static_cast<size_t>(bit / width)] >> (bit % width) & 1;
    bytes.back() = static_cast<uint8_t>(bytes.back() | set << (bit % 8));
  }
  bytes.shrink_to_fit();
  const int64_t length = static_cast<int64_t>(bytes.size());
  const HybridBytes from{bytes.data(), length, length, width};
  HybridPlace place{0, 0, false, 0};
  std::vector<int32_t> out(static_cast<size_t>(count));
  const int64_t half = count == 0 ? 0 : below(count);
  bool good = readHybrid(out.data(), half, place, from) >= 0;
  good = good && readHybrid(out.data() + half, count - half, place, from) >= 0;
  for (size_t i = 0; i < out.size(); i++) good = good && out[i] == static_cast<int32_t>(values[i]);
  expect(good, "any", "readHybrid");
  if (width == 0) return;
  const int64_t end = readHybrid(out.data(), 1, place, from);
  expect(end == hybridEnds || count == 0, "any", "readHybrid, behind the end");
}

/// Random bytes must not cause accesses out of bounds.
inline void testDamagedPages() {
  std::vector<uint8_t> bytes(static_cast<size_t>(below(40)));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(below(3) == 0 ? 255 : below(256));
  const int64_t length = static_cast<int64_t>(bytes.size());
  std::vector<int32_t> out(static_cast<size_t>(below(300)));
  const int64_t count = static_cast<int64_t>(out.size());
  const HybridBytes from{bytes.data(), length, length, static_cast<int>(below(33))};
  HybridPlace place{0, 0, false, 0};
  const int64_t most = readHybrid(out.data(), count, place, from);
  for (int32_t value : out) {
    expect(most < 0 || static_cast<uint32_t>(value) <= most, "any", "the largest of a hybrid");
  }
  std::vector<uint8_t> body(static_cast<size_t>(below(200)));
  unpackSnappy(body.data(), static_cast<int64_t>(body.size()), bytes.data(), length);
}

/// Decompresses literals and back references of all distances.
inline void testSnappy() {
  std::vector<uint8_t> packed{200, 1}, wanted;
  for (int64_t elements = 1 + below(12); elements > 0; elements--) {
    const int64_t length = 1 + below(60);
    if (wanted.empty() || below(2) == 0) {
      packed.push_back(static_cast<uint8_t>((length - 1) << 2));
      for (int64_t i = 0; i < length; i++) {
        wanted.push_back(static_cast<uint8_t>(below(256)));
        packed.push_back(wanted.back());
      }
    } else {
      const int64_t offset = 1 + below(std::min<int64_t>(20, static_cast<int64_t>(wanted.size())));
      packed.push_back(static_cast<uint8_t>(2 | (length - 1) << 2));
      packed.insert(packed.end(), {static_cast<uint8_t>(offset), 0});
      for (int64_t i = 0; i < length; i++) {
        wanted.push_back(wanted[wanted.size() - static_cast<size_t>(offset)]);
      }
    }
  }
  packed.shrink_to_fit();
  std::vector<uint8_t> body(wanted.size());
  const int64_t size = static_cast<int64_t>(body.size());
  const int64_t length = static_cast<int64_t>(packed.size());
  const bool good = unpackSnappy(body.data(), size, packed.data(), length);
  expect(good && body == wanted, "any", "unpackSnappy");
  expect(!unpackSnappy(body.data(), size - 1, packed.data(), length), "any", "snappy without room");
}

/// Writes a column of each kind, for a number of rows that is not a multiple of a group.
inline void testRecordColumns() {
  const int64_t rows = below(200), width = 5;
  std::vector<int32_t> words(static_cast<size_t>(rows * width)), offsets{0};
  std::vector<uint8_t> plain(static_cast<size_t>(rows), 1);
  std::vector<double> values(static_cast<size_t>(rows));
  for (double& value : values) value = below(5) == 0 ? NAN : static_cast<double>(below(1000));
  for (int64_t row = 0; row < rows; row++) {
    offsets.push_back(offsets.back() + static_cast<int32_t>(below(6) == 0 ? below(3) : 1));
  }
  std::vector<int32_t> codes(static_cast<size_t>(offsets.back())), rowOf(10);
  for (int32_t& code : codes) code = static_cast<int32_t>(below(11));  // Code 10 is invalid.
  for (int32_t& row : rowOf) row = static_cast<int32_t>(below(1000));
  RecordColumn same{RecordColumn::same, 0}, numbers{RecordColumn::numbers, 1},
      ids{RecordColumn::ids, 3}, coded{RecordColumn::ids, 4};
  same.value = 9;
  numbers.values = values.data();
  numbers.absent = RecordColumn::zero;
  numbers.indicator = true;
  ids.offsets = coded.offsets = offsets.data();
  ids.rowOf = codes.data();
  ids.rowCount = coded.codeCount = offsets.back();
  ids.own = true;
  coded.coded = true;
  coded.codes = codes.data();
  coded.rowOf = rowOf.data();
  coded.rowCount = 10;
  writeColumns({words.data(), width, plain.data()}, rows, {same, numbers, ids, coded});
  for (size_t row = 0; row < plain.size(); row++) {
    const size_t from = static_cast<size_t>(offsets[row]);
    const bool one = offsets[row + 1] - offsets[row] == 1;
    const bool usual = one && codes[from] < 10;
    expect((plain[row] == 1) == usual, "any", "writeColumns, what is plain");
    if (!usual) continue;
    const int32_t* record = words.data() + row * static_cast<size_t>(width);
    const bool none = std::isnan(values[row]);
    const bool good = record[0] == 9 && record[2] == bitsOfFloat(none ? 1 : 0) &&
                      record[1] == bitsOfFloat(none ? 0 : static_cast<float>(values[row])) &&
                      record[3] == codes[from] &&
                      record[4] == rowOf[static_cast<size_t>(codes[from])];
    expect(good, "any", "writeColumns, the words");
  }
}

/// Writes bags by row, and bags that the rows of a run share; with entries and with codes, some of
/// which are invalid.
inline void testRecordBags() {
  const int64_t rows = below(150), runs = 1 + below(9);
  std::vector<int32_t> own{0}, shared{0}, runOf;
  for (int64_t row = 0; row < rows; row++) {
    own.push_back(own.back() + static_cast<int32_t>(below(5)));
    runOf.push_back(static_cast<int32_t>(below(runs + (below(9) == 0 ? 1 : 0))));  // Or `runs`.
  }
  for (int64_t run = 0; run < runs; run++) {
    shared.push_back(shared.back() + static_cast<int32_t>(below(5)));
  }
  std::vector<int32_t> rowOf(static_cast<size_t>(own.back())), codes(static_cast<size_t>(shared.back()));
  for (int32_t& row : rowOf) row = static_cast<int32_t>(below(40)) - 1;
  for (int32_t& code : codes) code = static_cast<int32_t>(below(own.back() + 2));  // 2 invalid.
  const std::vector<RecordBags> bags{
      {RecordBags::own, own.data(), rows + 1, nullptr, rowOf.data(), own.back(), nullptr, 0},
      {RecordBags::empty, shared.data(), runs + 1, runOf.data(), rowOf.data(), own.back(),
       codes.data(), shared.back()}};
  const int64_t headWords = 2;
  std::vector<int32_t> heads(static_cast<size_t>(headWords * rows), 7);
  std::vector<int32_t> starts(static_cast<size_t>(rows + 1));
  std::vector<uint8_t> plain(static_cast<size_t>(rows), 1);
  const int64_t total = measureBags(starts.data(), plain.data(), rows, headWords, bags);
  std::vector<int32_t> words(static_cast<size_t>(total));
  writeBags(words.data(), starts.data(), plain.data(), rows, heads.data(), headWords, bags);
  for (size_t row = 0; row < plain.size(); row++) {
    std::vector<int32_t> wanted{7, 0};
    bool usual = true;
    for (size_t t = 0; t < 2; t++) {
      const std::vector<int32_t>& offsets = t == 0 ? own : shared;
      const size_t at = t == 0 ? row : static_cast<size_t>(runOf[row]);
      if (at + 1 >= offsets.size()) {
        usual = false;
        break;
      }
      int32_t length = offsets[at + 1] - offsets[at];
      for (int32_t entry = offsets[at]; entry < offsets[at + 1]; entry++) {
        const size_t i = static_cast<size_t>(t == 0 ? entry : codes[static_cast<size_t>(entry)]);
        const int32_t id = i < rowOf.size() ? rowOf[i] : -1;
        usual = usual && id != -1;
        wanted.push_back(id);
      }
      if (t == 0 && length == 0) wanted.push_back(0), length = 1;
      wanted[1] |= length << (t * 16);
    }
    expect((plain[row] == 1) == usual, "any", "measureBags, what is plain");
    const std::vector<int32_t> got(words.begin() + starts[row], words.begin() + starts[row + 1]);
    expect(usual ? got == wanted : got.empty(), "any", "writeBags");
  }
}

/// Detects rows that repeat the row before, and copies rows.
inline void testSameRows() {
  const int64_t rows = below(50), perEntry = 1 + below(2);
  std::vector<int32_t> offsets{0}, words;
  std::vector<std::vector<int32_t>> lists;
  for (int64_t row = 0; row < rows; row++) {
    if (row == 0 || below(2) == 0) {
      lists.emplace_back(static_cast<size_t>(perEntry * below(4)));
      for (int32_t& word : lists.back()) word = static_cast<int32_t>(below(2));
    } else {
      lists.push_back(lists.back());
    }
    words.insert(words.end(), lists.back().begin(), lists.back().end());
    offsets.push_back(static_cast<int32_t>(static_cast<int64_t>(words.size()) / perEntry));
  }
  words.shrink_to_fit();
  std::vector<uint8_t> same(static_cast<size_t>(rows), 1);
  const RowWords entries{words.data(), perEntry, offsets.data()};
  markSame(same.data(), 0, rows, entries);
  std::vector<int32_t> chosen, outOffsets{0}, wanted;
  for (size_t row = 0; row < lists.size(); row++) {
    expect((same[row] == 1) == (row > 0 && lists[row] == lists[row - 1]), "any", "markSame");
    if (below(2) == 0) continue;
    chosen.push_back(static_cast<int32_t>(row));
    wanted.insert(wanted.end(), lists[row].begin(), lists[row].end());
    outOffsets.push_back(static_cast<int32_t>(static_cast<int64_t>(wanted.size()) / perEntry));
  }
  std::vector<int32_t> out(wanted.size());
  copyRows(out.data(), outOffsets.data(), chosen.data(), static_cast<int64_t>(chosen.size()), entries);
  expect(out == wanted, "any", "copyRows");
}

}  // namespace osiris::test
