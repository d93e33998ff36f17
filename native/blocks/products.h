// Batched products of small matrices, one per sample. Included by blocks/blocks.cc for each
// instruction set.
//
// out (M,N) = A (M,K) * B (K,N): each element is one chain of fused multiply-adds over k in
// ascending order, from 0 or from the value in `out`. A tile of `out` is in registers. The chain
// broadcasts single elements of A, of any strides, and reads B as (K,N) in whole vectors: a B in
// another layout is copied first.

/// n rounded up to whole vectors, in floats.
INLINE int64_t padded(int64_t n) { return (n + lanes - 1) / lanes * lanes; }

/// One tile of a product: out[m*stride + n], with A(m,k) = a[m*rowA + k*stepA] and B(k,n) =
/// b[k*stepB + n]. One of rowA and stepA is 1.
struct SmallTile {
  float* out;
  int64_t stride, columns, k;
  const float* a;
  int64_t rowA, stepA;
  const float* b;
  int64_t stepB;
  bool goesOn;  // the chain starts from the values in `out`; false: from 0
  const float* whole = nullptr;  // the whole output, of which `out` is a part
  Addends plus = {};  // in the layout of `whole`
  bool far = false;  // stores bypass the caches
  const float* ask = nullptr;  // memory to prefetch, one line per k
};

/// acc += A * B, where the elements of a row of A (`alongRows`) or of a column are contiguous.
/// Three rows share a pointer, so that all pointers stay in registers.
template <bool alongRows, int rows, int vectors>
INLINE void smallChain(Vec (&acc)[rows][vectors], const SmallTile& t) {
  constexpr int pointers = alongRows ? (rows + 2) / 3 : 1;
  const float* as[pointers];
  UNROLL for (int i = 0; i < pointers; i++) as[i] = t.a + 3 * i * t.rowA;
  int64_t rowA = t.rowA;
  asm("" : "+r"(rowA));
  const float* b = t.b;
  const float* ask = t.ask != nullptr ? t.ask : b;
  const int64_t askStep = t.ask != nullptr ? 16 : 0;
  for (int64_t p = 0; p < t.k; p++, b += t.stepB, ask += askStep) {
    askLine(ask);
    Vec bs[vectors];
    UNROLL for (int v = 0; v < vectors; v++) bs[v] = load(b + v * lanes);
    if constexpr (!alongRows) stepColumn(acc, as[0], bs);
    else UNROLL for (int m = 0; m < rows; m++) stepRow(acc[m], as[m / 3] + m % 3 * rowA, bs);
    UNROLL for (int i = 0; i < pointers; i++) as[i] += alongRows ? 1 : t.stepA;
  }
}

/// Computes one tile: `rows` rows by `vectors` vectors of columns of a sample's product.
template <int rows, int vectors>
void productTile(const SmallTile& t) {
  const int64_t last = left(t.columns, (vectors - 1) * lanes);
  Vec acc[rows][vectors];
  if (t.goesOn) loadRows(acc, t.out, t.stride, last);
  else clear(acc);
  if (t.stepA == 1) smallChain<true>(acc, t);
  else smallChain<false>(acc, t);
  for (int64_t i = 0; i < t.plus.count; i++) {
    addRows(acc, t.plus.of[i] + (t.out - t.whole), t.stride, last);
  }
  // Stores bypass the caches if all vectors of the tile are whole and aligned.
  if (t.far && last == lanes && isOnBoundary(t.out) && t.stride % lanes == 0) {
    UNROLL for (int m = 0; m < rows; m++) {
      UNROLL for (int v = 0; v < vectors; v++) {
        storePast(t.out + m * t.stride + v * lanes, acc[m][v]);
      }
    }
    return;
  }
  storeRows(t.out, t.stride, acc, last);
}

struct ProductTiles {
  template <int rows, int vectors>
  static constexpr auto run = productTile<rows, vectors>;
};

/// Computes all tiles of one sample's product, of equal height where possible. `t` describes the
/// whole product of `rows` rows and t.columns columns. Tiles prefetch memory from `coming`. `t` is
/// changed in place, as a copy would have to wait for the stores to `t` just before.
inline void productTiles(SmallTile t, int64_t rows, ComingRuns& coming) {
  float* const out = t.out;
  const float *const a = t.a, *const b = t.b;
  const int64_t columns = t.columns;
  // With AVX2, three vectors are one tile: a tile of one has too few sums to hide their latency.
  constexpr int threeRows = 4;
  const bool isThree = lanes == 8 && padded(columns) == 3 * lanes;
  const int64_t most = isThree ? threeRows : tileRows, wide = (isThree ? 3 : 2) * lanes;
  const int64_t tiles = (rows + most - 1) / most;
  const int64_t height = rows == 0 ? 1 : (rows + tiles - 1) / tiles;
  for (int64_t m = 0; m < rows; m += height) {
    const int64_t some = rows - m < height ? rows - m : height;
    t.a = a + m * t.rowA;
    for (int64_t n = 0; n < columns; n += wide) {
      t.out = out + m * t.stride + n;
      t.columns = columns - n;
      t.b = b + n;
      t.ask = coming.take(t.k);
      auto tile = pickTile<ProductTiles>(some, isThree ? 2 : vectorsOf(t.columns));
      if constexpr (lanes == 8) tile = isThree ? pickTile<ProductTiles, threeRows, 3>(some, 3) : tile;
      tile(t);
    }
  }
}

