// One step of the chains in a tile of a matrix product: acc(m,v) += a(m) * b(v), a fused
// multiply-add each; and how a tile is loaded, stored and chosen. Included by parts with products.
//
// Most sets broadcast an element of A by a load. On ARM such a load also occupies a pipe of the
// multiply-adds, which instead take one lane of a register as an operand.

#if defined(OSIRIS_NEON)

/// Whether a step is faster if its elements of A are contiguous.
constexpr bool prefersColumns = true;

/// a[lane] * b + c, rounded once.
template <int lane>
INLINE Vec fmaLane(Vec a, Vec b, Vec c) {
  return (Vec)vfmaq_laneq_f32((float32x4_t)c, (float32x4_t)b, (float32x4_t)a, lane);
}

/// One row of a step.
template <int vectors>
INLINE void stepRow(Vec (&acc)[vectors], const float* a, const Vec (&b)[vectors]) {
  Vec first;  // Only lane 0 is used. Compilers would broadcast it.
  asm("ldr %s0, %1" : "=w"(first) : "m"(*a));
  UNROLL for (int v = 0; v < vectors; v++) acc[v] = fmaLane<0>(first, b[v], acc[v]);
}

/// A step whose elements of A are contiguous.
template <int rows, int vectors>
INLINE void stepColumn(Vec (&acc)[rows][vectors], const float* a, const Vec (&b)[vectors]) {
  constexpr int whole = rows / lanes * lanes;
  UNROLL for (int m = 0; m < whole; m += lanes) {
    const Vec four = load(a + m);
    UNROLL for (int v = 0; v < vectors; v++) {
      acc[m][v] = fmaLane<0>(four, b[v], acc[m][v]);
      acc[m + 1][v] = fmaLane<1>(four, b[v], acc[m + 1][v]);
      acc[m + 2][v] = fmaLane<2>(four, b[v], acc[m + 2][v]);
      acc[m + 3][v] = fmaLane<3>(four, b[v], acc[m + 3][v]);
    }
  }
  UNROLL for (int m = whole; m < rows; m++) stepRow(acc[m], a + m, b);
}

#else

constexpr bool prefersColumns = false;

template <int vectors>
INLINE void stepRow(Vec (&acc)[vectors], const float* a, const Vec (&b)[vectors]) {
  const Vec one = broadcast(*a);
  UNROLL for (int v = 0; v < vectors; v++) accumulate(acc[v], one, b[v]);
}

template <int rows, int vectors>
INLINE void stepColumn(Vec (&acc)[rows][vectors], const float* a, const Vec (&b)[vectors]) {
  UNROLL for (int m = 0; m < rows; m++) stepRow(acc[m], a + m, b);
}

#endif

/// Loads rows of vectors, `stride` apart. The last vector of a row has `last` elements.
template <int rows, int vectors>
INLINE void loadRows(Vec (&out)[rows][vectors], const float* from, int64_t stride, int64_t last) {
  UNROLL for (int m = 0; m < rows; m++, from += stride) {
    UNROLL for (int v = 0; v < vectors - 1; v++) out[m][v] = load(from + v * lanes);
    out[m][vectors - 1] = loadSome(from + (vectors - 1) * lanes, last);
  }
}

/// Stores rows of vectors, as `loadRows` loads them.
template <int rows, int vectors>
INLINE void storeRows(float* out, int64_t stride, const Vec (&from)[rows][vectors], int64_t last) {
  UNROLL for (int m = 0; m < rows; m++, out += stride) {
    UNROLL for (int v = 0; v < vectors - 1; v++) store(out + v * lanes, from[m][v]);
    storeSome(out + (vectors - 1) * lanes, last, from[m][vectors - 1]);
  }
}

/// acc = rows of vectors, as `loadRows` loads them, + acc.
template <int rows, int vectors>
INLINE void addRows(Vec (&acc)[rows][vectors], const float* from, int64_t stride, int64_t last) {
  UNROLL for (int m = 0; m < rows; m++, from += stride) {
    UNROLL for (int v = 0; v < vectors; v++) {
      const int64_t n = v < vectors - 1 ? lanes : last;
      acc[m][v] = add(loadSome(from + v * lanes, n), acc[m][v]);
    }
  }
}

template <int rows, int vectors>
INLINE void clear(Vec (&acc)[rows][vectors]) {
  UNROLL for (int m = 0; m < rows; m++) {
    UNROLL for (int v = 0; v < vectors; v++) acc[m][v] = zero();
  }
}

template <typename Of, int most, int... at>
auto pickTile(int64_t rows, int64_t vectors, std::integer_sequence<int, at...>) {
  constexpr auto first = Of::template run<1, 1>;
  static constexpr decltype(first) runs[] = {Of::template run<at % most + 1, at / most + 1>...};
  return runs[(vectors - 1) * most + rows - 1];
}

/// Of::run<rows, vectors>, the function of a tile of at most `most` rows and `widest` vectors.
template <typename Of, int most = tileRows, int widest = 2>
auto pickTile(int64_t rows, int64_t vectors) {
  return pickTile<Of, most>(rows, vectors, std::make_integer_sequence<int, most * widest>{});
}

/// Vectors of a tile of at most two, which has these columns and those after them.
INLINE int64_t vectorsOf(int64_t columns) { return columns > lanes ? 2 : 1; }
