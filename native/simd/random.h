// Counter-based random numbers, which depend only on key and counter: Philox4x32
// (src/ports/random.ts). Included before precision.h, which rounds with them.

/// Vectors of 64-bit lanes. A word is the low half of a lane; products ignore the high half.
constexpr int wideLanes = lanes / 2;
typedef uint64_t Wide __attribute__((vector_size(8 * wideLanes)));

INLINE Wide countWide(uint64_t first) {
  uint64_t lane[wideLanes];
  for (int i = 0; i < wideLanes; i++) lane[i] = static_cast<uint64_t>(i);
  Wide v;
  __builtin_memcpy(&v, lane, sizeof v);
  return v + first;
}

/// The 64-bit products of the low halves of a's lanes and b.
INLINE Wide multiplyLow(Wide a, uint32_t b) {
#if defined(OSIRIS_AVX512)
  const __m512i factor = _mm512_set1_epi64(b);
  return (Wide)_mm512_maskz_mul_epu32(0xff, (__m512i)a, factor);
#elif defined(OSIRIS_AVX2)
  return (Wide)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#elif defined(OSIRIS_NEON)
  return (Wide)vmull_n_u32(vmovn_u64((uint64x2_t)a), b);
#else
  return (a & 0xffffffffu) * b;
#endif
}

/// Stores the lanes of a and b alternately: a0 b0 a1 b1 ...
INLINE void storeZipped(void* out, Wide a, Wide b) {
#if defined(OSIRIS_AVX512)
  const __m512i low = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
  const __m512i high = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
  _mm512_storeu_si512(out, _mm512_permutex2var_epi64((__m512i)a, low, (__m512i)b));
  _mm512_storeu_si512(static_cast<char*>(out) + 64,
                      _mm512_permutex2var_epi64((__m512i)a, high, (__m512i)b));
#elif defined(OSIRIS_AVX2)
  const __m256i even = _mm256_unpacklo_epi64((__m256i)a, (__m256i)b);
  const __m256i odd = _mm256_unpackhi_epi64((__m256i)a, (__m256i)b);
  __m256i* to = static_cast<__m256i*>(out);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
#elif defined(OSIRIS_NEON)
  uint64_t* to = static_cast<uint64_t*>(out);
  vst1q_u64(to, vzip1q_u64((uint64x2_t)a, (uint64x2_t)b));
  vst1q_u64(to + 2, vzip2q_u64((uint64x2_t)a, (uint64x2_t)b));
#else
  uint64_t zipped[2 * wideLanes];
  for (int i = 0; i < wideLanes; i++) {
    zipped[2 * i] = a[i];
    zipped[2 * i + 1] = b[i];
  }
  __builtin_memcpy(out, zipped, sizeof zipped);
#endif
}

/// words[4*i + j] = word j of counter [block+i low, block+i high, word2, word3].
template <int counters, int rounds>
INLINE void philox(void* words, const uint32_t* key, uint64_t block, uint32_t word2,
                   uint32_t word3) {
  constexpr int vectors = counters / wideLanes;
  Wide c0[vectors], c1[vectors], c2[vectors], c3[vectors];
  UNROLL for (int v = 0; v < vectors; v++) {
    c0[v] = countWide(block + v * wideLanes);
    c1[v] = c0[v] >> 32;
    c2[v] = Wide{} + word2;
    c3[v] = Wide{} + word3;
  }
  Wide k0 = Wide{} + key[0], k1 = Wide{} + key[1];
  UNROLL for (int round = 0; round < rounds; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
    UNROLL for (int v = 0; v < vectors; v++) {
      const Wide p0 = multiplyLow(c0[v], 0xd2511f53u), p1 = multiplyLow(c2[v], 0xcd9e8d57u);
      c0[v] = (p1 >> 32) ^ c1[v] ^ k0;
      c2[v] = (p0 >> 32) ^ c3[v] ^ k1;
      c1[v] = p1;
      c3[v] = p0;
    }
  }
  UNROLL for (int v = 0; v < vectors; v++) {
    const Wide low = Wide{} + 0xffffffffu;
    char* out = static_cast<char*>(words) + v * 2 * sizeof(Wide);
    storeZipped(out, (c0[v] & low) | c1[v] << 32, (c2[v] & low) | c3[v] << 32);
  }
}

[[gnu::noinline]] inline void uniform(float* t, int64_t n, const uint32_t* key, uint32_t purpose, int64_t first,
                    float scale) {
  uint32_t words[64];
  uint64_t block = static_cast<uint64_t>(first) / 4;
  int64_t skipped = first % 4;
  for (int64_t done = 0; done < n; block += 16, skipped = 0) {
    philox<16, 10>(words, key, block, 0, purpose);
    const int64_t count = n - done < 64 - skipped ? n - done : 64 - skipped;
    for (int64_t i = 0; i < count; i++) {
      const float u24 = static_cast<float>(static_cast<int32_t>(words[skipped + i] >> 8));
      t[done + i] = (u24 * 0x1p-23f - 1.0f) * scale;
    }
    done += count;
  }
}

inline void dropout(float* x, int64_t n, const uint32_t* key, uint32_t purpose, uint32_t step,
                    int64_t first, float keep, uint32_t limit) {
  uint32_t words[64];
  uint64_t block = static_cast<uint64_t>(first) / 4;
  int64_t skipped = first % 4;
  for (int64_t done = 0; done < n; block += 16, skipped = 0) {
    philox<16, 10>(words, key, block, step, purpose);
    const int64_t count = n - done < 64 - skipped ? n - done : 64 - skipped;
    for (int64_t i = 0; i < count; i++) {
      const float kept = x[done + i] / keep;
      x[done + i] = words[skipped + i] < limit ? 0 : kept;
    }
    done += count;
  }
}
