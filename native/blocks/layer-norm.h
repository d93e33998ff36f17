// Layer normalisation of rows. Included by blocks/blocks.cc for each instruction set.
//
// Sums over a row of D columns: lane i of 32 adds up the columns i, i+32, ...; then lane i + lane
// i+16, then 8, 4, 2, 1. All sets with a fused multiply-add give the same bits.

constexpr int sumLanes = 32;
constexpr int sumVectors = sumLanes / lanes;

/// 32 lanes of a sum over a row.
struct LaneSums {
  Vec acc[sumVectors];

  LaneSums() {
    UNROLL for (int v = 0; v < sumVectors; v++) acc[v] = zero();
  }

  /// The lanes of one vector, of which `sumOfLanes` makes the sum.
  Vec folded() {
    UNROLL for (int half = sumVectors / 2; half >= 1; half /= 2) {
      UNROLL for (int v = 0; v < half; v++) acc[v] = add(acc[v], acc[v + half]);
    }
    return acc[0];
  }
};

/// Calls take(vector of the sum, first column, columns) for each vector of a row. The last call of
/// a row may have fewer columns than a vector.
template <typename Take>
INLINE void eachVector(int64_t dim, Take take) {
  int64_t c = 0;
  for (; c + sumLanes <= dim; c += sumLanes) {
    UNROLL for (int v = 0; v < sumVectors; v++) take(v, c + v * lanes, lanes);
  }
  UNROLL for (int v = 0; v < sumVectors; v++) {
    const int64_t at = c + v * lanes;
    const int64_t some = left(dim, at);
    if (some > 0) take(v, at, some);
  }
}

/// As loadSome and storeSome, without a mask where n is known to be a whole vector.
INLINE Vec loadUpTo(const float* p, int64_t n) { return n == lanes ? load(p) : loadSome(p, n); }
INLINE void storeUpTo(float* p, int64_t n, Vec v) {
  if (n == lanes) store(p, v);
  else storeSome(p, n, v);
}

/// Rows whose sums are finished together: their additions do not wait for each other.
constexpr int64_t rowsTogether = lanes;

/// Means over the columns of up to `rowsTogether` rows: sums(row) gives the lanes of a row's sum.
template <typename Sums>
INLINE Vec meansOf(int64_t rows, float count, Sums sums) {
  Vec lanesOfRows[rowsTogether];
  for (int64_t r = 0; r < rowsTogether; r++) lanesOfRows[r] = r < rows ? sums(r) : zero();
  return div(sumsOfLanes(lanesOfRows), broadcast(count));
}

inline void layerNorm(float* out, float* saved, const float* x, const float* gain,
                      const float* bias, int64_t rows, int64_t dim, float epsilon) {
  const float count = static_cast<float>(dim);
  const bool far = rows * dim > farFloats && out != x;
  float mean[lanes], unit[lanes];
  float* centredRows = scratches().rightOperand.take<float>(rowsTogether * padded(dim));
  for (int64_t first = 0; first < rows; first += rowsTogether) {
    const int64_t some = rows - first < rowsTogether ? rows - first : rowsTogether;
    const Vec means = meansOf(some, count, [&](int64_t r) INLINE_LAMBDA {
      LaneSums sum;
      eachVector(dim, [&](int v, int64_t c, int64_t n) INLINE_LAMBDA {
        sum.acc[v] = add(sum.acc[v], loadUpTo(x + r * dim + c, n));
      });
      return sum.folded();
    });
    store(mean, means);
    // Centred through memory: the lanes behind the last column are 0 again when it is read back.
    const Vec variances = meansOf(some, count, [&](int64_t r) INLINE_LAMBDA {
      LaneSums squares;
      eachVector(dim, [&](int v, int64_t c, int64_t n) INLINE_LAMBDA {
        float* own = centredRows + r * dim + c;
        storeUpTo(own, n, sub(loadUpTo(x + r * dim + c, n), broadcast(mean[r])));
        const Vec centred = loadUpTo(own, n);
        squares.acc[v] = fma(centred, centred, squares.acc[v]);
      });
      return squares.folded();
    });
    store(unit, div(broadcast(1), root(add(variances, broadcast(epsilon)))));
    for (int64_t r = 0; r < some; r++, x += dim, out += dim, saved += 2) {
      saved[0] = mean[r];
      saved[1] = unit[r];
      eachVector(dim, [&](int, int64_t c, int64_t n) INLINE_LAMBDA {
        const Vec scaled = mul(loadUpTo(centredRows + r * dim + c, n), broadcast(unit[r]));
        storeFar(out + c, n, fma(scaled, loadUpTo(gain + c, n), loadUpTo(bias + c, n)), far);
      });
    }
  }
  endFar();
}

