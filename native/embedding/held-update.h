// Embedding bags, backward: updates float32 rows of 1, 2, 4, 8 or 16 vectors by SGD or
// row-wise Adagrad. Included by embedding/held-update.cc for each instruction set.

/// A group of rows, `lanes` at most, with their gradients.
struct RowGroup {
  int64_t n = 0;
  int64_t rows[lanes];
  float* w[lanes];        // a row's weights
  const float* d[lanes];  // a row's gradient
  float* folded;          // (lanes,D), for gradients that are sums
  float rates[lanes];
};

/// The squares of the gradients of up to `lanes` rows, not yet summed over lanes.
template <int vectors>
struct RowSquares {
  /// Vectors of a quantum of 32 columns (`most`), of a quantum of this row (`some`), and quanta of
  /// a row.
  static constexpr int most = 32 / lanes, some = vectors < most ? vectors : most;
  static constexpr int quanta = vectors / some;

  Vec of[quanta][lanes];

  /// Computes the squares of row r's gradient d.
  __attribute__((always_inline)) void square(int r, const float* d) {
    UNROLL for (int k = 0; k < quanta; k++) {
      const int q = quanta > 2 ? scattered(k * 16 / lanes, quanta * 16 / lanes) * lanes / 16 : k;
      if (quanta > 2) asm volatile("" ::: "memory");  // The compiler keeps this order of loads.
      Vec v[some];
      for (int i = 0; i < some; i++) v[i] = load(d + (q * some + i) * lanes);
      of[q][r] = vectorOfSquares(v);
    }
  }

  /// The rows' means of squares, each with the bits of `meanOfSquares`.
  __attribute__((always_inline)) Vec means() const {
    Vec sum = zero();
    for (int q = 0; q < quanta; q++) sum = add(sum, sumsOfLanes(of[q]));
    return div(sum, broadcast(static_cast<float>(vectors * lanes)));
  }
};

/// The number of parts in which a row is written, each for a whole group of rows before the next. A
/// part has two cache lines, which a Zen 4 does not take for a stream: see `scattered`. Row-wise
/// Adagrad reads a gradient twice, so wide gradients would leave the first-level cache in between.
constexpr int partsOfRow(int dim, bool adagrad) {
  return dim < 64 || (adagrad && dim > 128) ? 1 : dim / 32;
}

