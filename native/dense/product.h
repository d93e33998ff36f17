// Matrix products, their packing and their formats. Included by dense/dense.cc for each instruction
// set.
//
// Matrix products are C (M,N) = start + A (M,K) * B (K,N). Each element of C is one chain of fused
// multiply-adds over k in ascending order, which begins with `start` and, if K is blocked,
// continues from C, so that neither tiles nor M change a bit. A panel of B (K x 2 vectors) and a
// block of A stay in the second-level cache; a tile of C (tileRows x 2 vectors) is in registers.
//
// A format defines how operands are packed and how a chain reads them: Float32 in this file,
// Bfloat16 in bfloat16.h. A packed element has 32 bits, for one k or for a pair of k.

constexpr int64_t tileColumns = 2 * lanes;
/// Each k of a packed panel of A is whole, aligned vectors.
constexpr int64_t panelRows = (tileRows + lanes - 1) / lanes * lanes;
constexpr int64_t packedK = 512;  // packed elements of a block, along k
constexpr int64_t blockM = 84;    // a multiple of tileRows of every set
constexpr int64_t packedM = blockM / tileRows * panelRows;
constexpr int64_t blockN = 1024;
/// Rows of packed A are `stridedK` apart, which is no power of two, so that they use different
/// cache sets.
constexpr int64_t stridedK = packedK + 16;

/// Memory that a tile prefetches while it multiplies.
struct Coming {
  ComingRows* operands = nullptr;  // operands of later tiles
  ComingRows result = {};          // the tile of C itself
  ComingRows above = {};           // the memory of `Tile::above`

  void ask() {
    if (operands != nullptr) operands->ask();
    result.ask();
    above.ask();
  }
};

/// A tile of C: its output, its start values, and the operations after the chain.
struct Tile {
  float* c;
  int64_t stride;
  int64_t columns;
  const float* resumed;  // start values, with the same columns and `resumedStride`; or nullptr
  int64_t resumedStride;
  const float* bias;  // else the start values (N); nullptr: 0
  bool relu;
  /// Added to the result of the chain, first to last: finished left neighbours in the tree over
  /// slices, nearest first, or addends.
  const float* lefts[32];
  int64_t leftCount;
  int64_t leftStride;
  const float* above;  // in the layout of C: the tile becomes 0 where this is not positive
  bool flushed;  // the chain flushes numbers below the smallest normal number to 0
  Coming coming;
};

/// A chain prefetches B this many k ahead, from the second- or third-level cache. After the end of
/// a panel this is the next panel, or memory that is not needed, which does no harm.
constexpr int64_t aheadOfB = 24;

/// acc += A * B over k: A(m,k) = a[m*rowA + k*stepA], B(k,:) = b[k*stepB ..].
template <int rows, int vectors, int64_t rowA>
INLINE void chain(Vec (&acc)[rows][vectors], int64_t k, const float* a, int64_t stepA,
                  const float* b, int64_t stepB, Coming coming = {}) {
  constexpr int64_t between = 8;  // k between two prefetched lines
  for (int64_t p = 0; p < k;) {
    coming.ask();
    for (const int64_t end = k - p < between ? k : p + between; p < end; p++) {
      for (int64_t n = 0; n < vectors * lanes; n += 16) askSoon(b + aheadOfB * stepB + n);
      Vec bs[vectors];
      UNROLL for (int v = 0; v < vectors; v++) bs[v] = load(b + v * lanes);
      if constexpr (rowA == 1) stepColumn(acc, a, bs);
      else UNROLL for (int m = 0; m < rows; m++) stepRow(acc[m], a + m * rowA, bs);
      a += stepA;
      b += stepB;
    }
  }
}

#if defined(OSIRIS_AVX512) || defined(OSIRIS_AVX2)
/// Keeps the compiler from moving arithmetic on `acc` across a change of the processor's mode.
template <int rows, int vectors>
INLINE void pin(Vec (&acc)[rows][vectors]) {
  UNROLL for (int m = 0; m < rows; m++) {
    UNROLL for (int v = 0; v < vectors; v++) asm volatile("" : "+v"(acc[m][v]));
  }
}
#endif

