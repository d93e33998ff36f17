// Products of bfloat16 operands in float32. Included by dense/dense.cc for each instruction set.
//
// Operands are rounded to bfloat16, to nearest even, when they are packed; numbers below the
// smallest normal number become 0. The sum over k goes by pairs (a last pair with one k is filled
// with 0). A pair is two fused multiply-adds, the odd k before the even k, whose inputs and results
// are flushed to 0 in the same way. VDPBF16PS does exactly this, so all instruction sets give the
// same bits.

#if defined(OSIRIS_PAIRS)

/// A packed element is a pair of k, with the even k in the low half.
struct Bfloat16 {
  using Tiles = Bfloat16;
  static constexpr bool flushed = false;
  static constexpr int64_t blockK = 2 * packedK;
  static constexpr int64_t asksFrom = 64;  // shorter chains, and tiles of one row, lose by it
  static constexpr int64_t together = 2, made = 1;
  static constexpr bool converts = true;
  static constexpr int tallest = tileRows, widest = 2;

  static int64_t packed(int64_t k) { return (k + 1) / 2; }

  INLINE Vec both(Vec low, Vec high) { return (Vec)_mm512_cvtne2ps_pbh(high, low); }

  INLINE void packAlong(float* out, const float* from, int64_t k) {
    int64_t i = 0;
    for (; i + 2 * lanes <= k; i += 2 * lanes) {
      store(out + i / 2, both(load(from + i), load(from + i + lanes)));
    }
    if (i == k) return;
    const Vec low = loadSome(from + i, left(k, i));
    const Vec high = loadSome(from + i + lanes, left(k, i + lanes));
    storeSome(out + i / 2, packed(k - i), both(low, high));
  }

  INLINE void packAcross(Vec (&out)[made], const float* from, int64_t next, int64_t n) {
    alignas(64) static const uint16_t order[32] = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const Vec even = n == lanes ? load(from) : loadSome(from, n);
    const Vec odd = next == 0 ? zero() : n == lanes ? load(from + next) : loadSome(from + next, n);
    out[0] = (Vec)_mm512_maskz_permutexvar_epi16(0xffffffff, _mm512_load_si512(order),
                                                 (__m512i)both(even, odd));
  }

  template <int64_t rowA, int rows, int vectors>
  INLINE void multiply(Vec (&acc)[rows][vectors], int64_t k, const float* a, int64_t stepA,
                       const float* b, int64_t stepB, bool, Coming& coming) {
    for (int64_t p = 0; p < k; p++, a += stepA, b += stepB) {
      if (rows > 1 && p % 4 == 0 && k >= asksFrom) coming.ask();
      __m512bh bs[vectors];
      UNROLL for (int v = 0; v < vectors; v++) bs[v] = (__m512bh)load(b + v * lanes);
      UNROLL for (int m = 0; m < rows; m++) {
        const __m512bh am = (__m512bh)broadcast(a[m * rowA]);
        UNROLL for (int v = 0; v < vectors; v++) {
          acc[m][v] = _mm512_dpbf16_ps(acc[m][v], am, bs[v]);
        }
      }
    }
  }
};

/// The operands of the weight gradient of one output, which would use packed ones only once: a tile
/// reads them in place. An element is one k; the last pair of a chain may have only one.
struct UnpackedBfloat16 : Float32 {
  using Tiles = UnpackedBfloat16;
  static constexpr int64_t blockK = Bfloat16::blockK;
  static constexpr int tallest = 1, widest = 8;

  template <int64_t, int vectors>
  INLINE void multiply(Vec (&acc)[1][vectors], int64_t k, const float* a, int64_t, const float* b,
                       int64_t stepB, bool, Coming&) {
    constexpr int64_t ahead = 16;
    const auto step = [&](__m128 pair, int64_t next) INLINE_LAMBDA {
      for (int64_t i = 0; i < 2; i++) askFloats(b + (ahead + i) * stepB + lineEnd, vectors * lanes);
      const __m512i as = _mm512_broadcastd_epi32((__m128i)_mm_cvtneps_pbh(pair));
      UNROLL for (int v = 0; v < vectors; v++) {
        Vec bs[Bfloat16::made];
        Bfloat16::packAcross(bs, b + v * lanes, next, lanes);
        acc[0][v] = _mm512_dpbf16_ps(acc[0][v], (__m512bh)as, (__m512bh)bs[0]);
      }
    };
    for (; k > 1; k -= 2, a += 2, b += 2 * stepB) step(_mm_setr_ps(a[0], a[1], 0, 0), stepB);
    if (k == 1) step(_mm_load_ss(a), 0);
  }
};

#else

/// A packed element is a bfloat16 as a float32; the odd k of a pair is before the even k.
struct Bfloat16 {
  typedef uint32_t Words __attribute__((vector_size(4 * lanes)));

  static constexpr int64_t blockK = packedK;
  static constexpr int64_t together = 2, made = 2;
  static constexpr bool converts = true;
  static constexpr int tallest = tileRows, widest = 2;

  static int64_t packed(int64_t k) { return (k + 1) / 2 * 2; }

  INLINE Vec rounded(Vec v) {
    const Words bits = (Words)v, nearest = bits + 0x7fffu + ((bits >> 16) & 1u);
    const Words number = v == v ? nearest : bits | 0x00400000u;
    const Words isSmall = (Words)((Vec)(bits & 0x7fffffffu) < broadcast(0x1p-126f));
    return (Vec)(number & ((isSmall & 0x7fff0000u) ^ 0xffff0000u));  // of a small number, its sign
  }

