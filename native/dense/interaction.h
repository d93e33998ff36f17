// The interaction of features: dot products of all pairs, forward and backward. Included by
// dense/dense.cc for each instruction set.

/// A tile of x * x^T below the diagonal, from row i0 and column j0 on. Both operands are x^T
/// (D,stride). Stores of whole vectors, which need no mask, reach into later rows, which overwrite
/// this, except at the end of all pairs.
template <int rows, int vectors>
void gram(float* pairs, const float* end, const float* xT, int64_t stride, int64_t dim, int64_t i0,
          int64_t j0) {
  Vec acc[rows][vectors];
  clear(acc);
  Coming none;
  chain<rows, vectors, 1>(acc, dim, xT + i0, stride, xT + j0, stride, none);
  UNROLL for (int m = 0; m < rows; m++) {
    const int64_t i = i0 + m;
    UNROLL for (int v = 0; v < vectors; v++) {
      const int64_t j = j0 + v * lanes;
      float* const to = pairs + i * (i - 1) / 2 + j;
      if (j < i) storeSome(to, end - to < lanes ? left(i, j) : lanes, acc[m][v]);
    }
  }
}

constexpr int gramRows = tileRows < 8 ? 4 : 8;
/// Rows of a tile of dX. With AVX2, 8 sums in flight would not hide the latency of their chains.
constexpr int featureRows = lanes == 8 ? 6 : gramRows;
struct Gram {
  template <int rows, int vectors>
  static constexpr auto run = gram<rows, vectors>;
};

inline void interact(float* out, const float* x, int64_t samples, int64_t features, int64_t dim,
                     int64_t copied, bool dots) {
  const int64_t stride = (features + lanes - 1) / lanes * lanes;
  const int64_t width = copied * dim + (dots ? features * (features - 1) / 2 : 0);
  float* xT = scratches().features.take<float>(dim * stride);
  std::memset(xT, 0, dim * stride * sizeof(float));
  for (int64_t b = 0; b < samples; b++, x += features * dim, out += width) {
    std::memcpy(out, x, copied * dim * sizeof(float));
    if (!dots) continue;
    transpose(xT, stride, x, dim, features, dim);
    for (int64_t i0 = 0; i0 < features; i0 += gramRows) {
      const int64_t rows = features - i0 < gramRows ? features - i0 : gramRows;
      if (b + 1 < samples) askFloats(x + (features + i0) * dim, rows * dim);
      // The first columns come last, as they overwrite what the row before has stored there.
      for (int64_t j0 = (i0 + rows - 2) / tileColumns * tileColumns; j0 >= 0; j0 -= tileColumns) {
        const auto tile = pickTile<Gram, gramRows>(rows, vectorsOf(i0 + rows - 1 - j0));
        tile(out + copied * dim, out + width, xT, stride, dim, i0, j0);
      }
    }
  }
}

/// One sample of `dInteract`. The rows of x are padded to whole vectors.
struct DSample {
  float* dX;
  const float* dOut;
  const float* x;  // (F,stride)
  int64_t stride, features, dim, copied;

  /// dZ(i,0) .. dZ(i,i-1)
  const float* below(int64_t i) const { return dOut + copied * dim + i * (i - 1) / 2; }
};

/// acc(m) += dZ(m) * x for each m except `without`.
template <int rows, int vectors, typename DZ>
INLINE void addScaled(Vec (&acc)[rows][vectors], const float* x, int without, DZ dZ) {
  Vec xs[vectors];
  UNROLL for (int v = 0; v < vectors; v++) xs[v] = load(x + v * lanes);
  UNROLL for (int m = 0; m < rows; m++) {
    if (m == without) continue;
    const Vec scale = broadcast(dZ(m));
    UNROLL for (int v = 0; v < vectors; v++) acc[m][v] = fma(scale, xs[v], acc[m][v]);
  }
}

/// A tile of dX from row i0 and column c on: the copied part, then the terms of all j != i,
/// ascending.
template <int rows, int vectors>
void dFeatures(const DSample& s, int64_t i0, int64_t c) {
  Vec acc[rows][vectors];
  const float* own[rows];
  UNROLL for (int m = 0; m < rows; m++) {
    own[m] = s.below(i0 + m);
    UNROLL for (int v = 0; v < vectors; v++) {
      const int64_t n = left(s.dim, c + v * lanes);
      const float* copied = s.dOut + (i0 + m) * s.dim + c + v * lanes;
      acc[m][v] = i0 + m < s.copied ? loadSome(copied, n) : zero();
    }
  }
  const float* x = s.x + c;
  int64_t j = 0;
  for (; j < i0; j++, x += s.stride) {
    addScaled(acc, x, -1, [&](int m) INLINE_LAMBDA { return own[m][j]; });
  }
  UNROLL for (int d = 0; d < rows; d++, j++, x += s.stride) {
    addScaled(acc, x, d, [&](int m) INLINE_LAMBDA { return m < d ? own[d][i0 + m] : own[m][j]; });
  }
  for (const float* other = s.below(j) + i0; j < s.features; other += j, j++, x += s.stride) {
    addScaled(acc, x, -1, [&](int m) INLINE_LAMBDA { return other[m]; });
  }
  storeRows(s.dX + i0 * s.dim + c, s.dim, acc, left(s.dim, c + (vectors - 1) * lanes));
}

struct DFeatures {
  template <int rows, int vectors>
  static constexpr auto run = dFeatures<rows, vectors>;
};

inline void dInteract(float* dX, const float* dOut, const float* x, int64_t samples,
                      int64_t features, int64_t dim, int64_t copied, bool dots) {
  const int64_t width = copied * dim + (dots ? features * (features - 1) / 2 : 0);
  const int64_t stride = (dim + lanes - 1) / lanes * lanes;
  float* padded = scratches().features.take<float>(features * stride);
  for (int64_t b = 0; b < samples; b++, x += features * dim, dX += features * dim, dOut += width) {
    if (!dots) {
      std::memcpy(dX, dOut, copied * dim * sizeof(float));
      std::memset(dX + copied * dim, 0, (features - copied) * dim * sizeof(float));
      continue;
    }
    for (int64_t i = 0; stride != dim && i < features; i++) {
      std::memcpy(padded + i * stride, x + i * dim, dim * sizeof(float));
    }
    const float* rows = stride == dim ? x : padded;
    const DSample sample{dX, dOut, rows, stride, features, dim, copied};
    for (int64_t i0 = 0; i0 < features; i0 += featureRows) {
      const int64_t some = features - i0 < featureRows ? features - i0 : featureRows;
      for (int64_t c = 0; c < dim; c += tileColumns) {
        if (dim > 32) {  // Smaller samples wait less for memory than the prefetches take.
          for (int64_t m = i0; m < i0 + some; m++) askFloats(dX + m * dim + c, tileColumns);
        }
        pickTile<DFeatures, featureRows>(some, vectorsOf(dim - c))(sample, i0, c);
      }
    }
  }
}
