// Matrix products and their formats. Included by dense/dense.cc for each instruction set, after
// dense/packing.h.
//
// Matrix products are C (M,N) = start + A (M,K) * B (K,N). Each element of C is one chain of fused
// multiply-adds over k in ascending order, which begins with `start` and, if K is blocked,
// continues from C, so that neither tiles nor M change a bit. A panel of B (K x 2 vectors) and a
// block of A stay in the second-level cache; a tile of C (tileRows x 2 vectors) is in registers.
//
// A format defines how operands are packed and how a chain reads them: Float32 in this file,
// Bfloat16 in bfloat16.h. A packed element has 32 bits, for one k or for a pair of k.

/// Whether a chain prefetches the lines of `Coming` one after the other, every few k. Otherwise a
/// chain begins with the lines of a later tile (`LaterTile`), as 16 registers do not hold the
/// accumulators of a tile and the addresses of lines.
constexpr bool spreadsLines = lanes != 8;

/// Memory that a tile prefetches while it multiplies.
struct Coming {
  ComingRows* operands = nullptr;  // operands of later tiles
  ComingRows tile = {};            // a later tile of C
  const float* const* tensors = nullptr;  // C, and what the tile is prefetched of besides
  int64_t count = 0;

  void ask() {
    const float* const operand = operands == nullptr ? nullptr : operands->take();
    if (operand != nullptr) askLine(operand);
    const float* const line = tile.take();
    if (line == nullptr) return;
    for (int64_t i = 0; i < count; i++) askLine(tensors[i] + (line - tensors[0]));
  }
};

/// A tile of C: its output, its start values, and the operations after the chain.
struct Tile {
  float* c;    // C itself
  int64_t at;  // offset of the tile in C, and in what has its layout
  int64_t stride;
  int64_t columns;
  bool resumed;  // starts from its values
  const float* bias;  // else the start values (N); nullptr: 0
  bool relu;
  Addends plus;  // in the layout of C
  const float* above;  // in the layout of C: the tile becomes 0 where this is not positive
  bool flushed;  // the chain flushes numbers below the smallest normal number to 0
  Coming coming;
};

/// A chain prefetches B this many k ahead, from the second- or third-level cache. After the end of
/// a panel this is the next panel, or memory that is not needed, which does no harm.
constexpr int64_t aheadOfB = 24;
/// It prefetches lines by their last floats: where B is in place and a tile begins within a line,
/// the tile before it has read this line.
constexpr int64_t lineEnd = 15;

/// acc += A * B over k: A(m,k) = a[m*rowA + k*stepA], B(k,:) = b[k*stepB ..].
template <int rows, int vectors, int64_t rowA>
INLINE void chain(Vec (&acc)[rows][vectors], int64_t k, const float* a, int64_t stepA,
                  const float* b, int64_t stepB, Coming& coming) {
  constexpr int64_t between = 8;  // k between two prefetched lines
  const auto step = [&](int64_t i) INLINE_LAMBDA {
    if (spreadsLines) {
      const float* const soon = b + (aheadOfB + i) * stepB + lineEnd;
      for (int64_t n = 0; n < vectors * lanes; n += 16) askSoon(soon + n);
    }
    Vec bs[vectors];
    UNROLL for (int v = 0; v < vectors; v++) bs[v] = load(b + i * stepB + v * lanes);
    const float* from = a + i * stepA;
    if constexpr (rowA == 1) stepColumn(acc, from, bs);
    else UNROLL for (int m = 0; m < rows; m++) stepRow(acc[m], from + m * rowA, bs);
  };
  if constexpr (!spreadsLines) {
    const int64_t rest = k & (unrolledK - 1);
    for (const float* const end = b + (k - rest) * stepB; b != end;) {
      UNROLL for (int64_t i = 0; i < unrolledK; i++) step(i);
      a += unrolledK * stepA;
      b += unrolledK * stepB;
    }
    for (int64_t p = rest; p > 0; p--, a += stepA, b += stepB) step(0);
    return;
  }
  for (int64_t p = 0; p < k;) {
    coming.ask();
    for (const int64_t end = k - p < between ? k : p + between; p < end; p++) {
      step(0);
      a += stepA;
      b += stepB;
    }
  }
}

