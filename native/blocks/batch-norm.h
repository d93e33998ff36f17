// Batch normalisation of columns. Included by blocks/blocks.cc for each instruction set.

/// n columns of a row from c on, normalised: minus the mean, divided by the standard deviation.
INLINE Vec normalisedAt(const float* x, const BatchNormColumns& columns, int64_t c, int64_t n) {
  const Vec centred = sub(loadSome(x + c, n), loadSome(columns.mean + c, n));
  return mul(centred, loadSome(columns.unit + c, n));
}

/// Computes two sums over rows for each vector of columns: row by row inside a slice, then the tree
/// over slices. take(row, sums, first column, columns) adds a row; out(subtree, part) is the output
/// of a sum.
template <typename Take, typename Out>
INLINE void sumRows(int64_t width, const Slices& slices, Take take, Out out) {
  SlicePlan* plan = scratches().trees.take<SlicePlan>(slices.count);
  planSlices(plan, slices);
  for (int64_t c = 0; c < width; c += lanes) {
    const int64_t n = left(width, c);
    Vec stack[32][2];
    for (int64_t s = 0; s < slices.count; s++) {
      Vec sums[2] = {zero(), zero()};
      for (int64_t row = slices.bounds[s]; row < slices.bounds[s + 1]; row++) {
        take(row * width, sums, c, n);
      }
      const SlicePlan& p = plan[s];
      for (int part = 0; part < 2; part++) {
        for (int64_t i = p.lefts - 1; i >= 0; i--) {
          sums[part] = add(stack[p.slot + i][part], sums[part]);
        }
        if (p.last) storeSome(out(p.subtree, part) + c, n, sums[part]);
        else stack[p.slot][part] = sums[part];
      }
    }
  }
}

inline void batchMoments(float* const* sums, const float* x, const float* shift, int64_t width,
                         const Slices& slices) {
  sumRows(
      width, slices,
      [&](int64_t at, Vec (&own)[2], int64_t c, int64_t n) INLINE_LAMBDA {
        const Vec value = sub(loadSome(x + at + c, n), loadSome(shift + c, n));
        own[0] = add(own[0], value);
        own[1] = fma(value, value, own[1]);
      },
      [&](int64_t subtree, int part) INLINE_LAMBDA { return sums[subtree] + part * width; });
}

inline void batchNorm(float* out, const float* x, const BatchNormColumns& columns, int64_t rows,
                      int64_t width, bool relu) {
  for (int64_t row = 0; row < rows; row++, x += width, out += width) {
    for (int64_t c = 0; c < width; c += lanes) {
      const int64_t n = left(width, c);
      const Vec gain = loadSome(columns.gain + c, n), bias = loadSome(columns.bias + c, n);
      const Vec value = fma(normalisedAt(x, columns, c, n), gain, bias);
      storeSome(out + c, n, relu ? positive(value) : value);
    }
  }
}

inline void dBatchNormWeights(float* const* dGain, float* const* dBias, const float* dOut,
                              const float* x, const BatchNormColumns& columns, int64_t width,
                              const Slices& slices) {
  sumRows(
      width, slices,
      [&](int64_t at, Vec (&own)[2], int64_t c, int64_t n) INLINE_LAMBDA {
        const Vec d = loadSome(dOut + at + c, n);
        own[0] = fma(d, normalisedAt(x + at, columns, c, n), own[0]);
        own[1] = add(own[1], d);
      },
      [&](int64_t subtree, int part) INLINE_LAMBDA {
        return part == 0 ? dGain[subtree] : dBias[subtree];
      });
}

inline void dBatchNorm(float* dX, const float* dOut, const float* x,
                       const BatchNormColumns& columns, const float* dMean, const float* dSlope,
                       int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; row++, x += width, dOut += width, dX += width) {
    for (int64_t c = 0; c < width; c += lanes) {
      const int64_t n = left(width, c);
      const Vec centred = sub(loadSome(dOut + c, n), loadSome(dMean + c, n));
      const Vec slope = loadSome(dSlope + c, n);
      const Vec rest = fnma(normalisedAt(x, columns, c, n), slope, centred);
      const Vec scale = mul(loadSome(columns.gain + c, n), loadSome(columns.unit + c, n));
      storeSome(dX + c, n, mul(rest, scale));
    }
  }
}
