// Coded weights (float16, bfloat16, int8), and the memory of a row.
// src/kernels/contract/precision.ts defines the codes, and every instruction set gives the same
// codes. Included by each part that reads or writes rows.

/// Lanes of 32 bits, for codes in registers and for the bits of floats.
typedef uint32_t Words __attribute__((vector_size(4 * lanes)));
typedef int32_t Signed __attribute__((vector_size(4 * lanes)));

// Loads and stores of n codes, 1 .. lanes ----

#if defined(OSIRIS_AVX512)

// Whole vectors are moved without a mask, because masked loads wait for earlier stores.
INLINE __m256i loadWords(const uint16_t* p, int64_t n) {
  if (n == lanes) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm256_maskz_loadu_epi16(firstLanes(n), p);
}
INLINE __m128i loadBytes(const int8_t* p, int64_t n) {
  if (n == lanes) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm_maskz_loadu_epi8(firstLanes(n), p);
}
INLINE Words loadCodes(const uint16_t* p, int64_t n) {
  return (Words)_mm512_maskz_cvtepu16_epi32(everyLane, loadWords(p, n));
}
INLINE Words loadCodes(const int8_t* p, int64_t n) {
  return (Words)_mm512_maskz_cvtepi8_epi32(everyLane, loadBytes(p, n));
}
INLINE Vec loadHalves(const uint16_t* p, int64_t n) {
  return _mm512_maskz_cvtph_ps(everyLane, loadWords(p, n));
}
INLINE void storeCodes(uint16_t* p, int64_t n, Words v) {
  const __m256i codes = _mm512_maskz_cvtepi32_epi16(everyLane, (__m512i)v);
  if (n == lanes) _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), codes);
  else _mm256_mask_storeu_epi16(p, firstLanes(n), codes);
}
INLINE void storeCodes(int8_t* p, int64_t n, Words v) {
  const __m128i codes = _mm512_maskz_cvtsepi32_epi8(everyLane, (__m512i)v);
  if (n == lanes) _mm_storeu_si128(reinterpret_cast<__m128i*>(p), codes);
  else _mm_mask_storeu_epi8(p, firstLanes(n), codes);
}
INLINE Vec toFloat(Words v) { return _mm512_maskz_cvtepi32_ps(everyLane, (__m512i)v); }
/// The floor of v, for -127 .. 127.99. NaN gives a number that is stored as code -128.
INLINE Words floorOf(Vec v) {
  constexpr int down = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  return (Words)_mm512_maskz_cvt_roundps_epi32(everyLane, v, down);
}
/// v clamped to `least` .. `most`; NaN stays NaN.
INLINE Vec within(Vec least, Vec v, Vec most) {
  return _mm512_maskz_max_ps(everyLane, least, _mm512_maskz_min_ps(everyLane, most, v));
}

#else

/// The address from which a whole vector of codes can be read: p, or a padded copy in `part` if p
/// has fewer codes.
template <typename Code>
INLINE const Code* source(Code (&part)[lanes], const Code* p, int64_t n) {
  if (n == lanes) return p;
  std::memset(part, 0, sizeof part);
  std::memcpy(part, p, static_cast<size_t>(n) * sizeof(Code));
  return part;
}
template <typename Code>
INLINE void finish(Code* p, int64_t n, const Code (&part)[lanes]) {
  if (n < lanes) std::memcpy(p, part, static_cast<size_t>(n) * sizeof(Code));
}

#if defined(OSIRIS_AVX2)

INLINE __m128i loadQuad(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
INLINE Words loadCodes(const uint16_t* p, int64_t n) {
  uint16_t part[lanes];
  return (Words)_mm256_cvtepu16_epi32(loadQuad(source(part, p, n)));
}
INLINE Words loadCodes(const int8_t* p, int64_t n) {
  int8_t part[lanes];
  return (Words)_mm256_cvtepi8_epi32(_mm_loadu_si64(source(part, p, n)));
}
INLINE Vec loadHalves(const uint16_t* p, int64_t n) {
  uint16_t part[lanes];
  return _mm256_cvtph_ps(loadQuad(source(part, p, n)));
}
/// Converts the lanes to signed numbers of 16 bits, with saturation.
INLINE __m128i narrow(Words v) {
  return _mm_packs_epi32(_mm256_castsi256_si128((__m256i)v),
                         _mm256_extracti128_si256((__m256i)v, 1));
}
INLINE void storeCodes(uint16_t* p, int64_t n, Words v) {
  uint16_t part[lanes];
  // Sign-extended first, so that the saturation changes no code.
  const __m128i codes = narrow((Words)((Signed)(v << 16) >> 16));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(n == lanes ? p : part), codes);
  finish(p, n, part);
}
INLINE void storeCodes(int8_t* p, int64_t n, Words v) {
  int8_t part[lanes];
  _mm_storeu_si64(n == lanes ? p : part, _mm_packs_epi16(narrow(v), _mm_setzero_si128()));
  finish(p, n, part);
}
INLINE Vec toFloat(Words v) { return _mm256_cvtepi32_ps((__m256i)v); }
INLINE Words floorOf(Vec v) { return (Words)_mm256_cvttps_epi32(_mm256_floor_ps(v)); }
INLINE Vec within(Vec least, Vec v, Vec most) {
  return _mm256_max_ps(least, _mm256_min_ps(most, v));
}

