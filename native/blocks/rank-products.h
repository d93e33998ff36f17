// Dot products of each sample's vectors with weighted sums of them (Wukong's factorisation
// machine). Included by blocks/blocks.cc for each instruction set, after products.h.
//
// N = vectors of a sample, D = columns of a vector, K = sums (the rank). The bits are those of
// calls of `products` and `dShared` in sequence, but a sample's operands stay in the first-level
// cache, so that each product reads the result of the product before without going through memory.

/// A matrix (depth, columns) with rows of whole vectors, `step` apart, as tiles require.
struct Rows {
  const float* p;
  int64_t step;
};

/// `from` itself if its rows are whole vectors; else a copy in `copy`, whose padding is zero
/// already.
INLINE Rows rowsOf(float* copy, const float* from, int64_t depth, int64_t columns) {
  const int64_t wide = padded(columns);
  if (wide == columns) return {from, wide};
  for (int64_t k = 0; k < depth; k++) {
    std::memcpy(copy + k * wide, from + k * columns, columns * sizeof(float));
  }
  return {copy, wide};
}

/// Zeroed floats from a scratch.
INLINE float* zeroed(Scratch& scratch, int64_t count) {
  float* floats = scratch.take<float>(count);
  std::memset(floats, 0, count * sizeof(float));
  return floats;
}

inline void rankProducts(float* out, float* y, const float* x, const float* w,
                         const RankShape& shape) {
  const int64_t vectors = shape.vectors, dim = shape.dim, rank = shape.rank;
  const int64_t samples = shape.samples, wide = padded(rank), size = vectors * dim;
  const bool far = samples * vectors * rank > farFloats;
  float* copy = zeroed(scratches().mixed, vectors * padded(dim) + rank * dim);
  float* sums = copy + vectors * padded(dim);
  float* yT = zeroed(scratches().rightOperand, dim * wide);
  // Transposed once for all samples, so that tiles read w through one pointer (see `smallChain`).
  float* wT = scratches().leftOperand.take<float>(vectors * rank);
  transpose(wT, rank, w, vectors, rank, vectors);
  for (int64_t s = 0; s < samples; s++, out += vectors * rank, y += rank * dim, x += size) {
    ComingRuns coming;
    if (s + 1 < samples) coming.add(x + size, size);
    const Rows own = rowsOf(copy, x, vectors, dim);
    float* made = far ? sums : y;
    productTiles({made, dim, dim, vectors, wT, 1, rank, own.p, own.step, false}, rank, coming);
    eachVectorOf(far ? rank * dim : 0, [&](int64_t i, int64_t n) INLINE_LAMBDA {
      storeFar(y + i, n, loadUpTo(made + i, n), far);
    });
    transpose(yT, wide, made, dim, rank, dim);
    productTiles({out, rank, rank, dim, x, dim, 1, yT, wide, false, out, {}, far}, vectors, coming);
    coming.rest();
  }
  endFar();
}

/// Inputs and outputs of one sample's gradients.
struct RankSample {
  float *dX, *sumW;
  const float *dOut, *x, *y, *w;
};

/// Scratch of one sample's gradients. Rows of dY, copyX and copyY are padded with zeros.
struct RankScratch {
  float *direct, *dY, *copyX, *copyY, *xT;
};

/// Computes the gradients of one sample. `plus`: addends of dX, of which the first is `direct`.
INLINE void dRankSample(const RankSample& t, const RankScratch& own, const RankShape& shape,
                        const Addends& plus, bool far, ComingRuns& coming) {
  const int64_t vectors = shape.vectors, dim = shape.dim, rank = shape.rank;
  const int64_t wide = padded(dim), wideT = padded(vectors);
  const Rows x = rowsOf(own.copyX, t.x, vectors, dim), y = rowsOf(own.copyY, t.y, rank, dim);
  productTiles({own.direct, dim, dim, rank, t.dOut, rank, 1, y.p, y.step, false}, vectors, coming);
  productTiles({own.dY, wide, dim, vectors, t.dOut, 1, rank, x.p, x.step, false}, rank, coming);
  transpose(own.xT, wideT, t.x, dim, vectors, dim);
  productTiles({t.sumW, vectors, vectors, dim, own.dY, wide, 1, own.xT, wideT, true}, rank, coming);
  productTiles({t.dX, dim, dim, rank, t.w, 1, vectors, own.dY, wide, false, t.dX, plus, far},
               vectors, coming);
}

inline void dRankProducts(float* dX, float* const* dW, const float* dOut, const float* x,
                          const float* y, const float* w, const RankShape& shape,
                          const Slices& slices, const Addends& plus) {
  const int64_t vectors = shape.vectors, dim = shape.dim, rank = shape.rank;
  const int64_t size = vectors * dim, wide = padded(dim);
  const bool far = shape.samples * size > farFloats;
  RankScratch own{};
  float* at = zeroed(scratches().mixed, size + (2 * rank + vectors) * wide);
  own.direct = at;
  own.dY = at += size;
  own.copyX = at += rank * wide;
  own.copyY = at + vectors * wide;
  own.xT = zeroed(scratches().rightOperand, dim * padded(vectors));
  const float* addends[addendsMax + 1] = {own.direct};
  const auto take = [&](int64_t s, float* sum) INLINE_LAMBDA {
    for (int64_t i = 0; i < plus.count; i++) addends[i + 1] = plus.of[i] + s * size;
    const RankSample t{dX + s * size, sum, dOut + s * vectors * rank, x + s * size,
                       y + s * rank * dim, w};
    ComingRuns coming;
    if (s + 1 < shape.samples) {
      coming.add(t.dOut + vectors * rank, vectors * rank);
      coming.add(t.y + rank * dim, rank * dim);
      coming.add(t.x + size, size);
      for (int64_t i = 0; i < plus.count; i++) coming.add(addends[i + 1] + size, size);
    }
    dRankSample(t, own, shape, {addends, plus.count + 1}, far, coming);
    coming.rest();
  };
  foldSamples(rank * vectors, slices, take, [&](int64_t p, const float* sum) {
    std::memcpy(dW[p], sum, rank * vectors * sizeof(float));
  });
  endFar();
}
