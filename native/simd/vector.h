// Vectors of one instruction set, included by every part inside its namespace and its target. Every
// operation rounds once, so that all sets with a fused multiply-add give the same bits.

#if defined(OSIRIS_AVX512)

using Vec = __m512;
constexpr int lanes = 16;
constexpr int tileRows = 14;  // 14 x 2 accumulators, 2 of B, 1 of A: 31 of 32 registers
constexpr int unrolledK = 1;  // k of one iteration of a product's loop

// The maskz forms avoid warnings of GCC 12 about its own header; the mask has every lane.
constexpr __mmask16 everyLane = 0xffff;
INLINE __mmask16 firstLanes(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }
INLINE Vec zero() { return _mm512_setzero_ps(); }
INLINE Vec broadcast(float v) { return _mm512_set1_ps(v); }
INLINE Vec load(const float* p) { return _mm512_loadu_ps(p); }
INLINE void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
INLINE Vec loadSome(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(firstLanes(n), p); }
INLINE void storeSome(float* p, int64_t n, Vec v) { _mm512_mask_storeu_ps(p, firstLanes(n), v); }
INLINE Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
INLINE Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
INLINE Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
INLINE Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
INLINE Vec root(Vec a) { return _mm512_maskz_sqrt_ps(everyLane, a); }
/// a * b + c, rounded once.
INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
INLINE void accumulate(Vec& c, Vec a, Vec b) { c = fma(a, b, c); }
/// c - a * b, rounded once.
INLINE Vec fnma(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }
/// 0 where v < 0, else v: NaN stays NaN.
INLINE Vec positive(Vec v) { return _mm512_maskz_max_ps(everyLane, _mm512_setzero_ps(), v); }
INLINE Vec lesser(Vec a, Vec b) { return _mm512_maskz_min_ps(everyLane, a, b); }
INLINE Vec greater(Vec a, Vec b) { return _mm512_maskz_max_ps(everyLane, a, b); }
/// v where `of` is above 0, else 0.
INLINE Vec whereAbove0(Vec of, Vec v) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(of, zero(), _CMP_GT_OQ), v);
}

#elif defined(OSIRIS_AVX2)

using Vec = __m256;
constexpr int lanes = 8;
constexpr int tileRows = 6;  // 6 x 2 accumulators, 2 of B, 1 of A: 15 of 16 registers
constexpr int unrolledK = 4;  // with 12 products a k, the loop would be a fifth of all instructions

INLINE __m256i firstLanes(int64_t n) {
  alignas(64) static const int32_t mask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(mask + 8 - n));
}
INLINE Vec zero() { return _mm256_setzero_ps(); }
INLINE Vec broadcast(float v) { return _mm256_set1_ps(v); }
INLINE Vec load(const float* p) { return _mm256_loadu_ps(p); }
INLINE void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
// Whole vectors are moved without a mask, because masked moves are slow.
INLINE Vec loadSome(const float* p, int64_t n) {
  return n == lanes ? load(p) : _mm256_maskload_ps(p, firstLanes(n));
}
INLINE void storeSome(float* p, int64_t n, Vec v) {
  if (n == lanes) _mm256_storeu_ps(p, v);
  else _mm256_maskstore_ps(p, firstLanes(n), v);
}
INLINE Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
INLINE Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
INLINE Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
INLINE Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
INLINE Vec root(Vec a) { return _mm256_sqrt_ps(a); }
INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
/// c += a * b in the register of c: GCC 12 moves the results of `fma` where a loop is unrolled.
INLINE void accumulate(Vec& c, Vec a, Vec b) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
}
INLINE Vec fnma(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }
INLINE Vec positive(Vec v) { return _mm256_max_ps(_mm256_setzero_ps(), v); }
INLINE Vec lesser(Vec a, Vec b) { return _mm256_min_ps(a, b); }
INLINE Vec greater(Vec a, Vec b) { return _mm256_max_ps(a, b); }
INLINE Vec whereAbove0(Vec of, Vec v) {
  return _mm256_and_ps(_mm256_cmp_ps(of, zero(), _CMP_GT_OQ), v);
}

#elif defined(OSIRIS_NEON)

#include "simd/neon.h"

#else

