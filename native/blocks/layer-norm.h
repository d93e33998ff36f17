// Layer normalisation of rows. Included by blocks/blocks.cc for each instruction set.
//
// Sums over a row of D columns: lane i of 32 sums the columns i, i+32, ...; then lane i + lane
// i+16, then 8, 4, 2, 1. All instruction sets with a fused multiply-add give the same bits.

constexpr int sumLanes = 32;
constexpr int sumVectors = sumLanes / lanes;

/// The 32 lanes of a sum over a row.
struct LaneSums {
  Vec acc[sumVectors];

  LaneSums() {
    UNROLL for (int v = 0; v < sumVectors; v++) acc[v] = zero();
  }

  /// Folds the 32 lanes to one vector, whose `sumOfLanes` is the sum.
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

/// Rows whose lanes are summed together, so that their additions do not depend on each other.
constexpr int64_t rowsTogether = lanes;

/// Means over the columns of up to `rowsTogether` rows. sums(row) returns the lanes of a row's sum.
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
    // Centred values go through memory, so that lanes after the last column are read back as 0.
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

/// Columns of a row, normalised: minus the row's mean, divided by its standard deviation.
INLINE Vec scaledAt(const float* x, const float* saved, int64_t n) {
  return mul(sub(loadUpTo(x, n), broadcast(saved[0])), broadcast(saved[1]));
}

/// Some rows, and the output of their gradients.
struct NormRows {
  float* dX;
  const float *dOut, *saved, *x;
  int64_t count;  // at most rowsTogether
};

INLINE void dNormRows(const NormRows& rows, const float* gain, int64_t dim, bool far) {
  const float count = static_cast<float>(dim);
  float mean[lanes], slope[lanes];
  Vec along[rowsTogether];
  for (int64_t r = rows.count; r < rowsTogether; r++) along[r] = zero();
  const Vec means = meansOf(rows.count, count, [&](int64_t r) INLINE_LAMBDA {
    const float *dOut = rows.dOut + r * dim, *x = rows.x + r * dim;
    LaneSums sum, slopes;
    eachVector(dim, [&](int v, int64_t c, int64_t n) INLINE_LAMBDA {
      const Vec own = mul(loadUpTo(gain + c, n), loadUpTo(dOut + c, n));
      sum.acc[v] = add(sum.acc[v], own);
      slopes.acc[v] = fma(own, scaledAt(x + c, rows.saved + 2 * r, n), slopes.acc[v]);
    });
    along[r] = slopes.folded();
    return sum.folded();
  });
  store(mean, means);
  store(slope, div(sumsOfLanes(along), broadcast(count)));
  for (int64_t r = 0; r < rows.count; r++) {
    const float *dOut = rows.dOut + r * dim, *x = rows.x + r * dim, *saved = rows.saved + 2 * r;
    eachVector(dim, [&](int, int64_t c, int64_t n) INLINE_LAMBDA {
      const Vec own = mul(loadUpTo(gain + c, n), loadUpTo(dOut + c, n));
      const Vec centred = sub(own, broadcast(mean[r]));
      const Vec rest = fnma(scaledAt(x + c, saved, n), broadcast(slope[r]), centred);
      storeFar(rows.dX + r * dim + c, n, mul(rest, broadcast(saved[1])), far);
    });
  }
}

/// Adds some rows to the gradients of gain and bias, row by row, in `vectors` vectors of columns.
template <int vectors>
INLINE void addNormWeights(float* dGain, float* dBias, const NormRows& rows, int64_t dim,
                           int64_t c) {
  Vec gains[vectors], biases[vectors];
  int64_t n[vectors];
  UNROLL for (int v = 0; v < vectors; v++) {
    n[v] = vectors > 1 ? lanes : left(dim, c + v * lanes);  // several are always whole
    gains[v] = loadUpTo(dGain + c + v * lanes, n[v]);
    biases[v] = loadUpTo(dBias + c + v * lanes, n[v]);
  }
  for (int64_t r = 0; r < rows.count; r++) {
    const int64_t at = r * dim + c;
    UNROLL for (int v = 0; v < vectors; v++) {
      const Vec d = loadUpTo(rows.dOut + at + v * lanes, n[v]);
      const Vec scaled = scaledAt(rows.x + at + v * lanes, rows.saved + 2 * r, n[v]);
      gains[v] = fma(d, scaled, gains[v]);
      biases[v] = add(biases[v], d);
    }
  }
  UNROLL for (int v = 0; v < vectors; v++) {
    storeUpTo(dGain + c + v * lanes, n[v], gains[v]);
    storeUpTo(dBias + c + v * lanes, n[v], biases[v]);
  }
}

/// Computes the gradients of weights and of inputs for a group of rows before the next group, so
/// that rows are read from memory once.
inline void dLayerNorm(Optional<float> dX, float* const* dGain, float* const* dBias, const float* dOut,
                       const float* saved, const float* x, const float* gain, int64_t dim,
                       const Slices& slices) {
  const bool far = slices.bounds[slices.count] * dim > farFloats && dX != dOut && dX != x;
  foldSlices(
      2 * dim, slices,
      [&](int64_t from, int64_t to, float* sums) INLINE_LAMBDA {
        for (int64_t first = from; first < to; first += rowsTogether) {
          const int64_t at = first * dim;
          const int64_t some = to - first < rowsTogether ? to - first : rowsTogether;
          const NormRows rows{dX == nullptr ? nullptr : dX + at, dOut + at, saved + 2 * first,
                              x + at, some};
          int64_t c = 0;
          for (; c + 4 * lanes <= dim; c += 4 * lanes) {
            addNormWeights<4>(sums, sums + dim, rows, dim, c);
          }
          for (; c < dim; c += lanes) addNormWeights<1>(sums, sums + dim, rows, dim, c);
          if (dX != nullptr) dNormRows(rows, gain, dim, far);
        }
      },
      [&](int64_t p, const float* sums) {
        std::memcpy(dGain[p], sums, dim * sizeof(float));
        std::memcpy(dBias[p], sums + dim, dim * sizeof(float));
      });
  endFar();
}
