// Embedding bags, backward: updates rows with their gradients. Included by embedding/update.cc for
// each instruction set.

/// How many lookups ahead rows are prefetched: into the second-level cache, as in `pool`. Rows to
/// be written are prefetched once more when they are close, into the first-level cache: updating a
/// row fills the window of instructions in flight, so it must not wait for the second-level cache.
constexpr int64_t updateAhead = 48, updateClose = 16;

/// Prefetches the memory of a table's lookups: gradients, and rows with their state.
template <bool placed>
INLINE void askForRows(const Table& t, const Gradients<placed>& g, int64_t& asked, int64_t to) {
  const int64_t stop = to + updateAhead < g.count ? to + updateAhead : g.count;
  for (; asked < stop; asked++) {
    prefetch(g.gradientOf(asked), g.dim * sizeof(float));
    const int64_t row = rowOf(g.lookups[asked]);
    const int64_t bytes = rowBytes(t);
    prefetch(rowsOf(t) + row * bytes, bytes);
    if (t.precision == Precision::int8) prefetch(t.exponents + row * quantaOf(t.dim), 1);
    prefetch(t.state + row * t.stateWidth, t.stateWidth * sizeof(float));
    prefetch(t.touched + row, 1);
  }
}

/// As many rows as a vector has lanes, with their gradients.
template <int vectors>
struct RowGroup {
  /// Quanta of 32 columns of a row.
  static constexpr int most = 32 / lanes, some = vectors < most ? vectors : most;
  static constexpr int quanta = vectors / some;

  int64_t n = 0;
  int64_t rows[lanes];
  const float* d[lanes];  // a row's gradient
  float* folded;          // (lanes,D), for gradients that are sums
  Vec squares[quanta][lanes];
  float rates[lanes];

  /// Squares of row r's gradient, not yet summed over lanes.
  __attribute__((always_inline)) void square(int r) {
    for (int q = 0; q < quanta; q++) {
      Vec v[some];
      for (int i = 0; i < some; i++) v[i] = load(d[r] + (q * some + i) * lanes);
      squares[q][r] = vectorOfSquares(v);
    }
  }

  /// Means of squares, each equal to `meanOfSquares`.
  __attribute__((always_inline)) Vec means() const {
    Vec sum = zero();
    for (int q = 0; q < quanta; q++) sum = add(sum, sumsOfLanes(squares[q]));
    return div(sum, broadcast(static_cast<float>(vectors * lanes)));
  }
};