/// Columns of a row, without its mean and in units of its deviation.
INLINE Vec scaledAt(const float* x, const float* saved, int64_t n) {
  return mul(sub(loadUpTo(x, n), broadcast(saved[0])), broadcast(saved[1]));
}

inline void dLayerNorm(float* dX, const float* dOut, const float* saved, const float* x,
                       const float* gain, int64_t rows, int64_t dim) {
  const float count = static_cast<float>(dim);
  const bool far = rows * dim > farFloats && dX != dOut && dX != x;
  float mean[lanes], slope[lanes];
  for (int64_t first = 0; first < rows; first += rowsTogether) {
    const int64_t some = rows - first < rowsTogether ? rows - first : rowsTogether;
    Vec along[rowsTogether];
    for (int64_t r = some; r < rowsTogether; r++) along[r] = zero();
    const Vec means = meansOf(some, count, [&](int64_t r) INLINE_LAMBDA {
      LaneSums sum, slopes;
      eachVector(dim, [&](int v, int64_t c, int64_t n) INLINE_LAMBDA {
        const Vec own = mul(loadUpTo(gain + c, n), loadUpTo(dOut + r * dim + c, n));
        sum.acc[v] = add(sum.acc[v], own);
        slopes.acc[v] = fma(own, scaledAt(x + r * dim + c, saved + 2 * r, n), slopes.acc[v]);
      });
      along[r] = slopes.folded();
      return sum.folded();
    });
    store(mean, means);
    store(slope, div(sumsOfLanes(along), broadcast(count)));
    for (int64_t r = 0; r < some; r++, x += dim, dX += dim, dOut += dim, saved += 2) {
      eachVector(dim, [&](int, int64_t c, int64_t n) INLINE_LAMBDA {
        const Vec own = mul(loadUpTo(gain + c, n), loadUpTo(dOut + c, n));
        const Vec centred = sub(own, broadcast(mean[r]));
        const Vec rest = fnma(scaledAt(x + c, saved, n), broadcast(slope[r]), centred);
        storeFar(dX + c, n, mul(rest, broadcast(saved[1])), far);
      });
    }
  }
  endFar();
}

/// Gradients of `vectors` vectors of columns from c on: sums row by row inside a slice, then over the
/// tree of slices, as in a linear layer.
template <int vectors>
INLINE void sumWeights(float* const* dGain, float* const* dBias, const float* dOut,
                       const float* saved, const float* x, int64_t dim, int64_t c,
                       const Slices& slices, const SlicePlan* plan) {
  Vec stack[32][2][vectors];
  for (int64_t s = 0; s < slices.count; s++) {
    Vec sums[2][vectors];
    UNROLL for (int v = 0; v < vectors; v++) sums[0][v] = sums[1][v] = zero();
    for (int64_t row = slices.bounds[s]; row < slices.bounds[s + 1]; row++) {
      const int64_t at = row * dim + c;
      UNROLL for (int v = 0; v < vectors; v++) {
        const int64_t n = left(dim, c + v * lanes);
        const Vec d = loadUpTo(dOut + at + v * lanes, n);
        sums[0][v] = fma(d, scaledAt(x + at + v * lanes, saved + 2 * row, n), sums[0][v]);
        sums[1][v] = add(sums[1][v], d);
      }
    }
    const SlicePlan& p = plan[s];
    for (int part = 0; part < 2; part++) {
      float* const* out = part == 0 ? dGain : dBias;
      UNROLL for (int v = 0; v < vectors; v++) {
        Vec sum = sums[part][v];
        for (int64_t i = p.lefts - 1; i >= 0; i--) sum = add(stack[p.slot + i][part][v], sum);
        const int64_t at = c + v * lanes;
        if (p.last) storeUpTo(out[p.subtree] + at, left(dim, at), sum);
        else stack[p.slot][part][v] = sum;
      }
    }
  }
}

/// Four vectors of columns at a time, as long runs of memory are faster.
inline void dLayerNormWeights(float* const* dGain, float* const* dBias, const float* dOut,
                              const float* saved, const float* x, int64_t dim,
                              const Slices& slices) {
  SlicePlan* plan = scratches().trees.take<SlicePlan>(slices.count);
  planSlices(plan, slices);
  int64_t c = 0;
  for (; c + 4 * lanes <= dim; c += 4 * lanes) {
    sumWeights<4>(dGain, dBias, dOut, saved, x, dim, c, slices, plan);
  }
  for (; c < dim; c += lanes) sumWeights<1>(dGain, dBias, dOut, saved, x, dim, c, slices, plan);
}
