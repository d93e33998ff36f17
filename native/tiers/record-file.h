// Flat files of records, which the SSD tier reads and writes in batches. Row r of a file is at
// offset r * stride: CRC32C of its number and its bytes, then its bytes. A hole means that there is
// no record. The format is that of storage/tiers/records/record-file.ts.
//
// Files are accessed by pread and pwrite and not mapped, so that a full or broken disk gives an
// error and not a signal.

#pragma once

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "simd/crc32c.h"

namespace osiris {

/// Most bytes of one read or write (a span), which covers near rows. A read includes gaps of up to
/// `gapBytesMax` between them, as copying unneeded rows is cheaper than another call.
constexpr int64_t spanBytesMax = 256 << 10;
constexpr int64_t gapBytesMax = 4096;
constexpr int64_t pageBytes = 4096;
/// Most concurrent disk reads of a batch.
constexpr int64_t depthMax = 64;

struct RecordFile {
  int descriptor;
  int64_t recordBytes;

  int64_t stride() const { return (4 + recordBytes + 3) / 4 * 4; }
};

/// The outcome of a batch. `at`: index of the first row that failed, or -1. `error`: its errno, or
/// 0 if the row's bytes are corrupt. `calls`: number of system calls.
struct RecordOutcome {
  int64_t at = -1;
  int error = 0;
  int64_t calls = 0;
};

/// The checksum of a record, which is never 0, as holes read as 0.
inline uint32_t sealOf(int32_t row, const uint8_t* record, int64_t count) {
  uint8_t number[4];
  std::memcpy(number, &row, 4);
  const uint32_t crc = crc32c(record, count, crc32c(number, 4));
  return crc == 0 ? 1 : crc;
}

/// Reads `count` bytes; bytes after the end of the file are zeros. Returns an errno.
inline int readSpan(int descriptor, uint8_t* bytes, int64_t count, int64_t offset,
                    RecordOutcome& outcome) {
  int64_t done = 0;
  while (done < count) {
    outcome.calls++;
    const ssize_t got = pread(descriptor, bytes + done, count - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) break;
    done += got;
  }
  std::memset(bytes + done, 0, count - done);
  return 0;
}

/// Reads from the page cache. Returns false if it lacks some bytes, which the system then starts to
/// fetch from the disk.
inline bool readCached(int descriptor, uint8_t* bytes, int64_t count, int64_t offset,
                       RecordOutcome& outcome) {
#if defined(__linux__) && defined(RWF_NOWAIT)
  iovec span{bytes, static_cast<size_t>(count)};
  outcome.calls++;
  const ssize_t got = preadv2(descriptor, &span, 1, offset, RWF_NOWAIT);
  if (got == count) return true;
  if (got == 0) return false; // Past the end: nothing to fetch.
  posix_fadvise(descriptor, offset, count, POSIX_FADV_WILLNEED);
#else
  (void)descriptor, (void)bytes, (void)count, (void)offset, (void)outcome;
#endif
  return false;
}

/// Checks and copies the requested rows of a span. Returns false at the first corrupt row.
inline bool unpackSpan(const RecordFile& file, const uint8_t* span, const int32_t* rows,
                       const uint8_t* wanted, int64_t begin, int64_t end, uint8_t* records,
                       RecordOutcome& outcome) {
  for (int64_t i = begin; i < end; i++) {
    if (!wanted[i]) continue;
    const uint8_t* at = span + (rows[i] - static_cast<int64_t>(rows[begin])) * file.stride();
    uint32_t seal;
    std::memcpy(&seal, at, 4);
    if (seal != sealOf(rows[i], at + 4, file.recordBytes)) {
      outcome.at = i;
      return false;
    }
    std::memcpy(records + i * file.recordBytes, at + 4, file.recordBytes);
  }
  return true;
}

/// Reads the records of the `wanted` rows among `rows` (count, ascending), record i to records + i
/// * recordBytes. The disk fetches up to `depthMax` spans that are not in the page cache at a time.
inline RecordOutcome readRecords(const RecordFile& file, const int32_t* rows,
                                 const uint8_t* wanted, int64_t count, uint8_t* records) {
  static thread_local std::vector<uint8_t> span;
  const int64_t stride = file.stride();
  struct Late {
    int64_t begin, end;
  };
  std::vector<Late> late;
  RecordOutcome outcome;
  span.resize(std::max(spanBytesMax, stride));
  const auto fetch = [&](int64_t begin, int64_t end, bool wait) {
    const int64_t bytes = (rows[end - 1] - static_cast<int64_t>(rows[begin]) + 1) * stride;
    const int64_t offset = rows[begin] * stride;
    if (!wait && !readCached(file.descriptor, span.data(), bytes, offset, outcome)) {
      late.push_back({begin, end});
      return true;
    }
    if (wait) outcome.error = readSpan(file.descriptor, span.data(), bytes, offset, outcome);
    if (outcome.error == 0) {
      return unpackSpan(file, span.data(), rows, wanted, begin, end, records, outcome);
    }
    outcome.at = begin;
    return false;
  };
  for (int64_t begin = 0; begin < count;) {
    if (!wanted[begin]) {
      begin++;
      continue;
    }
    int64_t end = begin + 1;
    for (int64_t next = end; next < count; next++) {
      if ((rows[next] - static_cast<int64_t>(rows[end - 1]) - 1) * stride > gapBytesMax) break;
      if ((rows[next] - static_cast<int64_t>(rows[begin]) + 1) * stride > spanBytesMax) break;
      if (wanted[next]) end = next + 1;
    }
    if (!fetch(begin, end, false)) return outcome;
    begin = end;
    if (static_cast<int64_t>(late.size()) < depthMax && begin < count) continue;
    for (const auto& [from, to] : late) {
      if (!fetch(from, to, true)) return outcome;
    }
    late.clear();
  }
  for (const auto& [from, to] : late) {
    if (!fetch(from, to, true)) return outcome;
  }
  return outcome;
}

/// Writes a span. Returns false, with outcome.error, if it fails.
inline bool writeSpan(int descriptor, const uint8_t* bytes, int64_t count, int64_t offset,
                      RecordOutcome& outcome) {
  for (int64_t done = 0; done < count;) {
    outcome.calls++;
    const ssize_t put = pwrite(descriptor, bytes + done, count - done, offset + done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      outcome.error = put < 0 ? errno : EIO;
      return false;
    }
    done += put;
  }
  return true;
}

/// Writes the records of `rows` (count, ascending), neighbours in one call. If it fails, rows
/// before outcome.at are written; later rows may be written, entirely or in part. As a row usually
/// covers only part of a page, the system has to read the page first: the disk fetches missing
/// pages for up to `depthMax` rows at a time.
inline RecordOutcome writeRecords(const RecordFile& file, const int32_t* rows, int64_t count,
                                  const uint8_t* records) {
  static thread_local std::vector<uint8_t> span;
  const int64_t stride = file.stride();
  RecordOutcome outcome;
  span.resize(std::max(spanBytesMax, stride));
  uint8_t first;
  int64_t asked = 0, page = -1;
  for (int64_t begin = 0, end = 0; begin < count; begin = end) {
    for (; asked < count && asked < begin + depthMax; asked++) {
      const int64_t offset = rows[asked] * stride;
      if (offset / pageBytes == page) continue;
      page = offset / pageBytes;
      readCached(file.descriptor, &first, 1, offset, outcome);
    }
    int64_t bytes = 0;
    do {
      const uint8_t* record = records + end * file.recordBytes;
      const uint32_t seal = sealOf(rows[end], record, file.recordBytes);
      std::memcpy(&span[bytes], &seal, 4);
      std::memcpy(&span[bytes + 4], record, file.recordBytes);
      std::memset(&span[bytes + 4 + file.recordBytes], 0, stride - 4 - file.recordBytes);
      bytes += stride;
      end++;
    } while (end < count && rows[end] == rows[end - 1] + 1 && bytes + stride <= spanBytesMax);
    if (!writeSpan(file.descriptor, span.data(), bytes, rows[begin] * stride, outcome)) {
      outcome.at = begin;
      return outcome;
    }
  }
  return outcome;
}

/// Writes a file's dirty pages and drops its page cache, so that the next read goes to the disk.
/// Returns an errno.
inline int dropCached(int descriptor) {
#if defined(__linux__)
  if (fdatasync(descriptor) != 0) return errno;
  return posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
#else
  return fsync(descriptor) == 0 ? 0 : errno;
#endif
}

}  // namespace osiris