/// The format of unchanged float32 operands, one k after the other.
struct Float32 {
  using Tiles = Float32;
  static constexpr bool flushed = false;
  static constexpr int64_t blockK = packedK;
  /// Number of k packed together, and of the packed elements that they make.
  static constexpr int64_t together = 1, made = 1;
  static constexpr bool converts = false;

  static int64_t packed(int64_t k) { return k; }

  /// Packs k contiguous elements along k to packed(k) elements.
  INLINE void packAlong(float* out, const float* from, int64_t k) {
    std::memcpy(out, from, k * sizeof(float));
  }

  /// Packs n columns (at most `lanes`) of `together` k that are `next` apart; 0: there is one k
  /// left.
  INLINE void packAcross(Vec (&out)[made], const float* from, int64_t, int64_t n) {
    out[0] = n == lanes ? load(from) : loadSome(from, n);
  }

  /// acc += A * B over packed k: A(m,k) = a[m*rowA + k*stepA], B(k,:) = b[k*stepB ..].
  template <int64_t rowA, int rows, int vectors>
  INLINE void multiply(Vec (&acc)[rows][vectors], int64_t k, const float* a, int64_t stepA,
                       const float* b, int64_t stepB, [[maybe_unused]] bool flushed,
                       Coming coming) {
#if defined(OSIRIS_AVX512) || defined(OSIRIS_AVX2)
    constexpr unsigned flushes = 0x8040;  // of results and of inputs
    const unsigned mode = flushed ? _mm_getcsr() : 0;
    if (flushed) _mm_setcsr(mode | flushes);
    pin(acc);
    chain<rows, vectors, rowA>(acc, k, a, stepA, b, stepB, coming);
    pin(acc);
    if (flushed) _mm_setcsr(mode);
    pin(acc);
#else
    chain<rows, vectors, rowA>(acc, k, a, stepA, b, stepB, coming);
#endif
  }
};

/// Loads rows of vectors, `stride` apart. The last vector of a row has `last` elements.
template <int rows, int vectors>
INLINE void loadRows(Vec (&out)[rows][vectors], const float* from, int64_t stride, int64_t last) {
  UNROLL for (int m = 0; m < rows; m++, from += stride) {
    UNROLL for (int v = 0; v < vectors - 1; v++) out[m][v] = load(from + v * lanes);
    out[m][vectors - 1] = loadSome(from + (vectors - 1) * lanes, last);
  }
}

template <typename Format, int rows, int vectors, int64_t rowA>
void tile(const Tile& t, int64_t k, const float* a, int64_t stepA, const float* b, int64_t stepB) {
  const int64_t last = t.columns - (vectors - 1) * lanes;
  Vec acc[rows][vectors];
  if (t.resumed != nullptr) loadRows(acc, t.resumed, t.resumedStride, last);
  else if (t.bias != nullptr) loadRows(acc, t.bias, 0, last);
  else {
    UNROLL for (int m = 0; m < rows; m++) {
      UNROLL for (int v = 0; v < vectors; v++) acc[m][v] = zero();
    }
  }
  Format::template multiply<rowA>(acc, k, a, stepA, b, stepB, t.flushed, t.coming);
  for (int64_t i = 0; i < t.leftCount; i++) {
    const float* from = t.lefts[i];
    UNROLL for (int m = 0; m < rows; m++, from += t.leftStride) {
      UNROLL for (int v = 0; v < vectors; v++) {
        const int64_t n = v < vectors - 1 ? lanes : last;
        acc[m][v] = add(loadSome(from + v * lanes, n), acc[m][v]);
      }
    }
  }
  if (t.relu) {
    UNROLL for (int m = 0; m < rows; m++) {
      UNROLL for (int v = 0; v < vectors; v++) acc[m][v] = positive(acc[m][v]);
    }
  }
  if (t.above != nullptr) {
    const float* from = t.above;
    UNROLL for (int m = 0; m < rows; m++, from += t.stride) {
      UNROLL for (int v = 0; v < vectors; v++) {
        const int64_t n = v < vectors - 1 ? lanes : last;
        acc[m][v] = whereAbove0(loadSome(from + v * lanes, n), acc[m][v]);
      }
    }
  }
  float* c = t.c;
  UNROLL for (int m = 0; m < rows; m++, c += t.stride) {
    UNROLL for (int v = 0; v < vectors - 1; v++) store(c + v * lanes, acc[m][v]);
    storeSome(c + (vectors - 1) * lanes, last, acc[m][vectors - 1]);
  }
}