#if defined(OSIRIS_AVX512) || defined(OSIRIS_AVX2)
/// Keeps the compiler from moving arithmetic on `acc` across a change of the processor's mode. It
/// may copy all registers, so chains that do not change the mode are not pinned.
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
  static constexpr int64_t asksFrom = 0;  // least packed k of a chain that prefetches
  /// Number of k packed together, and of the packed elements that they make.
  static constexpr int64_t together = 1, made = 1;
  static constexpr bool converts = false;
  static constexpr int tallest = tileRows, widest = 2;  // rows and vectors of a gradient's tile

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
                       Coming& coming) {
#if defined(OSIRIS_AVX512) || defined(OSIRIS_AVX2)
    constexpr unsigned flushes = 0x8040;  // of results and of inputs
    const unsigned mode = flushed ? _mm_getcsr() : 0;
    if (flushed) {
      _mm_setcsr(mode | flushes);
      pin(acc);
    }
    // Known steps are part of an instruction's address.
    if (lanes == 8 && stepA == (rowA == 1 ? panelStep : 1) && stepB == tileColumns) {
      chain<rows, vectors, rowA>(acc, k, a, rowA == 1 ? panelStep : 1, b, tileColumns, coming);
    } else {
      chain<rows, vectors, rowA>(acc, k, a, stepA, b, stepB, coming);
    }
    if (flushed) {
      pin(acc);
      _mm_setcsr(mode);
      pin(acc);
    }
#else
    chain<rows, vectors, rowA>(acc, k, a, stepA, b, stepB, coming);
#endif
  }
};

/// Applies what follows the chain to the accumulators of a tile, and stores them. The last vector
/// of a row has `last` elements.
template <int rows, int vectors>
INLINE void finish(const Tile& t, Vec (&acc)[rows][vectors], int64_t last) {
  for (int64_t i = 0; i < t.plus.count; i++) addRows(acc, t.plus.of[i] + t.at, t.stride, last);
  if (t.relu) {
    UNROLL for (int m = 0; m < rows; m++) {
      UNROLL for (int v = 0; v < vectors; v++) acc[m][v] = positive(acc[m][v]);
    }
  }
  if (t.above != nullptr) {
    const float* from = t.above + t.at;
    UNROLL for (int m = 0; m < rows; m++, from += t.stride) {
      UNROLL for (int v = 0; v < vectors; v++) {
        const int64_t n = v < vectors - 1 ? lanes : last;
        acc[m][v] = whereAbove0(loadSome(from + v * lanes, n), acc[m][v]);
      }
    }
  }
  storeRows(t.c + t.at, t.stride, acc, last);
}

template <typename Format, int rows, int vectors, int64_t rowA>
void tile(Tile& t, int64_t k, const float* a, int64_t stepA, const float* b, int64_t stepB) {
  const int64_t last = t.columns - (vectors - 1) * lanes;
  Vec acc[rows][vectors];
  if (t.resumed) loadRows(acc, t.c + t.at, t.stride, last);
  else if (t.bias != nullptr) loadRows(acc, t.bias, 0, last);
  else clear(acc);
  Format::template multiply<rowA>(acc, k, a, stepA, b, stepB, t.flushed, t.coming);
  // Loads and stores of whole vectors need no mask.
  if (lanes == 8 && last == lanes) finish(t, acc, lanes);
  else finish(t, acc, last);
}

template <typename Format, int64_t rowA>
struct Tiles {
  template <int rows, int vectors>
  static constexpr auto run = tile<Format, rows, vectors, rowA>;
};