/// SGD or row-wise Adagrad, without decay, on float32 rows of `vectors` vectors. It does what
/// `foldRow` and `applyRow` do, for groups of rows with one vector of rates. While the squares of
/// one group are summed, the rows of the group before are written: in every turn one row is
/// prefetched, one squared and one written, so that memory is always busy and nothing waits for a
/// square root. The loop's inputs are copied to locals, so that its stores cannot alias them.
template <int vectors, bool adagrad, bool placed>
[[gnu::noinline]] static void updatePlain(const Table& table, const Gradients<placed>& gradients,
                                          int64_t first, const float* mean, Finite& finite) {
  const Table t = table;
  const Gradients<placed> g = gradients;
  const float most = table.rule.clip;
  const bool summed = placed || g.mean;
  RowGroup<vectors> groups[2];
  float* const folded = scratches().gradient.take<float>(2 * lanes * g.dim);
  groups[0].folded = folded;
  groups[1].folded = folded + lanes * g.dim;
  int64_t asked = 0, from = 0;
  const int64_t bytes = vectors * lanes * sizeof(float);
  const auto ask = [&]() INLINE_LAMBDA {
    if (asked < g.count) {
      const int64_t row = rowOf(g.lookups[asked]);
      prefetch(g.gradientOf(asked), bytes);
      prefetch(t.weights + row * vectors * lanes, bytes);
      if (adagrad) prefetch(t.state + row, 1);
      prefetch(t.touched + row, 1);
    }
    const int64_t close = asked - updateAhead + updateClose;
    if (close >= 0 && close < g.count) {
      prefetchClose(t.weights + rowOf(g.lookups[close]) * vectors * lanes, bytes);
    }
    asked++;
  };
  const auto take = [&](RowGroup<vectors>& group, int r) INLINE_LAMBDA {
    const int64_t row = rowOf(g.lookups[from]);
    int64_t to = from + 1;
    while (to < g.count && rowOf(g.lookups[to]) == row) to++;
    group.rows[r] = row;
    group.d[r] = g.gradientOf(from);
    float* const own = group.folded + r * g.dim;
    if (__builtin_expect(summed || to > from + 1, 0)) {
      group.d[r] = own;
      std::memcpy(own, foldRow(g, first, from, to), g.dim * sizeof(float));
    }
    if (__builtin_expect(most != 0, 0)) {
      clipRow(own, group.d[r], most, vectors * lanes);
      group.d[r] = own;
    }
    if (adagrad && mean == nullptr) group.square(r);
    from = to;
  };
  Finite seen;
  const auto rate = [&](RowGroup<vectors>& group) INLINE_LAMBDA {
    float state[lanes];
    for (int64_t i = 0; i < group.n; i++) state[i] = t.state[group.rows[i]];
    const Vec means = mean != nullptr ? loadSome(mean, group.n) : group.means();
    const Vec sums = add(loadSome(state, group.n), means);
    seen.look(sums);
    store(state, sums);
    for (int64_t i = 0; i < group.n; i++) t.state[group.rows[i]] = state[i];
    store(group.rates, div(broadcast(t.rule.rate), add(root(sums), broadcast(t.rule.epsilon))));
    if (mean != nullptr) mean += group.n;
  };
  const auto change = [&](const RowGroup<vectors>& group, int r) INLINE_LAMBDA {
    float* w = t.weights + group.rows[r] * vectors * lanes;
    const Vec rate = broadcast(adagrad ? group.rates[r] : t.rule.rate);
    UNROLL for (int v = 0; v < vectors; v++) {
      // An unsummed gradient may hold a -0.
      const Vec share = add(zero(), load(group.d[r] + v * lanes));
      const Vec changed = fnma(rate, share, load(w + v * lanes));
      seen.look(changed);
      store(w + v * lanes, changed);
    }
    t.touched[group.rows[r]] = 1;
  };
  for (int turn = 0; from < g.count || groups[1 - turn % 2].n > 0; turn++) {
    RowGroup<vectors>&now = groups[turn % 2], &before = groups[1 - turn % 2];
    while (asked < from + updateAhead) ask();
    now.n = 0;
    for (int r = 0; r < lanes; r++) {
      ask();
      if (from < g.count) {
        take(now, r);
        now.n++;
      } else if (adagrad && mean == nullptr) {
        for (auto& squares : now.squares) squares[r] = zero();
      }
      if (r < before.n) change(before, r);
    }
    if (adagrad && now.n > 0) rate(now);
    before.n = 0;
  }
  finite = seen;
}

/// The sum of a row's gradients, clipped, in g.stack.
template <bool placed>
INLINE float* clippedRow(const Table& t, const Gradients<placed>& g, int64_t first, int64_t from,
                         int64_t to) {
  float* gradient = foldRow(g, first, from, to);
  if (t.rule.clip != 0) clipRow(gradient, gradient, t.rule.clip, t.dim);
  return gradient;
}

/// Updates the rows of a table in fewer bits by a plain rule.
template <Precision precision, bool placed>
[[gnu::noinline]] static void updateCoded(const Table& t, const Gradients<placed>& g,
                                          int64_t first, const float* mean, Finite& finite) {
  int64_t asked = 0;
  const Room room(t);
  Finite seen;
  eachRow(g, [&](int64_t row, int64_t from, int64_t to) INLINE_LAMBDA {
    askForRows(t, g, asked, to);
    const bool lone = to == from + 1 && !placed && !g.mean && t.rule.clip == 0;
    const float* gradient = lone ? g.gradientOf(from) : clippedRow(t, g, first, from, to);
    seen.also(stepCodedRow<precision>(t, row, gradient, mean, room));
    t.touched[row] = 1;
    if (mean != nullptr) mean++;
  });
  finite = seen;
}

/// Updates the rows of a table: any rule, any precision.
template <bool placed>
[[gnu::noinline]] static void updateTable(const Table& t, const Gradients<placed>& g,
                                          int64_t first, const Completed& completed,
                                          Finite& finite) {
  const float *mean = completed.mean, *trust = completed.trust;
  int64_t asked = 0;
  const Room room(t);
  Finite seen;
  eachRow(g, [&](int64_t row, int64_t from, int64_t to) INLINE_LAMBDA {
    askForRows(t, g, asked, to);
    seen.also(applyRow(t, row, foldRow(g, first, from, to), {mean, trust}, room));
    if (trust != nullptr) trust++;
    if (mean != nullptr) mean++;
  });
  finite = seen;
}