using TileKernel = void (*)(const Tile&, int64_t, const float*, int64_t, const float*, int64_t);

template <typename Format, int64_t rowA, int... rows>
TileKernel pickTile(int64_t m, bool wide, std::integer_sequence<int, rows...>) {
  static const TileKernel narrow[] = {tile<Format, rows + 1, 1, rowA>...};
  static const TileKernel full[] = {tile<Format, rows + 1, 2, rowA>...};
  return (wide ? full : narrow)[m - 1];
}

/// One operand in memory: element (i,j) = p[i*rowStep + j*columnStep]; one of the steps is 1.
struct Operand {
  const float* p;
  int64_t rowStep, columnStep;

  /// Whether the elements of a row are contiguous.
  bool hasRows() const { return rowStep != 1; }
};

/// Packs `together` k of B into all panels. `out`: their position in the first panel. `step`:
/// floats from one panel to the next.
template <typename Format>
INLINE void packRows(float* out, int64_t step, const float* from, int64_t next, int64_t n) {
  const auto pack = [&](int64_t at, int64_t some) INLINE_LAMBDA {
    Vec made[Format::made];
    Format::packAcross(made, from + at, next, some);
    float* to = out + at % tileColumns;
    UNROLL for (int64_t i = 0; i < Format::made; i++) store(to + i * tileColumns, made[i]);
  };
  int64_t j = 0;
  for (; j + tileColumns <= n; j += tileColumns, out += step) {
    pack(j, lanes);
    pack(j + lanes, lanes);
  }
  if (j == n) return;
  pack(j, left(n, j));
  pack(j + lanes, left(n, j + lanes));
}

/// Packs `count` rows of k contiguous elements, `stride` apart, as columns: [packed k][width].
template <typename Format>
void packTurned(float* out, int64_t width, const float* rows, int64_t stride, int64_t count,
                int64_t k) {
  if constexpr (Format::converts) {
    constexpr int64_t apart = packedK / 4 + 16, convertedK = Format::blockK / 4;
    float* converted = scratches().converted.take<float>(count * apart);
    for (int64_t p = 0; p < k; p += convertedK) {
      const int64_t some = k - p < convertedK ? k - p : convertedK;
      for (int64_t c = 0; c < count; c++) {
        Format::packAlong(converted + c * apart, rows + c * stride + p, some);
      }
      transpose(out + Format::packed(p) * width, width, converted, apart, count,
                Format::packed(some));
    }
  } else {
    transpose(out, width, rows, stride, count, k);
  }
}

/// Packs B into panels: [panel][packed k][tileColumns], zeros beyond the last column.
template <typename Format>
void packB(float* out, const Operand& b, int64_t k0, int64_t k, int64_t n0, int64_t n) {
  constexpr int64_t ahead = 16;
  const float* from = b.p + k0 * b.rowStep + n0 * b.columnStep;
  const int64_t step = Format::packed(k) * tileColumns;
  if (b.columnStep == 1) {
    // A few panels at a time, as many panels would compete for the same sets of the first-level
    // cache.
    for (int64_t j = 0; j < n; j += 4 * tileColumns, out += 4 * step) {
      const int64_t columns = n - j < 4 * tileColumns ? n - j : 4 * tileColumns;
      for (int64_t p = 0; p < k; p += Format::together) {
        if (p + ahead < k) askFloats(from + (p + ahead) * b.rowStep + j, columns);
        packRows<Format>(out + Format::packed(p) * tileColumns, step, from + p * b.rowStep + j,
                         p + 1 < k ? b.rowStep : 0, columns);
      }
    }
    return;
  }
  for (int64_t j = 0; j < n; j += tileColumns, out += step) {
    const int64_t columns = n - j < tileColumns ? n - j : tileColumns;
    if (columns < tileColumns) std::memset(out, 0, step * sizeof(float));
    packTurned<Format>(out, tileColumns, from + j * b.columnStep, b.columnStep, columns, k);
  }
}