#elif defined(OSIRIS_NEON)

#include "simd/neon-codes.h"

#else

template <typename Code>
INLINE Words loadCodes(const Code* p, int64_t n) {
  Code part[lanes];
  const Code* from = source(part, p, n);
  Words v;
  for (int i = 0; i < lanes; i++) v[i] = static_cast<uint32_t>(from[i]);
  return v;
}
template <typename Code>
INLINE void storeCodes(Code* p, int64_t n, Words v) {
  for (int64_t i = 0; i < n; i++) p[i] = static_cast<Code>(v[i]);
}
INLINE Vec loadHalves(const uint16_t* p, int64_t n) {
  const Words code = loadCodes(p, n), rest = code & 0x7fff;
  // The shifted value is too small by a factor of 2^112, also for subnormals. NaN and infinity need
  // the exponent of float32.
  const Words number = (Words)mul((Vec)(rest << 13), broadcast(0x1p112f));
  const Words bits = rest < 0x7c00 ? number : rest << 13 | 0x7f800000;
  return (Vec)(bits | (code & 0x8000) << 16);
}
INLINE Vec toFloat(Words v) { return __builtin_convertvector((Signed)v, Vec); }
INLINE Words floorOf(Vec v) {
  const Signed cut = __builtin_convertvector(v == v ? v : broadcast(-128), Signed);
  return (Words)(cut + (toFloat((Words)cut) > v));
}
INLINE Vec within(Vec least, Vec v, Vec most) {
  const Vec below = v > most ? most : v;
  return below < least ? least : below;
}

#endif
#endif

// Encoding and decoding ----

