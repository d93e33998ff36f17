// Maps ids to rows, by hash or directly. src/data/columnar/bag-reader.ts is the definition.

#pragma once

#include "ingest/fields.h"

namespace osiris {

/// The eight decimal digits of a number below 10^8, one per byte, the first digit in the lowest
/// byte. The number is split into two halves of four digits, then into pairs, then into digits, in
/// parallel.
inline uint64_t eightDigits(uint64_t number) {
  const uint64_t halves = number / 10'000 | number % 10'000 << 32;
  const uint64_t hundreds = halves * 10'486 >> 20 & 0x0000'007f'0000'007f;
  const uint64_t pairs = hundreds | (halves - 100 * hundreds) << 16;
  const uint64_t tens = pairs * 103 >> 10 & 0x000f'000f'000f'000f;
  return tens | (pairs - 10 * tens) << 8;
}

/// Writes the decimal digits of an id so that they end before `end`. Returns their beginning.
inline uint8_t* decimalsOf(uint8_t* end, uint64_t id) {
  constexpr uint64_t eight = 100'000'000;
  constexpr uint64_t zeros = 0x3030'3030'3030'3030;
  const auto write = [&](uint64_t digits) {
    const uint64_t text = digits | zeros;
    for (int i = 0; i < 8; i++) end[i - 8] = static_cast<uint8_t>(text >> (8 * i));
    end -= 8;
  };
  for (; id >= eight; id /= eight) write(eightDigits(id % eight));
  const uint64_t digits = eightDigits(id);
  write(digits);
  // Skip leading zeros, but not the last digit.
  return end + (digits == 0 ? 7 : __builtin_ctzll(digits) / 8);
}

/// rows[i] = 1 + hash of the decimal digits of ids[i] mod (tableRows - 1).
inline void hashIds(int32_t* rows, const int64_t* ids, int64_t count, bool isUnsigned,
                    uint32_t seed, uint32_t tableRows) {
  uint8_t text[32];
  uint8_t* const end = text + sizeof text;
  for (int64_t i = 0; i < count; i++) {
    const bool negative = !isUnsigned && ids[i] < 0;
    const uint64_t id = static_cast<uint64_t>(ids[i]);
    uint8_t* begin = decimalsOf(end, negative ? 0 - id : id);
    if (negative) *--begin = '-';
    rows[i] = static_cast<int32_t>(1 + murmurHash3(begin, end, seed) % (tableRows - 1));
  }
}

/// rows[i] = ids[i] - offset, if the id fits 32 bits and the result is a row of the table; else -1.
inline void rowsOfIds(int32_t* rows, const int64_t* ids, int64_t count, int64_t offset,
                      int64_t tableRows) {
  for (int64_t i = 0; i < count; i++) {
    const int64_t id = ids[i], row = id - offset;
    const bool usual = id >= INT32_MIN && id <= INT32_MAX && row >= 0 && row < tableRows;
    rows[i] = usual ? static_cast<int32_t>(row) : -1;
  }
}

}  // namespace osiris