/// Computes all tiles of one block: A (m,k) times B (k,n), with packed k. `one` is the first tile.
template <typename Format>
void blockTiles(Tile one, int64_t m, int64_t n, int64_t k, const Panels& a, const Panels& b) {
  one.flushed = Format::flushed;
  const int64_t at = one.at;
  const float* tensors[addendsMax + 2] = {one.c};
  int64_t count = 1;
  if (one.above != nullptr) tensors[count++] = one.above;
  for (int64_t p = 0; p < one.plus.count; p++) tensors[count++] = one.plus.of[p];
  one.coming.tensors = tensors;
  one.coming.count = count;
  for (int64_t j = 0; j < n; j += tileColumns) {
    one.columns = n - j < tileColumns ? n - j : tileColumns;
    for (int64_t i = 0; i < m; i += tileRows) {
      const int64_t rows = m - i < tileRows ? m - i : tileRows;
      const int64_t vectors = vectorsOf(one.columns);
      using Kept = Tiles<typename Format::Tiles, stridedK>;
      using Turned = Tiles<typename Format::Tiles, 1>;
      const auto kernel =
          a.step == 1 ? pickTile<Kept>(rows, vectors) : pickTile<Turned>(rows, vectors);
      one.at = at + i * one.stride + j;
      const LaterTile later(i, j, m, n, tileRows);
      if (spreadsLines && k >= Format::Tiles::asksFrom) {
        one.coming.tile = later.of(one.c + at, one.stride);
      } else if (!spreadsLines) {
        one.coming.operands->askRow();
        for (int64_t p = 0; p < count; p++) later.of(tensors[p] + at, one.stride).askAll();
      }
      kernel(one, k, a.p + i / tileRows * a.next, a.step, b.p + j / tileColumns * b.next, b.step);
    }
    if (one.bias != nullptr) one.bias += tileColumns;
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
  float* packedA = scratches().packedA.take<float>(packedM * stridedK);
  float* packedB = scratches().packedB.take<float>(packedK * blockN);
  const int64_t kBlocks = k == 0 ? 1 : (k + Format::blockK - 1) / Format::blockK;
  // Blocks of similar depth: in a shallow one, loads and stores of C would take much of the time.
  const int64_t blockK = (k + 16 * kBlocks - 1) / (16 * kBlocks) * 16;
  // Few rows of A would use packed B only a few times. With AVX-512 their tiles read rows of B in
  // place, if chains are long enough to prefetch it; narrower vectors would compete for cache sets.
  const bool isInPlace = lanes == 16 && Format::together == 1 && b.columnStep == 1 && k >= 128 &&
                         n % lanes == 0 && m <= 2 * blockM;
  for (int64_t n0 = 0; n0 < n; n0 += blockN) {
    const int64_t columns = n - n0 < blockN ? n - n0 : blockN;
    for (int64_t kBlock = 0; kBlock < kBlocks; kBlock++) {
      const int64_t k0 = kBlock * blockK;
      const int64_t depth = k - k0 < blockK ? k - k0 : blockK;
      const int64_t packedDepth = Format::packed(depth);
      const Panels inPlace{b.p + k0 * b.rowStep + n0, b.rowStep, tileColumns};
      if (!isInPlace) packB<Format>(packedB, b, k0, depth, n0, columns, packedDepth);
      const bool isLast = kBlock == kBlocks - 1;
      for (int64_t m0 = 0; m0 < m; m0 += blockM) {
        const int64_t rows = m - m0 < blockM ? m - m0 : blockM;
        packA<Format>(packedA, a, m0, rows, k0, depth);
        ComingRows coming = comingOfA(a, m0 + blockM, m, k0, depth);
        Tile t{};
        t.coming.operands = &coming;
        t.c = c;
        t.at = m0 * n + n0;
        t.stride = n;
        t.resumed = kBlock > 0;
        t.bias = bias == nullptr ? nullptr : bias + n0;
        t.relu = relu && isLast;
        if (isLast) t.plus = plus;
        t.above = isLast ? above : nullptr;
        blockTiles<Format>(t, rows, columns, packedDepth, panelsOfA(packedA, keepsRows(a)),
                           isInPlace ? inPlace : panelsOfB(packedB, packedDepth));
      }
    }
  }
}