/// Whether packed A keeps contiguous rows.
INLINE bool keepsRows(const Operand& a) { return a.hasRows() && !prefersColumns; }

/// Packs A into panels: [panel][row][stridedK] if it keeps its rows, else [panel][packed k,
/// `depth`][panelRows].
template <typename Format>
void packA(float* out, const Operand& a, int64_t m0, int64_t m, int64_t k0, int64_t k,
           int64_t depth = stridedK) {
  const float* from = a.p + m0 * a.rowStep + k0 * a.columnStep;
  if (a.hasRows() && prefersColumns) {
    for (int64_t i = 0; i < m; i += tileRows, out += panelRows * depth) {
      const int64_t rows = m - i < tileRows ? m - i : tileRows;
      packTurned<Format>(out, panelRows, from + i * a.rowStep, a.rowStep, rows, k);
    }
    return;
  }
  if (a.hasRows()) {
    for (int64_t i = 0; i < m; i++) {
      Format::packAlong(out + i * stridedK, from + i * a.rowStep, k);
    }
    return;
  }
  constexpr int64_t ahead = 16;
  // All panels of a k before the next k, as the columns of one panel would compete for one set of
  // the first-level cache.
  for (int64_t p = 0; p < k; p += Format::together, from += Format::together * a.columnStep) {
    float* panel = out + Format::packed(p) * panelRows;
    if (p + ahead < k) askFloats(from + ahead * a.columnStep, m);
    for (int64_t i = 0; i < m; i += tileRows, panel += panelRows * depth) {
      const int64_t rows = m - i < tileRows ? m - i : tileRows;
      UNROLL for (int64_t v = 0; v < panelRows; v += lanes) {
        Vec made[Format::made];
        Format::packAcross(made, from + i + v, p + 1 < k ? a.columnStep : 0, left(rows, v));
        for (int64_t r = 0; r < Format::made; r++) store(panel + r * panelRows + v, made[r]);
      }
    }
  }
}

/// The layout in which tiles read an operand, packed or in place.
struct Panels {
  const float* p;
  int64_t step;  // from one k to the next
  int64_t next;  // from one panel to the next
  int64_t height = tileRows;  // rows of a panel of A
};

/// The layout of packed A: kept rows, `stridedK` apart, or the rows of a k adjacent, in panels of `depth`
/// k.
INLINE Panels panelsOfA(const float* packed, bool keepsRows, int64_t depth = stridedK) {
  if (keepsRows) return {packed, 1, tileRows * stridedK};
  return {packed, panelRows, panelRows * depth};
}

/// The layout of packed B with `k` packed k.
INLINE Panels panelsOfB(const float* packed, int64_t k) {
  return {packed, tileColumns, k * tileColumns};
}

