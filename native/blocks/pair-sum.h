// The sum of the dot products of all pairs of a sample's vectors (Rendle 2010), in time linear in
// the number of vectors. Included by blocks/blocks.cc for each instruction set, after layer-norm.h.

/// n columns of the sum of `count` vectors that are `dim` apart.
INLINE Vec sumOfVectors(const float* x, int64_t count, int64_t dim, int64_t n) {
  Vec sum = zero();
  for (int64_t f = 0; f < count; f++) sum = add(sum, loadSome(x + f * dim, n));
  return sum;
}

inline void pairSum(float* out, const float* x, int64_t samples, int64_t count, int64_t dim) {
  for (int64_t s = 0; s < samples; s++, x += count * dim) {
    LaneSums total;
    eachVector(dim, [&](int v, int64_t c, int64_t n) INLINE_LAMBDA {
      const Vec sum = sumOfVectors(x + c, count, dim, n);
      Vec squares = zero();
      for (int64_t f = 0; f < count; f++) {
        const Vec own = loadSome(x + f * dim + c, n);
        squares = fma(own, own, squares);
      }
      total.acc[v] = add(total.acc[v], sub(mul(sum, sum), squares));
    });
    out[s] = 0.5f * sumOfLanes(total.folded());
  }
}

inline void dPairSum(float* dX, const float* dOut, const float* x, int64_t samples, int64_t count,
                     int64_t dim) {
  for (int64_t s = 0; s < samples; s++, x += count * dim, dX += count * dim) {
    const Vec d = broadcast(dOut[s]);
    for (int64_t c = 0; c < dim; c += lanes) {
      const int64_t n = left(dim, c);
      const Vec sum = sumOfVectors(x + c, count, dim, n);
      for (int64_t f = 0; f < count; f++) {
        const Vec others = sub(sum, loadSome(x + f * dim + c, n));
        storeSome(dX + f * dim + c, n, mul(d, others));
      }
    }
  }
}
