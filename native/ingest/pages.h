// Decodes pages of Parquet. src/data/parquet/decode/page-decoders.ts is the definition.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace osiris {

/// The eight bytes from `at` on as a little-endian word; bytes after `length` are 0.
inline uint64_t wordAt(const uint8_t* bytes, int64_t at, int64_t length) {
  uint64_t word = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  if (at + 8 <= length) {
    std::memcpy(&word, bytes + at, sizeof word);
    return word;
  }
#endif
  for (int64_t i = std::min<int64_t>(8, length - at); i-- > 0;) word = word << 8 | bytes[at + i];
  return word;
}

/// Bytes of Parquet's RLE/bit-packing hybrid encoding. `end`: end of the encoded data. `length`:
/// end of the readable memory.
struct HybridBytes {
  const uint8_t* bytes;
  int64_t length, end;
  int width;
};

/// The position of a reader: the next byte, the values left in the current run, whether the run is
/// bit-packed, and its value, or, if packed, the number of bits of the next byte that are consumed.
struct HybridPlace {
  int64_t at, left;
  bool packed;
  uint32_t value;
};

/// Errors of the encoding: it ends too early; the header of a run is too long.
constexpr int64_t hybridEnds = -1, hybridRunTooLong = -2;

/// Begins the next run. Returns 0, or a negative error.
inline int64_t beginRun(HybridPlace& place, const HybridBytes& from) {
  int64_t header = 0;
  for (int i = 0;; i++) {
    if (i == 5) return hybridRunTooLong;
    if (place.at >= from.end) return hybridEnds;
    const uint8_t one = from.bytes[place.at++];
    header |= static_cast<int64_t>(one & 127) << (7 * i);
    if (one < 128) break;
  }
  place.packed = header % 2 == 1;
  place.value = 0;
  if (place.packed) {
    // The last group may be truncated after its last value.
    const int64_t there = (from.end - place.at) * 8 / from.width;
    place.left = std::min(8 * (header / 2), there);
  } else {
    place.left = header / 2;
    const int64_t size = (from.width + 7) / 8;
    if (size > from.end - place.at) return hybridEnds;
    for (int64_t i = 0; i < size; i++) {
      place.value |= static_cast<uint32_t>(from.bytes[place.at++]) << (8 * i);
    }
  }
  return place.left == 0 && place.at >= from.end ? hybridEnds : 0;
}

/// Writes the next `count` packed values of the run. Returns the largest value.
inline uint32_t unpackBits(int32_t* out, int64_t count, HybridPlace& place,
                           const HybridBytes& from) {
  const uint64_t mask = (uint64_t{1} << from.width) - 1;
  const uint8_t* bytes = from.bytes + place.at;
  const int64_t length = from.length - place.at;
  int64_t bit = place.value;
  uint32_t most = 0;
  const auto put = [&](int64_t i, uint64_t word) {
    const uint32_t value = static_cast<uint32_t>(word >> (bit & 7) & mask);
    out[i] = static_cast<int32_t>(value);
    most = std::max(most, value);
    bit += from.width;
  };
  int64_t i = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  // Values whose eight bytes are all readable.
  const int64_t whole = ((length - 8) * 8 - bit) / from.width;
  for (const int64_t last = std::min(count, whole); i < last; i++) {
    uint64_t word;
    std::memcpy(&word, bytes + (bit >> 3), sizeof word);
    put(i, word);
  }
#endif
  for (; i < count; i++) put(i, wordAt(bytes, bit >> 3, length));
  place.at += bit >> 3;
  place.value = static_cast<uint32_t>(bit & 7);
  // A run of packed bits ends at a whole byte.
  if (place.left == count && place.value > 0) place.at++;
  return most;
}

/// Writes the next `count` values. Returns the largest value, or a negative error.
inline int64_t readHybrid(int32_t* out, int64_t count, HybridPlace& place,
                          const HybridBytes& from) {
  if (from.width == 0) {
    std::fill(out, out + count, 0);
    return 0;
  }
  uint32_t most = 0;
  while (count > 0) {
    if (place.left == 0) {
      const int64_t wrong = beginRun(place, from);
      if (wrong < 0) return wrong;
    }
    const int64_t some = std::min(place.left, count);
    if (some == 0) continue;
    if (place.packed) {
      most = std::max(most, unpackBits(out, some, place, from));
    } else {
      std::fill(out, out + some, static_cast<int32_t>(place.value));
      most = std::max(most, place.value);
    }
    place.left -= some;
    count -= some;
    out += some;
  }
  return most;
}

/// Writes the offsets of the rows that begin among the repetition levels at .. end-1, all of which
/// have a value; it stops at the row after the last of `rows`. `value`: number of values before the
/// first level. Returns 8192 * rows so far + the level where it stopped.
inline int64_t markRows(int32_t* offsets, int64_t row, int64_t rows, int64_t value,
                        const int32_t* repetition, int64_t at, int64_t end) {
  const int64_t before = value - at;
  for (; at < end; at++) {
    if (repetition[at] != 0) continue;
    if (row == rows) break;
    offsets[row++] = static_cast<int32_t>(before + at);
  }
  return row * 8192 + at;
}

/// out[i] = values[places[i]]
template <typename Value>
void takeValues(Value* out, const Value* values, const int32_t* places, int64_t count) {
  for (int64_t i = 0; i < count; i++) out[i] = values[places[i]];
}

/// Copies `length` bytes from `offset` bytes before `out`; the ranges may overlap, so that the copy
/// repeats bytes that it has written. `room`: bytes that may be written.
inline void copyBack(uint8_t* out, int64_t offset, int64_t length, int64_t room) {
  if (offset >= 8 && room >= length + 8) {
    for (int64_t i = 0; i < length; i += 8) std::memcpy(out + i, out + i - offset, 8);
  } else {
    for (int64_t i = 0; i < length; i++) out[i] = out[i - offset];
  }
}

/// The little-endian number of `count` bytes.
inline int64_t littleNumber(const uint8_t* at, int64_t count) {
  int64_t number = 0;
  for (int64_t i = count; i-- > 0;) number = number << 8 | at[i];
  return number;
}

/// Decompresses snappy to exactly `size` bytes. Returns false if the data are invalid; the caller
/// then decompresses with the TypeScript decoder, whose error says what is wrong.
inline bool unpackSnappy(uint8_t* out, int64_t size, const uint8_t* packed, int64_t length) {
  int64_t at = 0, to = 0;
  while (at < length && packed[at++] >= 128) continue;  // Skip the length: the page has it, too.
  while (at < length) {
    const uint8_t tag = packed[at++];
    const int64_t left = length - at;
    if ((tag & 3) == 0) {
      int64_t count = (tag >> 2) + 1;
      if (count > 60) {
        const int64_t bytes = count - 60;
        if (left < 4) return false;
        count = littleNumber(packed + at, bytes) + 1;
        at += bytes;
      }
      if (count > length - at || count > size - to) return false;
      std::memcpy(out + to, packed + at, static_cast<size_t>(count));
      at += count;
      to += count;
      continue;
    }
    const int64_t bytes = (tag & 3) == 3 ? 4 : tag & 3;
    if (left < bytes) return false;
    int64_t count = (tag >> 2) + 1, offset = littleNumber(packed + at, bytes);
    if ((tag & 3) == 1) {
      count = (tag >> 2 & 7) + 4;
      offset |= static_cast<int64_t>(tag >> 5) << 8;
    }
    at += bytes;
    if (offset == 0 || offset > to || count > size - to) return false;
    copyBack(out + to, offset, count, size - to);
    to += count;
  }
  return to == size;
}

}  // namespace osiris