  INLINE void packAlong(float* out, const float* from, int64_t k) {
    int64_t i = 0;
#if defined(OSIRIS_AVX512)
    for (; i + lanes <= k; i += lanes) {
      store(out + i, _mm512_maskz_permute_ps(everyLane, rounded(load(from + i)), 0xb1));
    }
#elif defined(OSIRIS_AVX2)
    for (; i + lanes <= k; i += lanes) {
      store(out + i, _mm256_permute_ps(rounded(load(from + i)), 0xb1));  // 1, 0, 3, 2 ...
    }
#endif
    for (; i < k; i += lanes) {
      const int64_t n = left(k, i);
      float values[lanes];
      store(values, rounded(n == lanes ? load(from + i) : loadSome(from + i, n)));
      for (int64_t j = 0; j < packed(n); j++) out[i + j] = values[j ^ 1];
    }
  }

  INLINE void packAcross(Vec (&out)[made], const float* from, int64_t next, int64_t n) {
    out[0] = next == 0 ? zero() : rounded(loadSome(from + next, n));
    out[1] = rounded(loadSome(from, n));
  }

#if defined(OSIRIS_AVX512) || defined(OSIRIS_AVX2)
  using Tiles = Float32;
  static constexpr bool flushed = true;
#else
  using Tiles = Bfloat16;
  static constexpr bool flushed = false;
  static constexpr int64_t asksFrom = 0;

  /// Rounds a double to float32 and flushes small numbers to 0. A product of two bfloat16 is exact
  /// in a double, and its sum with a float32 is so close that rounding twice equals rounding once.
  INLINE float flush(double v) {
    constexpr double smallest = 0x1.ffffffp-127;  // the least that rounds up to 2^-126
    return __builtin_fabs(v) < smallest ? __builtin_copysignf(0, static_cast<float>(v))
                                        : static_cast<float>(v);
  }

  template <int64_t rowA, int rows, int vectors>
  INLINE void multiplyExactly(Vec (&acc)[rows][vectors], int64_t k, const float* a, int64_t stepA,
                              const float* b, int64_t stepB) {
    for (int64_t p = 0; p < k; p++, a += stepA, b += stepB) {
      for (int m = 0; m < rows; m++) {
        const double am = a[m * rowA];
        for (int v = 0; v < vectors; v++) {
          for (int i = 0; i < lanes; i++) {
            acc[m][v][i] = flush(flush(acc[m][v][i]) + am * b[v * lanes + i]);
          }
        }
      }
    }
  }

#if defined(OSIRIS_NEON)
  INLINE uint64_t controls() {
    uint64_t bits;
    asm volatile("mrs %0, fpcr" : "=r"(bits));
    return bits;
  }
  INLINE void setControls(uint64_t bits) { asm volatile("msr fpcr, %0" ::"r"(bits)); }

  template <int rows, int vectors>
  INLINE void pin(Vec (&acc)[rows][vectors]) {
    UNROLL for (int m = 0; m < rows; m++) {
      UNROLL for (int v = 0; v < vectors; v++) asm volatile("" : "+w"(acc[m][v]));
    }
  }

  /// The chain with the processor's flushing. ARM flushes a result that is too small before it is
  /// rounded, where the definition rounds first, so that the least normal number may become 0. The
  /// processor notes each flushed result: then the tile is computed again, exactly.
  template <int64_t rowA, int rows, int vectors>
  INLINE void multiply(Vec (&acc)[rows][vectors], int64_t k, const float* a, int64_t stepA,
                       const float* b, int64_t stepB, bool, Coming& coming) {
    constexpr uint64_t flushes = 1 << 24, hasFlushed = 1 << 3;  // FPCR.FZ and FPSR.UFC
    Vec start[rows][vectors];
    std::memcpy(start, acc, sizeof start);
    const uint64_t before = controls();
    uint64_t status = 0;
    asm volatile("msr fpsr, %0" ::"r"(status));
    setControls(before | flushes);
    pin(acc);
    chain<rows, vectors, rowA>(acc, k, a, stepA, b, stepB, coming);
    pin(acc);
    asm volatile("mrs %0, fpsr" : "=r"(status));
    setControls(before);
    pin(acc);
    if ((status & hasFlushed) == 0) return;
    multiplyExactly<rowA>(start, k, a, stepA, b, stepB);
    std::memcpy(acc, start, sizeof start);
  }
#else
  template <int64_t rowA, int rows, int vectors>
  INLINE void multiply(Vec (&acc)[rows][vectors], int64_t k, const float* a, int64_t stepA,
                       const float* b, int64_t stepB, bool, Coming&) {
    multiplyExactly<rowA>(acc, k, a, stepA, b, stepB);
  }
#endif
#endif
};

#endif

inline void linearBfloat16(float* out, const float* x, const float* w, const float* b,
                           int64_t samples, int64_t inputs, int64_t outputs, bool relu) {
  layer<Bfloat16>(out, x, w, b, samples, inputs, outputs, relu);
}

inline void dLinearInputBfloat16(float* dX, const float* dOut, const float* w, int64_t samples,
                                 int64_t inputs, int64_t outputs, const Addends& plus,
                                 Optional<const float> above) {
  product<Bfloat16>(dX, {dOut, outputs, 1}, {w, inputs, 1}, nullptr, false, samples, inputs,
                    outputs, plus, above);
}

inline void dLinearWeightBfloat16(float* const* dW, float* const* dB, const float* dOut,
                                  const float* x, int64_t inputs, int64_t outputs,
                                  const Slices& slices) {
#if defined(OSIRIS_PAIRS)
  if (outputs == 1 && inputs >= lanes) {
    return weightProduct<UnpackedBfloat16>(dW, dB, dOut, x, inputs, outputs, slices);
  }
#endif
  weightProduct<Bfloat16>(dW, dB, dOut, x, inputs, outputs, slices);
}
