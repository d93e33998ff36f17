// Vectors of NEON, the base set of every 64-bit ARM processor: four lanes, 32 registers, and fused
// multiply-adds. Included by vector.h. Operators of GCC and clang on vectors round like the
// instructions, so intrinsics are used only where an operator would become several instructions.

typedef float Vec __attribute__((vector_size(16)));
constexpr int lanes = 4;
constexpr int tileRows = 12;  // 12 x 2 accumulators, 2 of B, 3 of A: 29 of 32 registers
constexpr int unrolledK = 1;

INLINE Vec zero() { return Vec{}; }
INLINE Vec broadcast(float v) { return (Vec)vdupq_n_f32(v); }
INLINE Vec load(const float* p) { return (Vec)vld1q_f32(p); }
INLINE void store(float* p, Vec v) { vst1q_f32(p, (float32x4_t)v); }
INLINE Vec loadSome(const float* p, int64_t n) {
  if (n == lanes) return load(p);
  const float32x2_t none = vdup_n_f32(0);
  if ((n & 2) == 0) return (Vec)vcombine_f32(n == 0 ? none : vld1_lane_f32(p, none, 0), none);
  const float32x2_t high = n == 2 ? none : vld1_lane_f32(p + 2, none, 0);
  return (Vec)vcombine_f32(vld1_f32(p), high);
}
INLINE void storeSome(float* p, int64_t n, Vec v) {
  if (n == lanes) return store(p, v);
  float32x2_t rest = vget_low_f32((float32x4_t)v);
  if ((n & 2) != 0) {
    vst1_f32(p, rest);
    rest = vget_high_f32((float32x4_t)v);
  }
  if ((n & 1) != 0) vst1_lane_f32(p + (n & 2), rest, 0);
}
INLINE Vec add(Vec a, Vec b) { return a + b; }
INLINE Vec sub(Vec a, Vec b) { return a - b; }
INLINE Vec mul(Vec a, Vec b) { return a * b; }
INLINE Vec div(Vec a, Vec b) { return a / b; }
INLINE Vec root(Vec a) { return (Vec)vsqrtq_f32((float32x4_t)a); }
INLINE Vec fma(Vec a, Vec b, Vec c) {
  return (Vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
INLINE Vec fnma(Vec a, Vec b, Vec c) {
  return (Vec)vfmsq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
// Comparisons and selections, as FMAX and FMIN treat NaN and -0 in another way than the other sets.
INLINE Vec positive(Vec v) { return v < 0 ? zero() : v; }
INLINE Vec lesser(Vec a, Vec b) { return a < b ? a : b; }
INLINE Vec greater(Vec a, Vec b) { return a > b ? a : b; }
INLINE Vec whereAbove0(Vec of, Vec v) { return of > 0 ? v : zero(); }

/// (0 + 2) + (1 + 3) of a vector's lanes.
INLINE float sumOfLanes(Vec v) {
  const float32x4_t all = (float32x4_t)v;
  return vpadds_f32(vadd_f32(vget_low_f32(all), vget_high_f32(all)));
}

INLINE Vec sumsOfLanes(const Vec (&v)[lanes]) {
  float64x2_t pairs[lanes];
  UNROLL for (int r = 0; r < lanes; r++) pairs[r] = (float64x2_t)v[r];
  // The low halves of two vectors plus their high halves.
  const Vec first = (Vec)vzip1q_f64(pairs[0], pairs[1]) + (Vec)vzip2q_f64(pairs[0], pairs[1]);
  const Vec second = (Vec)vzip1q_f64(pairs[2], pairs[3]) + (Vec)vzip2q_f64(pairs[2], pairs[3]);
  return (Vec)vpaddq_f32((float32x4_t)first, (float32x4_t)second);
}