/// Computes all tiles of one block: A (m,k) times B (k,n), with packed k. `t` is the first tile.
template <typename Format>
void blockTiles(const Tile& t, int64_t m, int64_t n, int64_t k, const Panels& a, const Panels& b) {
  constexpr std::make_integer_sequence<int, tileRows> all{};
  for (int64_t j = 0; j < n; j += tileColumns) {
    Tile one = t;
    one.flushed = Format::flushed;
    one.columns = n - j < tileColumns ? n - j : tileColumns;
    if (t.bias != nullptr) one.bias = t.bias + j;
    for (int64_t i = 0; i < m; i += a.height) {
      const int64_t rows = m - i < a.height ? m - i : a.height;
      const bool wide = one.columns > lanes;
      const TileKernel kernel = a.step == 1
                                    ? pickTile<typename Format::Tiles, stridedK>(rows, wide, all)
                                    : pickTile<typename Format::Tiles, 1>(rows, wide, all);
      one.c = t.c + i * t.stride + j;
      one.coming.result = ComingRows(one.c, rows, t.stride, one.columns);
      if (t.above != nullptr) {
        one.above = t.above + i * t.stride + j;
        one.coming.above = ComingRows(one.above, rows, t.stride, one.columns);
      }
      if (t.resumed != nullptr) one.resumed = t.resumed + i * t.resumedStride + j;
      for (int64_t s = 0; s < t.leftCount; s++) one.lefts[s] = t.lefts[s] + i * t.leftStride + j;
      kernel(one, k, a.p + i / a.height * a.next, a.step, b.p + j / tileColumns * b.next, b.step);
    }
  }
}

/// The memory of A in a block of rows from m0 on, to prefetch.
INLINE ComingRows comingOfA(const Operand& a, int64_t m0, int64_t m, int64_t k0, int64_t k) {
  const int64_t rows = m - m0 < blockM ? m - m0 : blockM;
  const float* p = a.p + m0 * a.rowStep + k0 * a.columnStep;
  if (rows <= 0) return {};
  return a.hasRows() ? ComingRows(p, rows, a.rowStep, k) : ComingRows(p, k, a.columnStep, rows);
}

/// C (M,N) = bias or 0, + A * B, + each of `plus`; then ReLU if `relu`, and 0 where `above` (M,N),
/// if given, is not positive.
template <typename Format>
void product(float* c, const Operand& a, const Operand& b, const float* bias, bool relu, int64_t m,
             int64_t n, int64_t k, const Addends& plus = {}, const float* above = nullptr) {
  constexpr int64_t blockK = Format::blockK;
  float* packedA = scratches().packedA.take<float>(packedM * stridedK);
  float* packedB = scratches().packedB.take<float>(packedK * blockN);
  const int64_t kBlocks = k == 0 ? 1 : (k + blockK - 1) / blockK;
  for (int64_t n0 = 0; n0 < n; n0 += blockN) {
    const int64_t columns = n - n0 < blockN ? n - n0 : blockN;
    for (int64_t kBlock = 0; kBlock < kBlocks; kBlock++) {
      const int64_t k0 = kBlock * blockK;
      const int64_t depth = k - k0 < blockK ? k - k0 : blockK;
      packB<Format>(packedB, b, k0, depth, n0, columns);
      for (int64_t m0 = 0; m0 < m; m0 += blockM) {
        const int64_t rows = m - m0 < blockM ? m - m0 : blockM;
        packA<Format>(packedA, a, m0, rows, k0, depth);
        ComingRows coming = comingOfA(a, m0 + blockM, m, k0, depth);
        Tile t{};
        t.coming.operands = &coming;
        t.c = c + m0 * n + n0;
        t.stride = n;
        t.resumed = kBlock > 0 ? t.c : nullptr;
        t.resumedStride = n;
        t.bias = bias == nullptr ? nullptr : bias + n0;
        t.relu = relu && kBlock == kBlocks - 1;
        t.leftCount = kBlock == kBlocks - 1 ? plus.count : 0;
        t.leftStride = n;
        for (int64_t i = 0; i < t.leftCount; i++) t.lefts[i] = plus.of[i] + m0 * n + n0;
        const bool isMasked = above != nullptr && kBlock == kBlocks - 1;
        t.above = isMasked ? above + m0 * n + n0 : nullptr;
        const int64_t packedDepth = Format::packed(depth);
        blockTiles<Format>(t, rows, columns, packedDepth, panelsOfA(packedA, keepsRows(a)),
                           panelsOfB(packedB, packedDepth));
      }
    }
  }
}
