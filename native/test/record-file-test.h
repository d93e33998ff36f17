// Tests files of records: records are read back, and a flipped bit is detected.

#pragma once

#include <cstdlib>
#include <string>

#include "tiers/record-file.h"
#include "test/test-support.h"

namespace osiris::test {

/// Writes records of a random size, reads them back in other batches, and detects flipped bits.
inline void testRecordFile() {
  const char* directory = getenv("TMPDIR");
  std::string path = std::string(directory == nullptr ? "/tmp" : directory) + "/records-XXXXXX";
  const int descriptor = mkstemp(path.data());
  unlink(path.c_str());
  const RecordFile file{descriptor, 1 + below(9000)};
  std::vector<std::vector<uint8_t>> known(static_cast<size_t>(2 + below(300)));
  for (int round = 0; round < 8; round++) {
    std::vector<int32_t> rows;
    for (size_t row = 0; row < known.size(); row++) {
      if (below(3) == 0) rows.push_back(static_cast<int32_t>(row));
    }
    const int64_t count = static_cast<int64_t>(rows.size());
    std::vector<uint8_t> records(rows.size() * file.recordBytes);
    if (round % 2 == 0) {
      for (uint8_t& byte : records) byte = static_cast<uint8_t>(below(256));
      const auto outcome = writeRecords(file, rows.data(), count, records.data());
      expect(outcome.at == -1, "any", "writeRecords");
      for (int64_t i = 0; i < count; i++) {
        const uint8_t* at = records.data() + i * file.recordBytes;
        known[rows[i]].assign(at, at + file.recordBytes);
      }
      if (round % 4 == 0) expect(dropCached(descriptor) == 0, "any", "dropCached");
      continue;
    }
    std::vector<uint8_t> wanted(rows.size());
    for (int64_t i = 0; i < count; i++) wanted[i] = !known[rows[i]].empty();
    const auto outcome = readRecords(file, rows.data(), wanted.data(), count, records.data());
    expect(outcome.at == -1, "any", "readRecords");
    for (int64_t i = 0; i < count; i++) {
      const uint8_t* at = records.data() + i * file.recordBytes;
      const auto& row = known[rows[i]];
      expect(std::equal(row.begin(), row.end(), at), "any", "readRecords, a record");
    }
  }
  for (size_t row = 0; row < known.size(); row++) {
    const int32_t rows[] = {static_cast<int32_t>(row)};
    const uint8_t wanted[] = {1};
    std::vector<uint8_t> record(static_cast<size_t>(file.recordBytes));
    const int64_t at = row * file.stride() + below(4 + file.recordBytes);
    uint8_t byte = 0;
    if (!known[row].empty() && pread(descriptor, &byte, 1, at) == 1) {
      byte ^= static_cast<uint8_t>(1 << below(8));
      expect(pwrite(descriptor, &byte, 1, at) == 1, "any", "a flipped bit");
    }
    const auto outcome = readRecords(file, rows, wanted, 1, record.data());
    expect(outcome.at == 0 && outcome.error == 0, "any", "readRecords, damaged or a hole");
  }
  close(descriptor);
  const int32_t row = 0;
  const uint8_t byte = 1;
  std::vector<uint8_t> record(static_cast<size_t>(file.recordBytes));
  const auto read = readRecords(file, &row, &byte, 1, record.data());
  expect(read.at == 0 && read.error == EBADF, "any", "readRecords, a closed file");
  const auto written = writeRecords(file, &row, 1, record.data());
  expect(written.at == 0 && written.error == EBADF, "any", "writeRecords, a closed file");
}

}  // namespace osiris::test
