// Decides which rows embedding/held-update.cc updates. Included by both parts that update tables.

/// How many lookups ahead rows of `dim` columns are prefetched into the second-level cache, as in
/// `pool`. With AVX2 it is smaller for wide rows, which a Zen 3 updates faster so.
constexpr int64_t updateAhead(int64_t dim) { return lanes == 8 && dim >= 64 ? 24 : 48; }

/// The number of vectors in a row, if `updateHeld` can update the rows of the table; else 0.
INLINE int64_t heldVectors(const Table& t) {
  const bool held = t.precision == Precision::float32 && isPlain(t) && t.dim % lanes == 0;
  const int64_t vectors = held ? t.dim / lanes : 0;
  return vectors <= 16 && (vectors & (vectors - 1)) == 0 ? vectors : 0;
}

/// Updates the rows of a table with `heldVectors` above 0, and records in `finite` whether they are
/// still finite.
void updateHeld(const Table& t, const Gradients& g, int64_t first, const float* mean,
                Finite& finite);
