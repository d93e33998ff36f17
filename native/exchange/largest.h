// Kernels of the top-k all-reduce: move the largest elements out of a vector, and add such elements
// to one. Included by exchange/exchange.cc for each instruction set.

/// The bits of |v|, which have the order of sizes; every NaN is the same, and the largest.
INLINE uint32_t sizeBits(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  bits &= 0x7fffffff;
  return bits > 0x7f800000 ? 0x7fc00000 : bits;
}

/// The k-th largest size, and the number of elements of exactly this size among the k largest.
struct Least {
  uint32_t size;
  int64_t equal;
};

/// Finds the k-th largest size digit by digit, from the highest, by counting the elements of each
/// digit (radix select): three passes, whatever the values are.
inline Least kthLargest(const float* values, int64_t n, int64_t k) {
  constexpr int shifts[] = {20, 9, 0}, widths[] = {11, 11, 9};
  uint32_t counts[1 << 11], found = 0;
  for (int digit = 0; digit < 3; digit++) {
    const int shift = shifts[digit], width = widths[digit];
    const uint32_t most = (1u << width) - 1;
    std::memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < n; i++) {
      const uint32_t size = sizeBits(values[i]);
      if (size >> (shift + width) == found) counts[size >> shift & most]++;
    }
    uint32_t at = most;
    while (counts[at] < k) k -= counts[at--];
    found = found << width | at;
  }
  return {found, k};
}

inline void selectLargest(int32_t* indices, uint16_t* codes, int64_t k, float* residual,
                          const float* sum, int64_t n) {
  for (int64_t i = 0; i < n; i++) residual[i] += sum[i];
  Least least = kthLargest(residual, n, k);
  for (int64_t i = 0; i < n; i++) {
    const uint32_t size = sizeBits(residual[i]);
    if (size < least.size || (size == least.size && least.equal-- <= 0)) continue;
    uint32_t bits;
    std::memcpy(&bits, residual + i, sizeof bits);
    bits = size == 0x7fc00000 ? size : bits + 0x7fff + (bits >> 16 & 1);
    *indices++ = static_cast<int32_t>(i);
    *codes++ = static_cast<uint16_t>(bits >> 16);
    bits &= 0xffff0000;
    float sent;
    std::memcpy(&sent, &bits, sizeof sent);
    residual[i] -= sent;
  }
}

inline void addSelected(float* out, const int32_t* indices, const uint16_t* codes, int64_t k) {
  for (int64_t i = 0; i < k; i++) {
    const uint32_t bits = static_cast<uint32_t>(codes[i]) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    out[indices[i]] += value;
  }
}