/// The largest lane of a vector.
INLINE int32_t largestOf(Signed v) {
#if defined(OSIRIS_AVX512)
  const __m256i low = _mm512_maskz_extracti32x8_epi32(0xff, (__m512i)v, 0);
  const __m256i half = _mm256_max_epi32(low, _mm512_maskz_extracti32x8_epi32(0xff, (__m512i)v, 1));
#elif defined(OSIRIS_AVX2)
  const __m256i half = (__m256i)v;
#endif
#if defined(OSIRIS_AVX512) || defined(OSIRIS_AVX2)
  __m128i quad = _mm_max_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  quad = _mm_max_epi32(quad, _mm_shuffle_epi32(quad, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(quad, _mm_shuffle_epi32(quad, 0xb1)));
#elif defined(OSIRIS_NEON)
  return vmaxvq_s32((int32x4_t)v);
#else
  int32_t largest = v[0];
  for (int i = 1; i < lanes; i++) largest = v[i] > largest ? v[i] : largest;
  return largest;
#endif
}

/// 2^exponent.
INLINE float powerOf2(int exponent) {
  const uint32_t bits = static_cast<uint32_t>(exponent + 127) << 23;
  float v;
  __builtin_memcpy(&v, &bits, sizeof v);
  return v;
}

/// Columns that share an exponent in int8.
constexpr int64_t quantumColumns = 32;
INLINE int64_t quantaOf(int64_t dim) { return (dim + quantumColumns - 1) / quantumColumns; }

/// Vectors of a quantum.
constexpr int quantumVectors = static_cast<int>(quantumColumns) / lanes;

/// The smallest exponent for which the largest weight of a quantum has a code, -126 .. 121.
INLINE int exponentOf(const Vec (&w)[quantumVectors]) {
  // Absolute values have the same order as their bits; NaN is above all numbers, and is ignored.
  Signed sizes = Signed{} + (7 << 23), most = Signed{} + 0x7f7e0000;
  UNROLL for (int v = 0; v < quantumVectors; v++) {
    const Signed size = (Signed)w[v] & 0x7fffffff;
    const Signed number = size > 0x7f800000 ? 0 : size;
    sizes = number > sizes ? number : sizes;
  }
  // For e = k - 6, 127 * 2^e covers 2^k .. 127/64 * 2^k; larger weights need e + 1.
  return ((largestOf(sizes > most ? most : sizes) + 0x1ffff) >> 23) - 127 - 6;
}

/// The storage format of a precision. `load` and `store` move n weights, 1 .. lanes, of one
/// quantum, with the scale 2^exponent to load and 2^-exponent to store. `store` rounds with
/// `random`, 16 bits of noise in each lane; `storeNearest` rounds to nearest.
template <Precision precision>
struct Format;

template <>
struct Format<Precision::float16> {
  using Code = uint16_t;

  static Vec load(const Code* codes, int64_t n, Vec) { return loadHalves(codes, n); }

  /// A step of float16 has 13 bits of a float32, so 13 bits of noise are used.
  static void store(Code* codes, int64_t n, Vec v, Vec, Words random) {
    const Words sign = (Words)v >> 16 & 0x8000, size = (Words)v & 0x7fffffff;
    // Scaled down, a float's bits are the code, then 13 bits to round; subnormal if the code is.
    const Words bits = (Words)mul((Vec)size, broadcast(0x1p-112f)) + (random & 0x1fff);
    const Signed code = (Signed)(bits >> 13), most = Signed{} + 0x7c00;
    const Words number = sign | (Words)(code < most ? code : most);
    storeCodes(codes, n, (Signed)size > 0x7f800000 ? Words{} + 0x7e00 : number);
  }

  static void storeNearest(Code* codes, int64_t n, Vec v, Vec) {
    const Words sign = (Words)v >> 16 & 0x8000, size = (Words)v & 0x7fffffff;
    // The step of float16 subnormals equals a float's step in 0.5 .. 1, so adding 0.5 rounds to it.
    const Signed small = (Signed)add((Vec)size, broadcast(0.5f)) - 0x3f000000;
    const Signed large = (Signed)((size + 0xfff + (size >> 13 & 1)) >> 13) - (112 << 10);
    const Signed code = (Signed)size < 0x38800000 ? small : large, most = Signed{} + 0x7c00;
    const Words number = sign | (Words)(code < most ? code : most);
    storeCodes(codes, n, (Signed)size > 0x7f800000 ? Words{} + 0x7e00 : number);
  }
};

template <>
struct Format<Precision::bfloat16> {
  using Code = uint16_t;

  static Vec load(const Code* codes, int64_t n, Vec) { return (Vec)(loadCodes(codes, n) << 16); }

  static void store(Code* codes, int64_t n, Vec v, Vec, Words random) {
    const Words code = ((Words)v + random) >> 16;
    storeCodes(codes, n, ((Signed)v & 0x7fffffff) > 0x7f800000 ? Words{} + 0x7fc0 : code);
  }

  static void storeNearest(Code* codes, int64_t n, Vec v, Vec scale) {
    store(codes, n, v, scale, ((Words)v >> 16 & 1) + 0x7fff);
  }
};

template <>
struct Format<Precision::int8> {
  using Code = int8_t;

  static Vec load(const Code* codes, int64_t n, Vec scale) {
    return mul(toFloat(loadCodes(codes, n)), scale);
  }

  static void store(Code* codes, int64_t n, Vec v, Vec scale, Words random) {
    const Vec moved = add(mul(v, scale), mul(toFloat(random), broadcast(0x1p-16f)));
    storeCodes(codes, n, floorOf(within(broadcast(-127), moved, broadcast(127))));
  }

  static void storeNearest(Code* codes, int64_t n, Vec v, Vec scale) {
    store(codes, n, v, scale, Words{} + 0x8000);
  }
};

/// Read access to row `row` of a table: returns weights from column c on, within one quantum, with
/// the quantum's scale.
template <Precision precision>
struct RowView {
  using Code = typename Format<precision>::Code;
  const Code* codes;
  const int8_t* exponents;

  RowView(const Table& t, int64_t row)
      : codes(static_cast<const Code*>(t.codes) + row * t.dim),
        exponents(t.exponents + row * quantaOf(t.dim)) {}

  Vec scaleOf(int64_t c) const {
    if (precision != Precision::int8) return zero();
    return broadcast(powerOf2(exponents[c / quantumColumns]));
  }
  Vec some(int64_t c, int64_t n, Vec scale) const {
    return Format<precision>::load(codes + c, n, scale);
  }
  Vec some(int64_t c, int64_t n) const { return some(c, n, scaleOf(c)); }
  Vec whole(int64_t c, Vec scale) const { return some(c, lanes, scale); }
};

template <>
struct RowView<Precision::float32> {
  const float* weights;

  RowView(const Table& t, int64_t row) : weights(t.weights + row * t.dim) {}
  Vec scaleOf(int64_t) const { return zero(); }
  Vec some(int64_t c, int64_t n, Vec) const { return loadSome(weights + c, n); }
  Vec whole(int64_t c, Vec) const { return load(weights + c); }
};

/// Decodes a coded row into weights (D).
template <Precision precision>
INLINE void decodeRow(float* out, const Table& t, int64_t row) {
  const RowView<precision> view(t, row);
  for (int64_t c = 0; c < t.dim; c += lanes) {
    const int64_t n = left(t.dim, c);
    storeSome(out + c, n, view.some(c, n));
  }
}

/// Draws the rounding noise of row `row`: 16 bits for each column, and for up to 63 more columns.
INLINE_LARGE void drawRow(uint16_t* noise, const Table& t, int64_t row) {
  const Rule& rule = t.rule;
  const int64_t counters = (t.dim + 7) / 8, ofTable = (t.tableDim + 7) / 8;
  const int64_t own = t.firstRow + (t.names == nullptr ? row : t.names[row]);
  const auto first = static_cast<uint64_t>(own * ofTable + t.firstColumn / 8);
  for (int64_t i = 0; i < counters; i += 8) {
    philox<8, 7>(noise + 8 * i, rule.key, first + static_cast<uint64_t>(i), rule.step,
                 rule.purpose);
  }
}

/// Encodes one quantum, or its first `columns` columns, to codes and, in int8, an exponent.
/// `nearest`: rounds to nearest, without noise.
template <Precision precision, bool nearest>
INLINE void encodeQuantum(typename Format<precision>::Code* codes, int8_t* exponent,
                          const Vec (&w)[quantumVectors], int64_t columns,
                          const uint16_t* noise) {
  Vec scale = zero();
  if (precision == Precision::int8) {
    const int power = exponentOf(w);
    *exponent = static_cast<int8_t>(power);
    scale = broadcast(powerOf2(-power));
  }
  UNROLL for (int i = 0; i < quantumVectors; i++) {
    const int64_t at = i * lanes, n = left(columns, at);
    if (nearest) Format<precision>::storeNearest(codes + at, n, w[i], scale);
    else Format<precision>::store(codes + at, n, w[i], scale, loadCodes(noise + at, lanes));
  }
}

/// Encodes row `row` of a table. weights(c, n) returns n weights, 0 .. lanes, from column c on. All
/// weights of a quantum are computed before the first is stored, so they may be read from the row.
template <Precision precision, bool nearest = false, typename Weights>
INLINE void encodeRow(const Table& t, int64_t row, const uint16_t* noise, const Weights& weights) {
  using Code = typename Format<precision>::Code;
  Code* codes = static_cast<Code*>(t.codes) + row * t.dim;
  int8_t* exponents = t.exponents + row * quantaOf(t.dim);
  const auto quantum = [&](int64_t c, int64_t columns) INLINE_LAMBDA {
    Vec w[quantumVectors];
    UNROLL for (int i = 0; i < quantumVectors; i++) {
      w[i] = weights(c + i * lanes, left(columns, i * lanes));
    }
    encodeQuantum<precision, nearest>(codes + c, exponents + c / quantumColumns, w, columns,
                                      nearest ? nullptr : noise + c);
  };
  const int64_t dim = t.dim;
  int64_t c = 0;
  for (; c + quantumColumns <= dim; c += quantumColumns) quantum(c, quantumColumns);
  if (c < dim) quantum(c, dim - c);
}

/// Calls `use` with the precision of a table as a compile-time constant.
template <typename Use>
INLINE auto withPrecision(Precision precision, const Use& use) {
  switch (precision) {
    case Precision::float16: return use(std::integral_constant<Precision, Precision::float16>{});
    case Precision::bfloat16: return use(std::integral_constant<Precision, Precision::bfloat16>{});
    case Precision::int8: return use(std::integral_constant<Precision, Precision::int8>{});
    default: return use(std::integral_constant<Precision, Precision::float32>{});
  }
}

/// The float32 weights of a row: in the table's memory, or decoded into `out` (D).
INLINE const float* rowWeights(const Table& t, int64_t row, float* out) {
  return withPrecision(t.precision, [&](auto precision) INLINE_LAMBDA -> const float* {
    if constexpr (precision == Precision::float32) {
      return t.weights + row * t.dim;
    } else {
      decodeRow<precision>(out, t, row);
      return out;
    }
  });
}

/// Prefetches memory into the second-level cache; the first-level cache has too few miss buffers.
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

/// Bytes of a stored weight.
constexpr int64_t weightBytes(Precision precision) {
  return precision == Precision::float32 ? 4 : precision == Precision::int8 ? 1 : 2;
}

INLINE int64_t rowBytes(const Table& t) { return t.dim * weightBytes(t.precision); }
