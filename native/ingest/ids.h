// Rows of ids whose decimals are hashed, as src/data/columnar/hashed-ids.ts defines them.

#pragma once

#include "ingest/fields.h"

namespace osiris {

/// Writes the decimals of an id so that they end before `end`. Returns their beginning.
inline uint8_t* decimalsOf(uint8_t* end, uint64_t id) {
  static constexpr char pairs[] =
      "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546"
      "4748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293"
      "949596979899";
  for (; id >= 100; id /= 100) std::memcpy(end -= 2, pairs + 2 * (id % 100), 2);
  if (id < 10) {
    *--end = static_cast<uint8_t>('0' + id);
    return end;
  }
  std::memcpy(end -= 2, pairs + 2 * id, 2);
  return end;
}

/// rows[i] = 1 + hash of the decimals of ids[i] mod (tableRows - 1).
inline void hashIds(int32_t* rows, const int64_t* ids, int64_t count, bool isUnsigned,
                    uint32_t seed, uint32_t tableRows) {
  uint8_t text[24];
  uint8_t* const end = text + sizeof text;
  for (int64_t i = 0; i < count; i++) {
    const bool negative = !isUnsigned && ids[i] < 0;
    const uint64_t id = static_cast<uint64_t>(ids[i]);
    uint8_t* begin = decimalsOf(end, negative ? 0 - id : id);
    if (negative) *--begin = '-';
    rows[i] = static_cast<int32_t>(1 + murmurHash3(begin, end, seed) % (tableRows - 1));
  }
}

}  // namespace osiris
