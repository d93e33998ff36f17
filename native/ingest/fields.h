// Parses the fields of many lines of delimited text: finds their beginnings, and converts numbers
// and ids. src/data/text/field-values.ts is the definition, and gives the same results
// without the addon.

#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

namespace osiris {

/// The fields to convert in each line, in the layout of field-values.ts.
struct FieldPlan {
  int64_t fields;
  uint8_t delimiter;
  int quote;             // the quote character; -1: none
  int64_t denseCount;
  const double* dense;   // (denseCount,2): field, whether it must be an integer
  int64_t features;
  const double* ids;     // (features,6): field, kind, seed, rows, offset, whether empty is row 0
};

/// Output arrays: begins (lines,fields+1), numbers (denseCount,lines), ids (features,lines).
struct FieldValues {
  int32_t* begins;
  double* numbers;
  int32_t* ids;
};

/// Sets the high bit of each of the eight bytes of `word` that equals `byte`, and clears all
/// others.
inline uint64_t matches(uint64_t word, uint64_t byte) {
  constexpr uint64_t low = 0x7f7f7f7f7f7f7f7f;
  const uint64_t other = word ^ (byte * 0x0101010101010101);
  return ~(((other & low) + low) | other | low);
}

/// Finds the fields of a line. Returns false if the line has quotes or another number of fields.
inline bool cutLine(int32_t* begins, const uint8_t* bytes, int32_t begin, int32_t end,
                    const FieldPlan& plan) {
  if (end < 0) return false;
  const bool quotes = plan.quote >= 0;
  const uint8_t quote = static_cast<uint8_t>(plan.quote);
  int64_t count = 1;
  begins[0] = begin;
  int32_t at = begin;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  for (; end - at >= 8; at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes + at, sizeof word);
    if (quotes && matches(word, quote) != 0) return false;
    for (uint64_t found = matches(word, plan.delimiter); found != 0; found &= found - 1) {
      if (count == plan.fields) return false;
      begins[count++] = at + __builtin_ctzll(found) / 8 + 1;
    }
  }
#endif
  for (; at < end; at++) {
    if (bytes[at] == plan.delimiter) {
      if (count == plan.fields) return false;
      begins[count++] = at + 1;
    } else if (quotes && bytes[at] == quote) {
      return false;
    }
  }
  begins[count] = end + 1;
  return count == plan.fields;
}

/// The number of a field with at most 15 digits, as the quotient of two exact numbers, so that it
/// is rounded once. An empty field gives NaN, any other field infinity.
inline double shortNumber(const uint8_t* at, const uint8_t* end, bool integer) {
  constexpr double none = std::numeric_limits<double>::infinity();
  constexpr double powers[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                               1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  if (at == end) return std::numeric_limits<double>::quiet_NaN();
  const bool negative = *at == '-';
  if (negative) at++;
  int64_t value = 0;
  int digits = 0;
  const uint8_t* point = nullptr;
  for (; at < end; at++) {
    const unsigned digit = *at - static_cast<unsigned>('0');
    if (digit <= 9) {
      if (++digits > 15) return none;
      value = 10 * value + digit;
    } else if (*at == '.' && point == nullptr && !integer) {
      point = at;
    } else {
      return none;
    }
  }
  if (digits == 0) return none;
  const double size = point == nullptr ? static_cast<double>(value)
                                       : static_cast<double>(value) / powers[end - point - 1];
  return negative ? -size : size;
}

inline uint32_t scramble(uint32_t block) {
  const uint32_t product = block * 0xcc9e2d51u;
  return (product << 15 | product >> 17) * 0x1b873593u;
}

/// 32-bit MurmurHash3, as in src/data/murmur-hash.ts.
inline uint32_t murmurHash3(const uint8_t* at, const uint8_t* end, uint32_t seed) {
  const uint32_t length = static_cast<uint32_t>(end - at);
  uint32_t hash = seed;
  for (; end - at >= 4; at += 4) {
    const uint32_t block = at[0] | static_cast<uint32_t>(at[1]) << 8 |
                           static_cast<uint32_t>(at[2]) << 16 | static_cast<uint32_t>(at[3]) << 24;
    hash ^= scramble(block);
    hash = (hash << 13 | hash >> 19) * 5 + 0xe6546b64u;
  }
  uint32_t rest = 0;
  for (const uint8_t* byte = end; byte > at;) rest = rest << 8 | *--byte;
  hash ^= scramble(rest) ^ length;
  hash = (hash ^ hash >> 16) * 0x85ebca6bu;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
  return hash ^ hash >> 16;
}

/// The row of an integer id: the id minus `offset`; -1 if it is not a row, or not at most 9 plain
/// digits.
inline int32_t integerRow(const uint8_t* at, const uint8_t* end, double rows, double offset) {
  if (end - at > 9) return -1;
  int32_t value = 0;
  for (; at < end; at++) {
    const unsigned digit = *at - static_cast<unsigned>('0');
    if (digit > 9) return -1;
    value = 10 * value + static_cast<int32_t>(digit);
  }
  const double row = value - offset;
  return row >= 0 && row < rows ? static_cast<int32_t>(row) : -1;
}

/// Parses all lines. Line i has the bytes starts[i] .. ends[i]-1; ends[i] is -1 if it is too long.
/// A line that is too long, has quotes or another number of fields gets -1 as its first begin.
inline void readFields(const FieldValues& out, const uint8_t* bytes, const int32_t* starts,
                       const int32_t* ends, int64_t lines, const FieldPlan& plan) {
  constexpr int hashed = 1, integer = 2;
  for (int64_t line = 0; line < lines; line++) {
    int32_t* begins = out.begins + line * (plan.fields + 1);
    if (!cutLine(begins, bytes, starts[line], ends[line], plan)) {
      begins[0] = -1;
      continue;
    }
    double* number = out.numbers + line;
    for (int64_t i = 0; i < plan.denseCount; i++, number += lines) {
      const int32_t* field = begins + static_cast<int64_t>(plan.dense[2 * i]);
      *number = shortNumber(bytes + field[0], bytes + field[1] - 1, plan.dense[2 * i + 1] == 1);
    }
    int32_t* id = out.ids + line;
    for (int64_t i = 0; i < plan.features; i++, id += lines) {
      const double* own = plan.ids + 6 * i;
      const int32_t* field = begins + static_cast<int64_t>(own[0]);
      const uint8_t *at = bytes + field[0], *end = bytes + field[1] - 1;
      *id = at == end && own[5] == 1 ? 0 : -1;
      if (at == end) continue;
      if (own[1] == hashed) {
        const uint32_t others = static_cast<uint32_t>(own[3] - 1);
        const uint32_t hash = murmurHash3(at, end, static_cast<uint32_t>(own[2]));
        *id = static_cast<int32_t>(1 + hash % others);
      } else if (own[1] == integer) {
        *id = integerRow(at, end, own[3], own[4]);
      }
    }
  }
}

}  // namespace osiris