typedef float Vec __attribute__((vector_size(16)));
constexpr int lanes = 4;
constexpr int tileRows = 4;
constexpr int unrolledK = 1;

INLINE Vec broadcast(float v) { return Vec{v, v, v, v}; }
INLINE Vec zero() { return broadcast(0); }
INLINE Vec load(const float* p) {
  Vec v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
INLINE void store(float* p, Vec v) { __builtin_memcpy(p, &v, sizeof v); }
INLINE Vec loadSome(const float* p, int64_t n) {
  if (n == lanes) return load(p);
  Vec v = zero();
  for (int64_t i = 0; i < n; i++) v[i] = p[i];
  return v;
}
INLINE void storeSome(float* p, int64_t n, Vec v) {
  if (n == lanes) return store(p, v);
  for (int64_t i = 0; i < n; i++) p[i] = v[i];
}
INLINE Vec add(Vec a, Vec b) { return a + b; }
INLINE Vec sub(Vec a, Vec b) { return a - b; }
INLINE Vec mul(Vec a, Vec b) { return a * b; }
INLINE Vec div(Vec a, Vec b) { return a / b; }
INLINE Vec root(Vec a) {
  for (int i = 0; i < lanes; i++) a[i] = __builtin_sqrtf(a[i]);
  return a;
}
#if defined(__FP_FAST_FMAF)
INLINE Vec fma(Vec a, Vec b, Vec c) {
  for (int i = 0; i < lanes; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
}
INLINE Vec fnma(Vec a, Vec b, Vec c) { return fma(-a, b, c); }
#else
INLINE Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
INLINE Vec fnma(Vec a, Vec b, Vec c) { return c - a * b; }
#endif
INLINE void accumulate(Vec& c, Vec a, Vec b) { c = fma(a, b, c); }
INLINE Vec positive(Vec v) {
  for (int i = 0; i < lanes; i++) v[i] = v[i] < 0 ? 0 : v[i];
  return v;
}
INLINE Vec lesser(Vec a, Vec b) {
  for (int i = 0; i < lanes; i++) a[i] = a[i] < b[i] ? a[i] : b[i];
  return a;
}
INLINE Vec greater(Vec a, Vec b) {
  for (int i = 0; i < lanes; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
  return a;
}
INLINE Vec whereAbove0(Vec of, Vec v) {
  for (int i = 0; i < lanes; i++) v[i] = of[i] > 0 ? v[i] : 0;
  return v;
}

#endif

/// Detects NaN and infinities: v * 0 is 0 for finite numbers and NaN for others, and a sum with NaN
/// stays NaN. Pass it by value: if its address is taken, it leaves its register at every store.
struct Finite {
  Vec seen;

  Finite() : seen(zero()) {}
  void look(Vec v) { seen = fma(v, zero(), seen); }
  void look(const float* v, int64_t n) {
    for (int64_t c = 0; c < n; c += lanes) look(loadSome(v + c, n - c < lanes ? n - c : lanes));
  }
  void also(Finite other) { seen = add(seen, other.seen); }
  bool all() const {
    bool numbers = true;
    for (int i = 0; i < lanes; i++) numbers = numbers && seen[i] == 0;
    return numbers;
  }
};

#if !defined(OSIRIS_NEON)

/// The sum of a vector's lanes: halves are added until four lanes are left, then (0 + 2) + (1 + 3).
INLINE float sumOfLanes(Vec v) {
  typedef float Quad __attribute__((vector_size(16)));
#if defined(OSIRIS_AVX512)
  const __m256 lower = _mm512_maskz_extractf32x8_ps(0xff, v, 0);
  const __m256 half = _mm256_add_ps(lower, _mm512_maskz_extractf32x8_ps(0xff, v, 1));
  const Quad q = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#elif defined(OSIRIS_AVX2)
  const Quad q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
#else
  const Quad q = v;
#endif
  return (q[0] + q[2]) + (q[1] + q[3]);
}

/// The lane sums of `lanes` vectors, each with the bits of `sumOfLanes`.
INLINE Vec sumsOfLanes(const Vec (&v)[lanes]) {
#if defined(OSIRIS_AVX512)
  // Adds the halves of two vectors at a time, in the two halves of one register.
#define BESIDE(shuffle, a, b, lower, upper)                                                       \
  add(shuffle(everyLane, a, b, lower), shuffle(everyLane, a, b, upper))
  Vec eight[8], four[4], two[2];
  for (int r = 0; r < 8; r++) {
    const int at = r % 4 + r / 4 * 8;
    eight[r] = BESIDE(_mm512_maskz_shuffle_f32x4, v[at], v[at + 4], 0x44, 0xee);
  }
  for (int r = 0; r < 4; r++) {
    four[r] = BESIDE(_mm512_maskz_shuffle_f32x4, eight[r], eight[r + 4], 0x88, 0xdd);
  }
  for (int r = 0; r < 2; r++) {
    two[r] = BESIDE(_mm512_maskz_shuffle_ps, four[2 * r], four[2 * r + 1], 0x44, 0xee);
  }
  return BESIDE(_mm512_maskz_shuffle_ps, two[0], two[1], 0x88, 0xdd);
#undef BESIDE
#elif defined(OSIRIS_AVX2)
#define BESIDE(shuffle, a, b, lower, upper) add(shuffle(a, b, lower), shuffle(a, b, upper))
  Vec four[4], two[2];
  for (int r = 0; r < 4; r++) {
    four[r] = BESIDE(_mm256_permute2f128_ps, v[r], v[r + 4], 0x20, 0x31);
  }
  for (int r = 0; r < 2; r++) {
    two[r] = BESIDE(_mm256_shuffle_ps, four[2 * r], four[2 * r + 1], 0x44, 0xee);
  }
  return BESIDE(_mm256_shuffle_ps, two[0], two[1], 0x88, 0xdd);
#undef BESIDE
#else
  float sums[lanes];
  for (int r = 0; r < lanes; r++) sums[r] = sumOfLanes(v[r]);
  return load(sums);
#endif
}

#endif

/// a * b + c of single numbers, rounded like the lanes of a vector.
INLINE float fmaOne(float a, float b, float c) {
  float result[lanes];
  store(result, fma(broadcast(a), broadcast(b), broadcast(c)));
  return result[0];
}

/// Number of elements in the vector at index `at` of n elements: 0 .. lanes.
INLINE int64_t left(int64_t n, int64_t at) {
  const int64_t rest = n - at < lanes ? n - at : lanes;
  return rest > 0 ? rest : 0;
}

/// A larger output is evicted from the second-level cache before it is read. Stores then bypass the
/// caches: whole lines are written without being read first, which saves a third of a copy's
/// traffic.
constexpr int64_t farFloats = 1 << 18;

/// loadSome and storeSome, but without a mask for a whole vector, as AVX2's masked moves are slow.
INLINE Vec loadUpTo(const float* p, int64_t n) { return n == lanes ? load(p) : loadSome(p, n); }
INLINE void storeUpTo(float* p, int64_t n, Vec v) {
  n == lanes ? store(p, v) : storeSome(p, n, v);
}

INLINE bool isOnBoundary(const float* p) { return reinterpret_cast<uintptr_t>(p) % sizeof(Vec) == 0; }

/// Stores without the caches, in the sets that can; `p` must be aligned to a vector.
INLINE void storePast(float* p, Vec v) {
#if defined(OSIRIS_AVX512)
  _mm512_stream_ps(p, v);
#elif defined(OSIRIS_AVX2)
  _mm256_stream_ps(p, v);
#else
  store(p, v);
#endif
}

/// The vector that a loop over a row of 1 to 4, 8 or 16 `vectors` visits as its i-th. Cache lines
/// are not visited in ascending order, which a Zen 4 takes for a stream: it then reads lines after
/// the row, and a bare update of random rows of 64 columns takes a third longer.
constexpr int scattered(int i, int vectors) {
  constexpr int ofLine = 16 / lanes;
  const int lines = vectors / ofLine, line = i / ofLine;
  const int at = lines == 4 ? 3 * (line + 1) % 5 - 1 : lines > 4 ? (3 * line + 1) % lines : line;
  return at * ofLine + i % ofLine;
}

/// storeSome; if `far`, whole aligned vectors bypass the caches. A kernel that calls it must end
/// with `endFar`.
INLINE void storeFar(float* p, int64_t n, Vec v, bool far) {
  if (far && n == lanes && isOnBoundary(p)) storePast(p, v);
  else storeSome(p, n, v);
}

/// Orders stores that bypassed the caches before all later stores, as other threads see them.
INLINE void endFar() {
#if defined(OSIRIS_AVX512) || defined(OSIRIS_AVX2)
  _mm_sfence();
#endif
}

/// Copies `columns` columns of each sample. Prefetches explicitly, as a sample has too few columns
/// for the processor to predict the next addresses.
inline void copyColumns(Columns out, Columns from, int64_t samples, int64_t columns) {
  constexpr int64_t ahead = 8;
  const bool far = samples * columns > farFloats;
  for (int64_t b = 0; b < samples; b++, out.at += out.stride, from.at += from.stride) {
    const bool asks = b + ahead < samples;
    for (int64_t c = 0; c < columns; c += lanes) {
      if (asks && c % 16 == 0) {
        __builtin_prefetch(from.at + ahead * from.stride + c, 0, 3);
        if (!far) __builtin_prefetch(out.at + ahead * out.stride + c, 1, 3);
      }
      if (c + lanes <= columns) storeFar(out.at + c, lanes, load(from.at + c), far);
      else storeSome(out.at + c, left(columns, c), loadSome(from.at + c, left(columns, c)));
    }
  }
  endFar();
}

/// Copies ranges of columns of each sample: three numbers a range, its first columns in `out` and
/// in `from`, and its columns. Sample by sample, so that memory is read and written in order.
inline void copyRuns(Columns out, Columns from, int64_t samples, const int32_t* runs,
                     int64_t count) {
  int64_t all = 0;
  for (int64_t i = 0; i < count; i++) all += runs[3 * i + 2];
  const bool far = samples * all > farFloats;
  for (int64_t b = 0; b < samples; b++, out.at += out.stride, from.at += from.stride) {
    for (int64_t i = 0; i < count; i++) {
      float* to = out.at + runs[3 * i];
      const float* source = from.at + runs[3 * i + 1];
      const int64_t columns = runs[3 * i + 2];
      for (int64_t c = 0; c < columns; c += lanes) {
        if (c + lanes <= columns) storeFar(to + c, lanes, load(source + c), far);
        else storeSome(to + c, left(columns, c), loadSome(source + c, left(columns, c)));
      }
    }
  }
  endFar();
}

/// out += row, over n columns.
inline void addRow(float* out, const float* row, int64_t n) {
  for (int64_t c = 0; c < n; c += lanes) {
    const int64_t some = left(n, c);
    storeSome(out + c, some, add(loadUpTo(out + c, some), loadUpTo(row + c, some)));
  }
}

#if defined(OSIRIS_AVX512) || defined(OSIRIS_AVX2)

constexpr int64_t edge = 8;

/// Transposes a square of `edge` rows and columns in registers; rows k and k+4 share a register.
INLINE void transposeSquare(float* out, int64_t outStride, const float* in, int64_t inStride) {
  UNROLL for (int j = 0; j < 8; j += 4) {
    __m256 r[4];
    UNROLL for (int k = 0; k < 4; k++) {
      const __m256 upper = _mm256_castps128_ps256(_mm_loadu_ps(in + k * inStride + j));
      r[k] = _mm256_insertf128_ps(upper, _mm_loadu_ps(in + (k + 4) * inStride + j), 1);
    }
    const __m256 ab = _mm256_unpacklo_ps(r[0], r[1]), cd = _mm256_unpacklo_ps(r[2], r[3]);
    const __m256 ef = _mm256_unpackhi_ps(r[0], r[1]), gh = _mm256_unpackhi_ps(r[2], r[3]);
    float* to = out + j * outStride;
    _mm256_storeu_ps(to, _mm256_shuffle_ps(ab, cd, 0x44));
    _mm256_storeu_ps(to + outStride, _mm256_shuffle_ps(ab, cd, 0xee));
    _mm256_storeu_ps(to + 2 * outStride, _mm256_shuffle_ps(ef, gh, 0x44));
    _mm256_storeu_ps(to + 3 * outStride, _mm256_shuffle_ps(ef, gh, 0xee));
  }
}

#else

constexpr int64_t edge = 4;

INLINE void transposeSquare(float* out, int64_t outStride, const float* in, int64_t inStride) {
  Vec r[4];
  for (int k = 0; k < 4; k++) r[k] = load(in + k * inStride);
  const Vec ab = SHUFFLE(r[0], r[1], 0, 4, 1, 5), cd = SHUFFLE(r[2], r[3], 0, 4, 1, 5);
  const Vec ef = SHUFFLE(r[0], r[1], 2, 6, 3, 7), gh = SHUFFLE(r[2], r[3], 2, 6, 3, 7);
  store(out, SHUFFLE(ab, cd, 0, 1, 4, 5));
  store(out + outStride, SHUFFLE(ab, cd, 2, 3, 6, 7));
  store(out + 2 * outStride, SHUFFLE(ef, gh, 0, 1, 4, 5));
  store(out + 3 * outStride, SHUFFLE(ef, gh, 2, 3, 6, 7));
}

#endif

/// Transposes in squares. The last squares of rows and columns overlap their neighbours.
INLINE void transposeSquares(float* out, int64_t outStride, const float* in, int64_t inStride,
                             int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; i += edge) {
    if (i > rows - edge) i = rows - edge;
    for (int64_t j = 0; j < columns; j += edge) {
      if (j > columns - edge) j = columns - edge;
      transposeSquare(out + j * outStride + i, outStride, in + i * inStride + j, inStride);
    }
  }
}

#if defined(OSIRIS_AVX512)

#define INSERT_QUARTER(v, from, at) _mm512_maskz_insertf32x4(everyLane, v, _mm_loadu_ps(from), at)

/// Transposes 16 rows of 4 columns; rows k, k+4, k+8 and k+12 share a register.
INLINE void transposeStrip(float* out, int64_t outStride, const float* in, int64_t inStride) {
  __m512 r[4];
  UNROLL for (int k = 0; k < 4; k++) {
    const float* from = in + k * inStride;
    r[k] = _mm512_castps128_ps512(_mm_loadu_ps(from));
    r[k] = INSERT_QUARTER(r[k], from + 4 * inStride, 1);
    r[k] = INSERT_QUARTER(r[k], from + 8 * inStride, 2);
    r[k] = INSERT_QUARTER(r[k], from + 12 * inStride, 3);
  }
  const __m512 ab = _mm512_maskz_unpacklo_ps(everyLane, r[0], r[1]);
  const __m512 cd = _mm512_maskz_unpacklo_ps(everyLane, r[2], r[3]);
  const __m512 ef = _mm512_maskz_unpackhi_ps(everyLane, r[0], r[1]);
  const __m512 gh = _mm512_maskz_unpackhi_ps(everyLane, r[2], r[3]);
  store(out, _mm512_maskz_shuffle_ps(everyLane, ab, cd, 0x44));
  store(out + outStride, _mm512_maskz_shuffle_ps(everyLane, ab, cd, 0xee));
  store(out + 2 * outStride, _mm512_maskz_shuffle_ps(everyLane, ef, gh, 0x44));
  store(out + 3 * outStride, _mm512_maskz_shuffle_ps(everyLane, ef, gh, 0xee));
}

#undef INSERT_QUARTER
#endif

/// out[j*outStride + i] = in[i*inStride + j] for i < rows, j < columns: 16 rows at a time in
/// AVX-512, the rest in squares.
inline void transpose(float* out, int64_t outStride, const float* in, int64_t inStride,
                      int64_t rows, int64_t columns) {
  if (rows < edge || columns < edge) {
    for (int64_t i = 0; i < rows; i++) {
      for (int64_t j = 0; j < columns; j++) out[j * outStride + i] = in[i * inStride + j];
    }
    return;
  }
  int64_t i = 0;
#if defined(OSIRIS_AVX512)
  for (; rows >= lanes && rows - i > edge; i += lanes) {
    if (i > rows - lanes) i = rows - lanes;
    for (int64_t j = 0; j < columns; j += 4) {
      if (j > columns - 4) j = columns - 4;
      transposeStrip(out + j * outStride + i, outStride, in + i * inStride + j, inStride);
    }
  }
#endif
  if (i >= rows) return;
  if (i > rows - edge) i = rows - edge;
  transposeSquares(out + i, outStride, in + i * inStride, inStride, rows - i, columns);
}