/// The number of vectors in a row, if `updatePlain` can update it, or 0.
inline int64_t heldVectors(const Table& t) {
  const bool held = t.precision == Precision::float32 && isPlain(t);
  return held && t.dim % lanes == 0 ? t.dim / lanes : 0;
}

/// Updates the rows of the table at `index`, and notes whether they are still finite.
template <bool placed>
inline void updateRowsOf(const Table* tables, int64_t index, const Bags& bags, const float* dPooled,
                         int64_t columns, const Slices& slices, const int32_t* sliceOf,
                         const Completed& known, Finite& finite) {
  const Table& t = tables[index];
  const Gradients<placed> g =
      gradientsOf<placed>(tables, index, bags, dPooled, columns, slices, sliceOf);
  withPrecision(t.precision, [&](auto precision) INLINE_LAMBDA {
    if constexpr (precision != Precision::float32) {
      if (isPlain(t)) return updateCoded<precision>(t, g, slices.first, known.mean, finite);
    }
    const auto plain = [&](auto vectors) INLINE_LAMBDA {
      const bool adagrad = t.rule.kind == RuleKind::rowWiseAdagrad;
      const auto update = adagrad ? updatePlain<vectors, true, placed>
                                  : updatePlain<vectors, false, placed>;
      update(t, g, slices.first, known.mean, finite);
    };
    switch (heldVectors(t)) {
      case 1: return plain(std::integral_constant<int, 1>());
      case 2: return plain(std::integral_constant<int, 2>());
      case 4: return plain(std::integral_constant<int, 4>());
      case 8: return plain(std::integral_constant<int, 8>());
      default: return updateTable(t, g, slices.first, known, finite);
    }
  });
}

template <bool placed>
inline int64_t rowSquaresOf(float** squares, const Table* tables, int64_t index, const Bags& bags,
                            const float* dPooled, int64_t columns, const Slices& slices) {
  const Table& t = tables[index];
  const int32_t* sliceOf = slicesOfSamples(slices);
  const Gradients<placed> g =
      gradientsOf<placed>(tables, index, bags, dPooled, columns, slices, sliceOf);
  const int64_t quanta = (t.dim + 31) / 32;
  float* out = scratches().squares.take<float>(g.count * quanta);
  *squares = out;
  eachRow(g, [&](int64_t row, int64_t from, int64_t to) INLINE_LAMBDA {
    float* gradient = clippedRow(t, g, slices.first, from, to);
    if (t.rule.l2 > 0) {
      float* decoded = scratches().decoded.take<float>(t.dim);
      regularise(gradient, rowWeights(t, row, decoded), t.rule.l2, t.dim);
    }
    for (int64_t c = 0; c < t.dim; c += 32) *out++ = quantumSquares(gradient + c, t.dim - c);
  });
  return out - *squares;
}

template <bool placed>
inline int64_t rowNormsOf(double** norms, const Table* tables, int64_t index, const Bags& bags,
                          const float* dPooled, int64_t columns, const Slices& slices,
                          const float* mean) {
  const Table& t = tables[index];
  const int32_t* sliceOf = slicesOfSamples(slices);
  const Gradients<placed> g =
      gradientsOf<placed>(tables, index, bags, dPooled, columns, slices, sliceOf);
  double* out = scratches().squares.take<double>(g.count * quantaOf(t.dim) * 2);
  *norms = out;
  float* decoded = scratches().decoded.take<float>(t.dim);
  // The moments are updated in a copy.
  float* state = scratches().gradient.take<float>(t.ruleWidth());
  float* second = state + t.dim;
  eachRow(g, [&](int64_t row, int64_t from, int64_t to) INLINE_LAMBDA {
    float* gradient = clippedRow(t, g, slices.first, from, to);
    const float* w = rowWeights(t, row, decoded);
    if (t.rule.l2 > 0) regularise(gradient, w, t.rule.l2, t.dim);
    std::memcpy(state, t.ruleStateOf(row), t.ruleWidth() * sizeof(float));
    const float* u = lambDirection(t.rule, w, state, second, gradient, t.dim, mean);
    for (int64_t c = 0; c < t.dim; c += quantumColumns) {
      *out++ = static_cast<double>(quantumSquares(w + c, t.dim - c));
      *out++ = static_cast<double>(quantumSquares(u + c, t.dim - c));
    }
    if (mean != nullptr) mean++;
  });
  return out - *norms;
}