inline void products(float* out, const float* a, const float* b, int64_t samples, int64_t rows,
                     int64_t columns, int64_t depth, bool shared, ProductForm form,
                     const Addends& plus) {
  const float* whole = out;
  const bool far = samples * rows * columns > farFloats;
  const bool turnsB = form == ProductForm::abT;
  const int64_t wide = padded(columns);
  const bool copiesB = turnsB || wide != columns;
  float* bs = scratches().rightOperand.take<float>(copiesB ? depth * wide : 0);
  if (copiesB) std::memset(bs, 0, depth * wide * sizeof(float));
  const bool isColumn = form == ProductForm::aTb;
  // A shared matrix is transposed once, so that the elements of a column are contiguous and tiles
  // read A through one pointer (see `smallChain`).
  const bool turnsA = shared && !isColumn && depth > 1;
  if (turnsA) {
    float* aT = scratches().leftOperand.take<float>(rows * depth);
    transpose(aT, rows, a, depth, rows, depth);
    a = aT;
  }
  for (int64_t s = 0; s < samples; s++, out += rows * columns, b += depth * columns) {
    ComingRuns coming;
    if (s + 1 < samples) {
      coming.add(b + depth * columns, depth * columns);
      coming.add(a + rows * depth, shared ? 0 : rows * depth);
      for (int64_t i = 0; i < plus.count; i++) {
        coming.add(plus.of[i] + (out - whole) + rows * columns, rows * columns);
      }
    }
    if (turnsB) transpose(bs, wide, b, depth, columns, depth);
    for (int64_t k = 0; copiesB && !turnsB && k < depth; k++) {
      std::memcpy(bs + k * wide, b + k * columns, columns * sizeof(float));
    }
    const float* right = copiesB ? bs : b;
    const bool hasColumns = isColumn || turnsA;
    const int64_t rowA = hasColumns ? 1 : depth, stepA = hasColumns ? rows : 1;
    productTiles({out, columns, columns, depth, a, rowA, stepA, right, wide, false, whole, plus,
                  far},
                 rows, coming);
    coming.rest();
    if (!shared) a += rows * depth;
  }
  endFar();
}

/// Folds sums of `size` elements by the tree over slices. take(from, to, sum) adds the samples of a
/// slice to `sum`, which is zeroed and stays in the first-level cache; give(p, sum) receives the
/// sum of subtree p.
template <typename Take, typename Give>
INLINE void foldSlices(int64_t size, const Slices& slices, Take take, Give give) {
  SlicePlan* plan = scratches().trees.take<SlicePlan>(slices.count);
  planSlices(plan, slices);
  int64_t slots = 1;
  while (slices.count >> slots > 0) slots++;
  float* sum = scratches().leftOperand.take<float>((slots + 1) * size);
  float* waiting = sum + size;
  for (int64_t s = 0; s < slices.count; s++) {
    std::memset(sum, 0, size * sizeof(float));
    take(slices.bounds[s], slices.bounds[s + 1], sum);
    const SlicePlan& p = plan[s];
    for (int64_t i = p.lefts - 1; i >= 0; i--) {
      add(sum, waiting + (p.slot + i) * size, sum, size);
    }
    if (p.last) give(p.subtree, sum);
    else std::memcpy(waiting + p.slot * size, sum, size * sizeof(float));
  }
}

/// `foldSlices` where take(sample, sum) adds one sample.
template <typename Take, typename Give>
INLINE void foldSamples(int64_t size, const Slices& slices, Take take, Give give) {
  foldSlices(
      size, slices,
      [&](int64_t from, int64_t to, float* sum) INLINE_LAMBDA {
        for (int64_t i = from; i < to; i++) take(i, sum);
      },
      give);
}

/// dA[p] (M,K) for subtree p: the sum over the samples of its slices, and over n, of dOut (B,M,N)
/// times b (B,K,N). The sum is kept transposed, as (K,M), if this leaves fewer lanes idle.
inline void dShared(float* const* dA, const float* dOut, const float* b, int64_t rows,
                    int64_t columns, int64_t depth, const Slices& slices) {
  const int64_t end = slices.bounds[slices.count];
  const bool isTurned = depth * padded(rows) <= rows * padded(depth);
  // The rows of the sum are those of `left`, its columns the rows of `right`, which is transposed.
  const float* const left = isTurned ? b : dOut;
  const float* const right = isTurned ? dOut : b;
  const int64_t height = isTurned ? depth : rows, width = isTurned ? rows : depth;
  const int64_t wide = padded(width);
  float* rightT = scratches().rightOperand.take<float>(columns * wide);
  std::memset(rightT, 0, columns * wide * sizeof(float));
  const auto take = [&](int64_t i, float* sum) INLINE_LAMBDA {
    const float *l = left + i * height * columns, *r = right + i * width * columns;
    ComingRuns coming;
    if (i + 1 < end) {
      coming.add(r + width * columns, width * columns);
      coming.add(l + height * columns, height * columns);
    }
    transpose(rightT, wide, r, columns, width, columns);
    productTiles({sum, width, width, columns, l, columns, 1, rightT, wide, true}, height, coming);
    coming.rest();
  };
  foldSamples(rows * depth, slices, take, [&](int64_t p, const float* sum) {
    if (isTurned) transpose(dA[p], depth, sum, rows, depth, rows);
    else std::memcpy(dA[p], sum, rows * depth * sizeof(float));
  });
}
