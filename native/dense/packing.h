// Packing of a product's operands into panels, which tiles read in order. The formats of
// dense/product.h say how elements are packed. Included by dense/dense.cc for each instruction set.

constexpr int64_t tileColumns = 2 * lanes;
/// Each k of a panel of A is packed as whole vectors.
constexpr int64_t panelRows = (tileRows + lanes - 1) / lanes * lanes;
/// Floats from one k of such a panel to the next. With AVX2, the next k overwrites what exceeds a
/// tile, so that panels fill less of the caches; longer vectors stay aligned.
constexpr int64_t panelStep = lanes == 8 ? tileRows : panelRows;
/// Packed elements of a block, along k. A panel of B and the rows of A that are multiplied by it
/// fit into a first-level cache of 32 KiB with vectors of 256 bits.
constexpr int64_t packedK = lanes == 8 ? 256 : 512;
constexpr int64_t blockM = 84;    // a multiple of tileRows of every set
constexpr int64_t packedM = blockM / tileRows * panelRows;
constexpr int64_t blockN = 1024;
/// Rows of packed A are `stridedK` apart, which is no power of two, so that they use different
/// cache sets.
constexpr int64_t stridedK = packedK + 16;

/// k of a gap after each panel of A with adjacent rows of a k. Panels of a power of two of bytes
/// would compete for the same set of the first-level cache, as each k is packed into all panels.
constexpr int64_t panelGap = lanes == 8 ? 2 : 0;

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

/// Packs B into panels: [panel][packed k, `depth`][tileColumns], zeros beyond the last column.
template <typename Format>
void packB(float* out, const Operand& b, int64_t k0, int64_t k, int64_t n0, int64_t n,
           int64_t depth) {
  constexpr int64_t ahead = 16;
  const float* from = b.p + k0 * b.rowStep + n0 * b.columnStep;
  const int64_t step = depth * tileColumns;
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
/// `depth`][panelStep].
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
    float* panel = out + Format::packed(p) * panelStep;
    // The last vector of a k may reach into one more line.
    if (p + ahead < k) askFloats(from + ahead * a.columnStep, m + 16);
    for (int64_t i = 0; i < m; i += tileRows, panel += panelStep * depth) {
      // Tiles do not read the elements of a k after `tileRows`, which may be anything.
      const int64_t rows = m - i < panelRows ? m - i : panelRows;
      UNROLL for (int64_t v = 0; v < panelRows; v += lanes) {
        Vec made[Format::made];
        Format::packAcross(made, from + i + v, p + 1 < k ? a.columnStep : 0, left(rows, v));
        for (int64_t r = 0; r < Format::made; r++) store(panel + r * panelStep + v, made[r]);
      }
    }
  }
}

/// The layout in which tiles read an operand, packed or in place.
struct Panels {
  const float* p;
  int64_t step;  // from one k to the next
  int64_t next;  // from one panel to the next
  int64_t height = tileRows;  // rows of a panel of A, or columns of one of B
};

/// The layout of packed A: kept rows, `stridedK` apart, or the rows of a k adjacent, in panels of
/// `depth` k.
INLINE Panels panelsOfA(const float* packed, bool keepsRows, int64_t depth = stridedK) {
  if (keepsRows) return {packed, 1, tileRows * stridedK};
  return {packed, panelStep, panelStep * depth};
}

/// The layout of packed B with `k` packed k.
INLINE Panels panelsOfB(const float* packed, int64_t k) {
  return {packed, tileColumns, k * tileColumns, tileColumns};
}

/// How many tiles ahead memory is prefetched. With AVX2, the next tile's memory would arrive late,
/// because a small tile over few inputs takes less time than a read of memory.
constexpr int64_t tilesAhead = lanes == 8 ? 2 : 1;

/// The tile to prefetch while the tile at (i,j) of a block of m by n is computed. Tiles of `height`
/// rows follow each other down the columns.
struct LaterTile {
  int64_t row, column, rows, columns;

  LaterTile(int64_t i, int64_t j, int64_t m, int64_t n, int64_t height)
      : row(i + tilesAhead * height), column(j) {
    if (row >= m) {
      row -= (m + height - 1) / height * height;
      column += tileColumns;
    }
    rows = m - row < height ? m - row : height;
    columns = n - column < tileColumns ? n - column : tileColumns;
  }

  /// Its rows in a tensor. `block`: the first element of the block there.
  ComingRows of(const float* block, int64_t stride) const {
    return {block + row * stride + column, rows, stride, columns};
  }
};
