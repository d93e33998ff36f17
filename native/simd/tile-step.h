// One step of the chains in a tile of a matrix product: acc(m,v) += a(m) * b(v), a fused
// multiply-add each. Included by parts with products.
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
