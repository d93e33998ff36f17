// CRC-32C, the checksum of frames between hosts and of records in files. Processors have an
// instruction for it, which takes three cycles and begins in each: three parts of a block are summed
// side by side, and joined. The same bits come from a table where there is no such instruction.

#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define OSIRIS_CRC_TARGET __attribute__((target("sse4.2")))
#elif defined(__aarch64__)
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#define OSIRIS_CRC_TARGET
#endif

namespace osiris {

constexpr uint32_t crcPolynomial = 0x82f63b78u;  // Reflected: the bit of x^0 is the highest.

/// Goes on with a sum, which begins with all bits set and ends inverted.
inline uint32_t portableCrc32c(uint32_t crc, const uint8_t* bytes, int64_t count) {
  static const auto table = [] {
    std::array<uint32_t, 256> entries{};
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t entry = i;
      for (int bit = 0; bit < 8; bit++) entry = entry >> 1 ^ (entry & 1 ? crcPolynomial : 0);
      entries[i] = entry;
    }
    return entries;
  }();
  for (int64_t i = 0; i < count; i++) crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 255];
  return crc;
}

#if defined(OSIRIS_CRC_TARGET)

/// The product of two polynomials, modulo that of CRC-32C.
inline uint32_t crcProduct(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b >> 1 ^ (b & 1 ? crcPolynomial : 0);
  }
  return product;
}

/// What a sum becomes after `bytes` more bytes of zeros, a power of two: by byte of the sum.
struct CrcShift {
  uint32_t of[4][256];
  explicit CrcShift(int64_t bytes) {
    uint32_t power = 1u << 23;  // x^8: one byte
    for (; bytes > 1; bytes /= 2) power = crcProduct(power, power);
    for (int place = 0; place < 4; place++) {
      for (uint32_t byte = 0; byte < 256; byte++) {
        of[place][byte] = crcProduct(power, byte << 8 * place);
      }
    }
  }
  uint32_t operator()(uint32_t crc) const {
    return of[0][crc & 255] ^ of[1][crc >> 8 & 255] ^ of[2][crc >> 16 & 255] ^ of[3][crc >> 24];
  }
};

OSIRIS_CRC_TARGET inline uint64_t crcWord(uint64_t crc, const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, 8);
#if defined(__x86_64__)
  return _mm_crc32_u64(crc, word);
#else
  uint32_t sum = static_cast<uint32_t>(crc);
  __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(sum) : "r"(word));
  return sum;
#endif
}

OSIRIS_CRC_TARGET inline uint32_t quickCrc32c(uint32_t crc, const uint8_t* bytes, int64_t count) {
  constexpr int64_t part = 1024;
  static const CrcShift after(part);
  while (count >= 3 * part) {
    uint64_t first = crc, second = 0, third = 0;
    for (int64_t i = 0; i < part; i += 8) {
      first = crcWord(first, bytes + i);
      second = crcWord(second, bytes + part + i);
      third = crcWord(third, bytes + 2 * part + i);
    }
    crc = after(static_cast<uint32_t>(first)) ^ static_cast<uint32_t>(second);
    crc = after(crc) ^ static_cast<uint32_t>(third);
    bytes += 3 * part;
    count -= 3 * part;
  }
  uint64_t wide = crc;
  for (; count >= 8; count -= 8, bytes += 8) wide = crcWord(wide, bytes);
  return portableCrc32c(static_cast<uint32_t>(wide), bytes, count);
}

inline bool hasQuickCrc32c() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2");
#elif defined(__linux__)
  return (getauxval(AT_HWCAP) & 1 << 7) != 0;  // HWCAP_CRC32
#else
  return true;  // Every processor of Apple.
#endif
}

#endif

/// The checksum of bytes, or of bytes after others that have the checksum `before`.
inline uint32_t crc32c(const uint8_t* bytes, int64_t count, uint32_t before = 0) {
#if defined(OSIRIS_CRC_TARGET)
  static const bool isQuick = hasQuickCrc32c();
  if (isQuick) return ~quickCrc32c(~before, bytes, count);
#endif
  return ~portableCrc32c(~before, bytes, count);
}

}  // namespace osiris