template <bool placed>
inline void dRowsOf(float* const* dRows, float* const* counts, const Table* tables, int64_t index,
                    const Bags& bags, const float* dPooled, int64_t columns,
                    const Slices& slices) {
  const Table& t = tables[index];
  SlicePlan* plan = scratches().trees.take<SlicePlan>(slices.count);
  const int64_t subtrees = planSlices(plan, slices);
  for (int64_t p = 0; p < subtrees; p++) {
    std::memset(dRows[p], 0, t.rows * t.dim * sizeof(float));
    std::memset(counts[p], 0, t.rows * sizeof(float));
  }
  const int32_t* sliceOf = slicesOfSamples(slices);
  const Gradients<placed> g =
      gradientsOf<placed>(tables, index, bags, dPooled, columns, slices, sliceOf);
  const auto subtreeOf = [&](int64_t k) { return plan[g.slice(k)].subtree; };
  eachRow(g, [&](int64_t row, int64_t from, int64_t to) INLINE_LAMBDA {
    while (from < to) {
      const int64_t p = subtreeOf(from);
      int64_t end = from + 1;
      while (end < to && subtreeOf(end) == p) end++;
      const float* gradient = foldRow(g, slices.first, from, end);
      std::memcpy(dRows[p] + row * t.dim, gradient, t.dim * sizeof(float));
      counts[p][row] = 1;
      from = end;
    }
  });
}

/// Whether the lookups of a table are placed.
inline bool isPlaced(const Table& t, const Bags& bags) {
  return bags.weights != nullptr || t.lookups > 1;
}

inline int64_t updateRows(const Table* tables, const Bags& bags, const float* dPooled,
                          int64_t columns, const Slices& slices, const Completed* completed) {
  const int32_t* sliceOf = slicesOfSamples(slices);
  int64_t firstBad = -1;
  for (int64_t index = 0; index < bags.tables; index += tables[index].lookups) {
    const auto of = isPlaced(tables[index], bags) ? updateRowsOf<true> : updateRowsOf<false>;
    const Completed known = completed == nullptr ? Completed{} : completed[index];
    Finite finite;
    of(tables, index, bags, dPooled, columns, slices, sliceOf, known, finite);
    if (firstBad < 0 && !finite.all()) firstBad = index;
  }
  return firstBad;
}

inline int64_t rowSquares(float** squares, const Table* tables, int64_t index, const Bags& bags,
                          const float* dPooled, int64_t columns, const Slices& slices) {
  const auto of = isPlaced(tables[index], bags) ? rowSquaresOf<true> : rowSquaresOf<false>;
  return of(squares, tables, index, bags, dPooled, columns, slices);
}

inline int64_t rowNorms(double** norms, const Table* tables, int64_t index, const Bags& bags,
                        const float* dPooled, int64_t columns, const Slices& slices,
                        const float* mean) {
  const auto of = isPlaced(tables[index], bags) ? rowNormsOf<true> : rowNormsOf<false>;
  return of(norms, tables, index, bags, dPooled, columns, slices, mean);
}

inline void dRows(float* const* dRows, float* const* counts, const Table* tables, int64_t index,
                  const Bags& bags, const float* dPooled, int64_t columns, const Slices& slices) {
  const auto of = isPlaced(tables[index], bags) ? dRowsOf<true> : dRowsOf<false>;
  of(dRows, counts, tables, index, bags, dPooled, columns, slices);
}

inline bool applyRows(const Table& t, const float* dRows, const float* counts, bool whole) {
  const Room room(t);
  Finite finite;
  float* g = scratches().gradient.take<float>(t.dim);
  for (int64_t row = 0; row < t.rows; row++) {
    if (!whole && !(counts[row] > 0)) continue;
    std::memcpy(g, dRows + row * t.dim, t.dim * sizeof(float));
    finite.also(applyRow(t, row, g, {}, room));
  }
  return finite.all();
}
