// Initial weights of rows, drawn at random. Included by embedding/lookup.cc for each instruction
// set.

/// Writes weights (D) to a row in fewer bits, each rounded to nearest.
template <Precision precision>
[[gnu::noinline]] static void encodeNearest(const Table& t, int64_t row, const float* weights) {
  encodeRow<precision, true>(t, row, nullptr, [&](int64_t c, int64_t n) INLINE_LAMBDA {
    return loadSome(weights + c, n);
  });
}

inline void born(const Table& t, const uint32_t* key, uint32_t purpose, float scale) {
  const auto first = [&](int64_t row) {
    return (t.firstRow + row) * t.tableDim + t.firstColumn;
  };
  withPrecision(t.precision, [&](auto precision) INLINE_LAMBDA {
    if constexpr (precision == Precision::float32) {
      // Consecutive whole rows have consecutive elements.
      const bool whole = t.dim == t.tableDim;
      const int64_t n = whole ? t.rows * t.dim : t.dim;
      for (int64_t at = 0; at < t.rows * t.dim; at += n) {
        uniform(t.weights + at, n, key, purpose, first(at / t.dim), scale);
      }
    } else {
      float* weights = scratches().decoded.take<float>(t.dim);
      for (int64_t row = 0; row < t.rows; row++) {
        uniform(weights, t.dim, key, purpose, first(row), scale);
        encodeNearest<precision>(t, row, weights);
      }
    }
  });
}

/// Initialises the row in slot places[i] as `born` initialises row ids[i], and its state.
inline void bornAt(const Table& t, const int32_t* places, const int32_t* ids, int64_t count,
                   const uint32_t* key, uint32_t purpose, float scale, float initialState) {
  float* decoded = scratches().decoded.take<float>(t.dim);
  withPrecision(t.precision, [&](auto precision) INLINE_LAMBDA {
    for (int64_t i = 0; i < count; i++) {
      const int64_t place = places[i];
      const int64_t first = (t.firstRow + ids[i]) * t.tableDim + t.firstColumn;
      constexpr bool stored = precision == Precision::float32;
      float* weights = stored ? t.weights + place * t.dim : decoded;
      uniform(weights, t.dim, key, purpose, first, scale);
      if constexpr (!stored) encodeNearest<precision>(t, place, weights);
      // Without state the pointer may be null, which memset must not receive.
      if (t.stateWidth > 0) std::memset(t.stateOf(place), 0, t.stateWidth * sizeof(float));
      float* state = t.ruleStateOf(place);
      for (int64_t c = 0; c < t.ruleWidth(); c++) state[c] = initialState;
      t.touched[place] = 0;
    }
  });
}
