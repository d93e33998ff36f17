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

  float total() {
    UNROLL for (int half = sumVectors / 2; half >= 1; half /= 2) {
      UNROLL for (int v = 0; v < half; v++) acc[v] = add(acc[v], acc[v + half]);
    }
    return sumOfLanes(acc[0]);
  }
};

/// Calls take(vector of the sum, first column, columns) for each vector of a row.
template <typename Take>
INLINE void eachVector(int64_t dim, Take take) {
  for (int64_t c = 0; c < dim; c += sumLanes) {
    UNROLL for (int v = 0; v < sumVectors; v++) {
      const int64_t at = c + v * lanes;
      const int64_t some = left(dim, at);
      if (some > 0) take(v, at, some);
    }
  }
}

inline void layerNorm(float* out, float* saved, const float* x, const float* gain,
                      const float* bias, int64_t rows, int64_t dim, float epsilon) {
  const float count = static_cast<float>(dim);
  for (int64_t row = 0; row < rows; row++, x += dim, out += dim, saved += 2) {
    LaneSums sum, squares;
    eachVector(dim, [&](int v, int64_t c, int64_t n) INLINE_LAMBDA {
      sum.acc[v] = add(sum.acc[v], loadSome(x + c, n));
    });
    const float mean = sum.total() / count;
    // Centred through memory: the lanes behind the last column are 0 again when it is read back.
    eachVector(dim, [&](int v, int64_t c, int64_t n) INLINE_LAMBDA {
      storeSome(out + c, n, sub(loadSome(x + c, n), broadcast(mean)));
      const Vec centred = loadSome(out + c, n);
      squares.acc[v] = fma(centred, centred, squares.acc[v]);
    });
    const float variance = squares.total() / count;
    const float unit = 1.0f / std::sqrt(variance + epsilon);
    saved[0] = mean;
    saved[1] = unit;
    eachVector(dim, [&](int, int64_t c, int64_t n) INLINE_LAMBDA {
      const Vec scaled = mul(loadSome(out + c, n), broadcast(unit));
      storeSome(out + c, n, fma(scaled, loadSome(gain + c, n), loadSome(bias + c, n)));
    });
  }
}

/// Columns of a row, without its mean and in units of its deviation.
INLINE Vec scaledAt(const float* x, const float* saved, int64_t n) {
  return mul(sub(loadSome(x, n), broadcast(saved[0])), broadcast(saved[1]));
}

inline void dLayerNorm(float* dX, const float* dOut, const float* saved, const float* x,
                       const float* gain, int64_t rows, int64_t dim) {
  const float count = static_cast<float>(dim);
  for (int64_t row = 0; row < rows; row++, x += dim, dX += dim, dOut += dim, saved += 2) {
    LaneSums sum, along;
    eachVector(dim, [&](int v, int64_t c, int64_t n) INLINE_LAMBDA {
      const Vec own = mul(loadSome(gain + c, n), loadSome(dOut + c, n));
      sum.acc[v] = add(sum.acc[v], own);
      along.acc[v] = fma(own, scaledAt(x + c, saved, n), along.acc[v]);
    });
    const Vec mean = broadcast(sum.total() / count), slope = broadcast(along.total() / count);
    eachVector(dim, [&](int, int64_t c, int64_t n) INLINE_LAMBDA {
      const Vec own = mul(loadSome(gain + c, n), loadSome(dOut + c, n));
      const Vec rest = fnma(scaledAt(x + c, saved, n), slope, sub(own, mean));
      storeSome(dX + c, n, mul(rest, broadcast(saved[1])));
    });
  }
}

/// Sums over rows as in a linear layer: row by row inside a slice, then the tree over slices.
inline void dLayerNormWeights(float* const* dGain, float* const* dBias, const float* dOut,
                              const float* saved, const float* x, int64_t dim,
                              const Slices& slices) {
  SlicePlan* plan = scratches().trees.take<SlicePlan>(slices.count);
  planSlices(plan, slices);
  for (int64_t c = 0; c < dim; c += lanes) {
    const int64_t n = left(dim, c);
    Vec stack[32][2];
    for (int64_t s = 0; s < slices.count; s++) {
      Vec sums[2] = {zero(), zero()};
      for (int64_t row = slices.bounds[s]; row < slices.bounds[s + 1]; row++) {
        const Vec d = loadSome(dOut + row * dim + c, n);
        sums[0] = fma(d, scaledAt(x + row * dim + c, saved + 2 * row, n), sums[0]);
        sums[1] = add(sums[1], d);
      }
      const SlicePlan& p = plan[s];
      for (int part = 0; part < 2; part++) {
        for (int64_t i = p.lefts - 1; i >= 0; i--) {
          sums[part] = add(stack[p.slot + i][part], sums[part]);
        }
        float* const* out = part == 0 ? dGain : dBias;
        if (p.last) storeSome(out[p.subtree] + c, n, sums[part]);
        else stack[p.slot][part] = sums[part];
      }
    }
  }
}
