// Weights in fewer bits: included once for each instruction set. The codes are those of
// src/kernels/precision.ts; loops are plain, for the compiler to make vectors of.

INLINE uint32_t bitsOf(float v) {
  uint32_t bits;
  __builtin_memcpy(&bits, &v, sizeof bits);
  return bits;
}

INLINE float fromBits(uint32_t bits) {
  float v;
  __builtin_memcpy(&v, &bits, sizeof v);
  return v;
}

INLINE float decodeHalf(uint32_t code) {
  const uint32_t rest = code & 0x7fff;
  // Shifted into place it is too small by 2^112, subnormals too; NaN and infinity stay above.
  const uint32_t number = bitsOf(fromBits(rest << 13) * 0x1p112f);
  const uint32_t bits = rest < 0x7c00 ? number : rest << 13 | 0x7f800000;
  return fromBits(bits | (code & 0x8000) << 16);
}

/// Noise is below one step, 13 bits.
INLINE uint16_t encodeHalf(float v, uint32_t random) {
  const uint32_t sign = bitsOf(v) >> 16 & 0x8000;
  const float size = fromBits(bitsOf(v) & 0x7fffffff);
  // Below the normal numbers steps are as wide as those of the binade above: round there.
  const bool small = size < 0x1p-14f;
  const uint32_t bits = bitsOf(small ? size + 0x1p-14f : size);
  const uint32_t kept = (bits + (random & 0x1fff)) >> 13;
  const uint32_t code = kept >= 0x47800000 >> 13 ? 0x7c00 : kept - ((small ? 113 : 112) << 10);
  return static_cast<uint16_t>(v != v ? 0x7e00 : sign | code);
}

INLINE uint16_t encodeBrief(float v, uint32_t random) {
  return static_cast<uint16_t>(v != v ? 0x7fc0 : (bitsOf(v) + (random & 0xffff)) >> 16);
}

/// The weights of a row: the table's own, or decoded into `out` (D).
INLINE float* rowWeights(const Table& t, int64_t row, float* out) {
  const int64_t at = row * t.dim;
  switch (t.precision) {
    case Precision::float32: return t.weights + at;
    case Precision::float16: {
      const uint16_t* codes = static_cast<const uint16_t*>(t.codes) + at;
      for (int64_t c = 0; c < t.dim; c++) out[c] = decodeHalf(codes[c]);
      return out;
    }
    case Precision::bfloat16: {
      const uint16_t* codes = static_cast<const uint16_t*>(t.codes) + at;
      for (int64_t c = 0; c < t.dim; c++) out[c] = fromBits(static_cast<uint32_t>(codes[c]) << 16);
      return out;
    }
    case Precision::int8: {
      const int8_t* codes = static_cast<const int8_t*>(t.codes) + at;
      const float scale = fromBits(static_cast<uint32_t>(t.exponents[row] + 127) << 23);
      for (int64_t c = 0; c < t.dim; c++) out[c] = static_cast<float>(codes[c]) * scale;
      return out;
    }
  }
  return out;
}

/// The smallest exponent with which the largest weight of a row has a code.
INLINE int exponentOf(const float* w, int64_t n) {
  int32_t largest = 0;  // The bits of sizes are in the order of the sizes; above them is NaN.
  for (int64_t c = 0; c < n; c++) {
    const int32_t size = static_cast<int32_t>(bitsOf(w[c]) & 0x7fffffff);
    const int32_t number = size > 0x7f800000 ? 0 : size;
    largest = number > largest ? number : largest;
  }
  const uint32_t bits = static_cast<uint32_t>(largest);
  const int above = (bits & 0x7fffff) > 0x7e0000 ? 1 : 0;
  const int exponent = static_cast<int>(bits >> 23) - 127 - 6 + above;
  return exponent < -126 ? -126 : exponent > 121 ? 121 : exponent;
}

INLINE int8_t encodeByte(float v, float scale, uint32_t random) {
  const float noise = static_cast<float>(static_cast<int32_t>(random >> 8)) * 0x1p-24f;
  const float moved = v * scale + noise;
  const float within = moved > 127 ? 127 : moved >= -127 ? moved : -127;
  const int32_t cut = static_cast<int32_t>(within);
  const int32_t floor = cut - (static_cast<float>(cut) > within ? 1 : 0);
  return static_cast<int8_t>(v != v ? -128 : floor);
}

/// Rounds weights (D) into row `row` of a table in fewer bits, by the numbers of its rule.
[[gnu::noinline]] static void encodeRow(const Table& t, int64_t row, const float* w) {
  const Rule& rule = t.rule;
  const int exponent = t.precision == Precision::int8 ? exponentOf(w, t.dim) : 0;
  if (t.precision == Precision::int8) t.exponents[row] = static_cast<int8_t>(exponent);
  const float scale = fromBits(static_cast<uint32_t>(127 - exponent) << 23);
  const uint64_t block = static_cast<uint64_t>(row) * static_cast<uint64_t>((t.dim + 3) / 4);
  uint32_t words[64];
  for (int64_t c = 0; c < t.dim; c += 64) {
    philox16(words, rule.key, block + static_cast<uint64_t>(c / 4), rule.step, rule.purpose);
    const int64_t n = t.dim - c < 64 ? t.dim - c : 64;
    const int64_t at = row * t.dim + c;
    if (t.precision == Precision::int8) {
      int8_t* codes = static_cast<int8_t*>(t.codes) + at;
      for (int64_t i = 0; i < n; i++) codes[i] = encodeByte(w[c + i], scale, words[i]);
    } else if (t.precision == Precision::float16) {
      uint16_t* codes = static_cast<uint16_t*>(t.codes) + at;
      for (int64_t i = 0; i < n; i++) codes[i] = encodeHalf(w[c + i], words[i]);
    } else {
      uint16_t* codes = static_cast<uint16_t*>(t.codes) + at;
      for (int64_t i = 0; i < n; i++) codes[i] = encodeBrief(w[c + i], words[i]);
    }
  }
}

/// Asks for memory, into the second cache: the first has too few miss buffers for rows.
INLINE void prefetch(const void* p, int64_t bytes) {
  const char* from = static_cast<const char*>(p);
  for (; bytes > 192; bytes -= 256, from += 256) {
    for (int64_t at = 0; at < 256; at += 64) __builtin_prefetch(from + at, 0, 2);
  }
  if (bytes > 128) __builtin_prefetch(from + 128, 0, 2);
  if (bytes > 64) __builtin_prefetch(from + 64, 0, 2);
  if (bytes > 0) __builtin_prefetch(from, 0, 2);
}

INLINE const char* rowsOf(const Table& t) {
  if (t.precision == Precision::float32) return reinterpret_cast<const char*>(t.weights);
  return static_cast<const char*>(t.codes);
}

INLINE int64_t rowBytes(const Table& t) {
  return t.dim * (t.precision == Precision::float32 ? 4 : t.precision == Precision::int8 ? 1 : 2);
}