/// SGD or row-wise Adagrad, without decay, on float32 rows of `vectors` vectors. It gives the bits
/// of `foldRow` and `applyRow`, but works on groups of rows, with one vector of rates per group.
/// The loop is software-pipelined: each iteration prefetches one row, squares one row of the
/// current group and writes one row of the group before, so that memory is always busy and no row
/// waits for a square root. The loop's inputs are copied to locals, so that its stores cannot alias
/// them.
template <int vectors, bool adagrad, bool placed>
[[gnu::noinline]] static void updatePlain(const Table& table, const Gradients& gradients,
                                          int64_t first, const float* mean, Finite& finite) {
  const Table t = table;
  const Gradients g = gradients;
  const float clip = table.rule.clip;
  const bool summed = placed || g.mean;
  constexpr int parts = partsOfRow(vectors * lanes, adagrad), each = vectors / parts;
  // Rows of a group: a row that waits for its next part must stay in the first-level cache.
  constexpr int most = adagrad && parts > 1 && lanes > 8 ? 8 : lanes;
  RowSquares<vectors> squares = {};
  RowGroup groups[parts + 1], *byAge[parts + 1];
  float* const folded = scratches().gradient.take<float>((parts + 1) * most * g.dim);
  for (int i = 0; i <= parts; i++) {
    byAge[i] = groups + i;
    groups[i].folded = folded + i * most * g.dim;
  }
  int64_t asked = 0, from = 0;
  constexpr int64_t dim = vectors * lanes, bytes = dim * sizeof(float);
  const auto ask = [&]() INLINE_LAMBDA {
    if (asked < g.count) {
      const int64_t row = rowOf(g.lookups[asked]);
      prefetch(g.gradientOf<placed>(asked), bytes);
      prefetch(t.weights + row * vectors * lanes, bytes);
      if (adagrad) prefetch(t.state + row, 1);
      prefetch(t.touched + row, 1);
    }
    asked++;
  };
  const auto take = [&](RowGroup& group, int r) INLINE_LAMBDA {
    const int64_t row = rowOf(g.lookups[from]);
    int64_t to = from + 1;
    while (to < g.count && rowOf(g.lookups[to]) == row) to++;
    if (adagrad) group.rows[r] = row;
    group.w[r] = t.weights + row * dim;
    t.touched[row] = 1;
    group.d[r] = g.gradientOf<placed>(from);
    float* const own = group.folded + r * g.dim;
    if (__builtin_expect(summed || to > from + 1, 0)) {
      group.d[r] = own;
      foldLookups<placed>(own, gradients, first, from, to);
    }
    if (__builtin_expect(clip != 0, 0)) {
      clipRow(own, group.d[r], clip, vectors * lanes);
      group.d[r] = own;
    }
    if (adagrad && mean == nullptr) squares.square(r, group.d[r]);
    from = to;
  };
  Finite seen;
  const auto rate = [&](RowGroup& group) INLINE_LAMBDA {
    float state[lanes];
    for (int64_t i = 0; i < group.n; i++) state[i] = t.state[group.rows[i]];
    const Vec means = mean != nullptr ? loadSome(mean, group.n) : squares.means();
    const Vec sums = add(loadSome(state, group.n), means);
    seen.look(sums);
    store(state, sums);
    for (int64_t i = 0; i < group.n; i++) t.state[group.rows[i]] = state[i];
    store(group.rates, div(broadcast(t.rule.rate), add(root(sums), broadcast(t.rule.epsilon))));
    if (mean != nullptr) mean += group.n;
  };
  const auto change = [&](const RowGroup& group, int r, int part) INLINE_LAMBDA {
    float* const w = group.w[r];
    const Vec rate = broadcast(adagrad ? group.rates[r] : t.rule.rate);
    Finite own;  // A mask for all rows would make each row wait for the row before.
    UNROLL for (int i = 0; i < each; i++) {
      const int v = scattered(part * each + i, vectors);
      // An unsummed gradient may contain -0, which a sum from 0 would turn into +0.
      const Vec share = add(zero(), load(group.d[r] + v * lanes));
      const Vec changed = fnma(rate, share, load(w + v * lanes));
      own.look(changed);
      store(w + v * lanes, changed);
    }
    seen.also(own);
  };
  const auto isLeft = [&] {
    for (int age = 1; age <= parts; age++) {
      if (byAge[age]->n > 0) return true;
    }
    return from < g.count;
  };
  while (isLeft()) {
    if (asked < from) asked = from;  // Rows with many lookups are taken faster than prefetched.
    while (asked < from + updateAhead(dim)) ask();
    RowGroup* const now = byAge[0];
    now->n = 0;
    for (int r = 0; r < most; r++) {
      ask();
      if (from < g.count) {
        take(*now, r);
        now->n++;
      } else if (adagrad && mean == nullptr) {
        for (auto& of : squares.of) of[r] = zero();
      }
      UNROLL for (int part = 0; part < parts; part++) {
        if (r < byAge[part + 1]->n) change(*byAge[part + 1], r, part);
      }
    }
    if (adagrad && now->n > 0) rate(*now);
    RowGroup* const done = byAge[parts];
    for (int age = parts; age > 0; age--) byAge[age] = byAge[age - 1];
    byAge[0] = done;
  }
  finite = seen;
}

/// See held-rows.h.
void updateHeld(const Table& t, const Gradients& g, int64_t first, const float* mean,
                Finite& finite) {
  const bool adagrad = t.rule.kind == RuleKind::rowWiseAdagrad;
  const auto plain = [&](auto n) INLINE_LAMBDA {
    const auto placed = adagrad ? updatePlain<n, true, true> : updatePlain<n, false, true>;
    const auto own = adagrad ? updatePlain<n, true, false> : updatePlain<n, false, false>;
    (g.placed() ? placed : own)(t, g, first, mean, finite);
  };
  switch (heldVectors(t)) {
    case 1: return plain(std::integral_constant<int, 1>());
    case 2: return plain(std::integral_constant<int, 2>());
    case 4: return plain(std::integral_constant<int, 4>());
    case 8: return plain(std::integral_constant<int, 8>());
    case 16: return plain(std::integral_constant<int, 16>());
  }
}
