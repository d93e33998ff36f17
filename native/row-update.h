// Embedding bags, backward: the gradient of each row, and its update, included once for each
// instruction set.

// Row gradients ----

/// One lookup: its row above its sample, so that a sort by row keeps the order of samples. Where
/// bags have weights, the lookup's place among those of its table is in the sample's stead.
using Lookup = uint64_t;
INLINE int64_t rowOf(Lookup l) { return static_cast<int64_t>(l >> 32); }
INLINE int64_t placeOf(Lookup l) { return static_cast<int64_t>(l & 0xffffffffu); }

/// The lookups of one table and what is needed to add up their gradients.
template <bool weighted>
struct Gradients {
  const Lookup* lookups;  // sorted by row, then in the order of the bags
  int64_t count;
  const int32_t* sliceOf;  // (B): index of a sample's slice in this call
  const int32_t* offsets;  // of this table's bags
  const float* d;          // this table's columns of dPooled
  int64_t columns, dim;
  bool mean;
  float* stack;             // (64,D)
  const float* weights;     // of the table's lookups, where there are
  const int32_t* sampleAt;  // their samples, where there are weights

  int64_t sampleOf(int64_t k) const {
    const int64_t place = placeOf(lookups[k]);
    return weighted ? sampleAt[place] : place;
  }
  int64_t slice(int64_t k) const { return sliceOf[sampleOf(k)]; }
};

/// Stable radix sort by row, least significant digit first. Returns where the result lies.
inline Lookup* sortLookups(Lookup* from, Lookup* to, int64_t count, int64_t rows) {
  int bits = 1;
  while (((rows - 1) >> bits) > 0) bits++;
  const int passes = (bits + 10) / 11;
  const int width = (bits + passes - 1) / passes;
  int32_t starts[2048];
  for (int shift = 32; shift < 32 + passes * width; shift += width) {
    const uint64_t mask = (1u << width) - 1;
    std::memset(starts, 0, sizeof(int32_t) << width);
    for (int64_t k = 0; k < count; k++) starts[from[k] >> shift & mask]++;
    int32_t total = 0;
    for (uint64_t digit = 0; digit <= mask; digit++) {
      const int32_t size = starts[digit];
      starts[digit] = total;
      total += size;
    }
    for (int64_t k = 0; k < count; k++) to[starts[from[k] >> shift & mask]++] = from[k];
    std::swap(from, to);
  }
  return from;
}

inline const int32_t* slicesOfSamples(const Slices& slices) {
  const int64_t samples = slices.bounds[slices.count];
  int32_t* sliceOf = scratches().slices.take<int32_t>(samples);
  for (int64_t i = 0; i < slices.count; i++) {
    for (int64_t b = slices.bounds[i]; b < slices.bounds[i + 1]; b++) {
      sliceOf[b] = static_cast<int32_t>(i);
    }
  }
  return sliceOf;
}

template <bool weighted>
inline Gradients<weighted> gradientsOf(const Table& t, int64_t index, const Bags& bags,
                                       const float* dPooled, int64_t columns,
                                       const int32_t* sliceOf) {
  const int32_t* offsets = bags.offsets + index * bags.samples;
  const int64_t count = offsets[bags.samples] - offsets[0];
  Lookup* from = scratches().rowsA.take<Lookup>(count);
  Lookup* to = scratches().rowsB.take<Lookup>(count);
  int32_t* sampleAt = weighted ? scratches().samples.take<int32_t>(count) : nullptr;
  for (int64_t b = 0, place = 0; b < bags.samples; b++) {
    for (int64_t k = offsets[b]; k < offsets[b + 1]; k++, place++) {
      const int64_t low = weighted ? place : b;
      from[place] = static_cast<uint64_t>(bags.ids[k]) << 32 | static_cast<uint64_t>(low);
      if (weighted) sampleAt[place] = static_cast<int32_t>(b);
    }
  }
  const float* weights = weighted ? bags.weights + offsets[0] : nullptr;
  float* stack = scratches().fold.take<float>(64 * t.dim);
  const Lookup* sorted = sortLookups(from, to, count, t.rows);
  return {sorted, count,  sliceOf, offsets, dPooled + t.column, columns,
          t.dim,  t.mean, stack,   weights, sampleAt};
}

/// out (D) = the sum of lookups from..to-1, in order.
template <bool weighted>
INLINE void sumLookups(float* out, const Gradients<weighted>& g, int64_t from, int64_t to) {
  for (int64_t c = 0; c < g.dim; c += lanes) {
    const int64_t some = left(g.dim, c);
    Vec sum = zero();
    for (int64_t k = from; k < to; k++) {
      const int64_t b = g.sampleOf(k);
      Vec share = loadSome(g.d + b * g.columns + c, some);
      if (g.mean) {
        const int32_t length = g.offsets[b + 1] - g.offsets[b];
        share = div(share, broadcast(static_cast<float>(length)));
      }
      if (weighted) sum = fma(broadcast(g.weights[placeOf(g.lookups[k])]), share, sum);
      else sum = add(sum, share);
    }
    storeSome(out + c, some, sum);
  }
}

/// The slice tree of lookups from..to-1, slices counted from `first`; returns it, in g.stack.
/// A slice without lookups would add +0, which changes nothing: no partial sum is ever -0.
template <bool weighted>
INLINE float* foldRow(const Gradients<weighted>& g, int64_t first, int64_t from, int64_t to) {
  int64_t depth = 0;
  int meets[64];  // meets[i]: the level of the tree at which sums i-1 and i become one
  int64_t before = 0;
  while (from < to) {
    const int64_t slice = g.slice(from);
    int64_t end = from + 1;
    while (end < to && g.slice(end) == slice) end++;
    if (depth > 0) {
      const uint64_t parted = static_cast<uint64_t>((first + before) ^ (first + slice));
      const int level = 63 - __builtin_clzll(parted);
      for (; depth > 1 && meets[depth - 1] < level; depth--) {
        addRow(g.stack + (depth - 2) * g.dim, g.stack + (depth - 1) * g.dim, g.dim);
      }
      meets[depth] = level;
    }
    sumLookups(g.stack + depth * g.dim, g, from, end);
    depth++;
    before = slice;
    from = end;
  }
  for (; depth > 1; depth--) {
    addRow(g.stack + (depth - 2) * g.dim, g.stack + (depth - 1) * g.dim, g.dim);
  }
  return g.stack;
}

/// Calls visit(row, from, to) for each distinct row, ascending.
template <bool weighted, typename Visit>
INLINE void eachRow(const Gradients<weighted>& g, const Visit& visit) {
  for (int64_t from = 0; from < g.count;) {
    const int64_t row = rowOf(g.lookups[from]);
    int64_t to = from + 1;
    while (to < g.count && rowOf(g.lookups[to]) == row) to++;
    visit(row, from, to);
    from = to;
  }
}

/// How many lookups ahead of the row at work: its gradients and state take miss buffers too.
constexpr int64_t updateAhead = 32;

/// Asks ahead for what the lookups of a table will need: gradients, and what there is of the row.
/// `vectors`: of a row, where they are known.
template <int vectors, bool weighted>
INLINE void askForRows(const Table& t, const Gradients<weighted>& g, int64_t& asked, int64_t to) {
  constexpr int64_t known = vectors * lanes * sizeof(float);
  const int64_t stop = to + updateAhead < g.count ? to + updateAhead : g.count;
  for (; asked < stop; asked++) {
    prefetch(g.d + g.sampleOf(asked) * g.columns, known > 0 ? known : g.dim * sizeof(float));
    const int64_t row = rowOf(g.lookups[asked]);
    const int64_t bytes = known > 0 ? known : rowBytes(t);
    prefetch(rowsOf(t) + row * bytes, bytes);
    if (t.precision == Precision::int8) prefetch(t.exponents + row * quantaOf(t.dim), 1);
    prefetch(t.state + row * t.stateWidth, known > 0 ? 4 : t.stateWidth * sizeof(float));
    prefetch(t.touched + row, 1);
  }
}

/// What `foldRow` and `applyRow` do with SGD and row-wise Adagrad, without decay, on float32 rows
/// of so many vectors: the gradient stays in registers.
template <int vectors, bool weighted>
INLINE void updateHeld(const Table& t, const Gradients<weighted>& g, int64_t first, int64_t row,
                       int64_t from, int64_t to, const float* mean, Finite& finite) {
  Vec d[vectors];
  if (to == from + 1 && !weighted && !g.mean) {
    const float* share = g.d + g.sampleOf(from) * g.columns;
    for (int v = 0; v < vectors; v++) d[v] = add(zero(), load(share + v * lanes));
  } else {
    const float* folded = foldRow(g, first, from, to);
    for (int v = 0; v < vectors; v++) d[v] = load(folded + v * lanes);
  }
  float rate = t.rule.rate;
  if (t.rule.kind == RuleKind::rowWiseAdagrad) {
    float* state = t.state + row;
    *state += mean != nullptr ? *mean : meanOfSquares<vectors>(d);
    rate /= __builtin_sqrtf(*state) + t.rule.epsilon;
    finite.look(broadcast(*state));
  }
  float* w = t.weights + row * vectors * lanes;
  for (int v = 0; v < vectors; v++) {
    const Vec changed = fnma(broadcast(rate), d[v], load(w + v * lanes));
    finite.look(changed);
    store(w + v * lanes, changed);
  }
  t.touched[row] = 1;
}

/// One table's rows in fewer bits take their gradients by a plain rule.
template <Precision precision, bool weighted>
[[gnu::noinline]] static void updateCoded(const Table& t, const Gradients<weighted>& g,
                                          int64_t first, const float* mean, Finite& finite) {
  int64_t asked = 0;
  const Room room(t);
  Finite seen;
  eachRow(g, [&](int64_t row, int64_t from, int64_t to) INLINE_LAMBDA {
    askForRows<0>(t, g, asked, to);
    const bool lone = to == from + 1 && !weighted && !g.mean;
    const float* gradient =
        lone ? g.d + g.sampleOf(from) * g.columns : foldRow(g, first, from, to);
    seen.also(stepCodedRow<precision>(t, row, gradient, mean, room));
    t.touched[row] = 1;
    if (mean != nullptr) mean++;
  });
  finite = seen;
}

/// The vectors of a row that `updateHeld` takes, or 0.
inline int64_t heldVectors(const Table& t) {
  const Rule& rule = t.rule;
  const bool held = t.precision == Precision::float32 && isPlain(rule);
  return held && t.dim % lanes == 0 ? t.dim / lanes : 0;
}

/// One table's rows take their gradients. `vectors` as in `updateHeld`; 0: any table.
template <int vectors, bool weighted>
[[gnu::noinline]] static void updateTable(const Table& t, const Gradients<weighted>& g,
                                          int64_t first, const Completed& completed,
                                          Finite& finite) {
  const float *mean = completed.mean, *trust = completed.trust;
  int64_t asked = 0;
  const Room room(t);
  Finite seen;
  eachRow(g, [&](int64_t row, int64_t from, int64_t to) INLINE_LAMBDA {
    askForRows<vectors>(t, g, asked, to);
    if constexpr (vectors > 0) {
      updateHeld<vectors>(t, g, first, row, from, to, mean, seen);
    } else {
      seen.also(applyRow(t, row, foldRow(g, first, from, to), {mean, trust}, room));
      if (trust != nullptr) trust++;
    }
    if (mean != nullptr) mean++;
  });
  finite = seen;
}

template <bool weighted>
inline int64_t updateRowsOf(const Table* tables, const Bags& bags, const float* dPooled,
                          int64_t columns, const Slices& slices, const Completed* completed) {
  const int32_t* sliceOf = slicesOfSamples(slices);
  int64_t firstBad = -1;
  for (int64_t index = 0; index < bags.tables; index++) {
    const Table& t = tables[index];
    const Gradients<weighted> g = gradientsOf<weighted>(t, index, bags, dPooled, columns, sliceOf);
    const Completed known = completed == nullptr ? Completed{} : completed[index];
    Finite finite;
    withPrecision(t.precision, [&](auto precision) INLINE_LAMBDA {
      if constexpr (precision != Precision::float32) {
        if (isPlain(t.rule)) return updateCoded<precision>(t, g, slices.first, known.mean, finite);
      }
      switch (heldVectors(t)) {
        case 1: return updateTable<1>(t, g, slices.first, known, finite);
        case 2: return updateTable<2>(t, g, slices.first, known, finite);
        case 4: return updateTable<4>(t, g, slices.first, known, finite);
        case 8: return updateTable<8>(t, g, slices.first, known, finite);
        default: return updateTable<0>(t, g, slices.first, known, finite);
      }
    });
    if (firstBad < 0 && !finite.all()) firstBad = index;
  }
  return firstBad;
}

template <bool weighted>
inline int64_t rowSquaresOf(float** squares, const Table& t, int64_t index, const Bags& bags,
                          const float* dPooled, int64_t columns, const Slices& slices) {
  const int32_t* sliceOf = slicesOfSamples(slices);
  const Gradients<weighted> g =
      gradientsOf<weighted>(t, index, bags, dPooled, columns, sliceOf);
  const int64_t quanta = (t.dim + 31) / 32;
  float* out = scratches().squares.take<float>(g.count * quanta);
  *squares = out;
  eachRow(g, [&](int64_t row, int64_t from, int64_t to) INLINE_LAMBDA {
    float* gradient = foldRow(g, slices.first, from, to);
    if (t.rule.l2 > 0) {
      float* decoded = scratches().decoded.take<float>(t.dim);
      regularise(gradient, rowWeights(t, row, decoded), t.rule.l2, t.dim);
    }
    for (int64_t c = 0; c < t.dim; c += 32) *out++ = quantumSquares(gradient + c, t.dim - c);
  });
  return out - *squares;
}

template <bool weighted>
inline int64_t rowNormsOf(double** norms, const Table& t, int64_t index, const Bags& bags,
                          const float* dPooled, int64_t columns, const Slices& slices,
                          const float* mean) {
  const int32_t* sliceOf = slicesOfSamples(slices);
  const Gradients<weighted> g =
      gradientsOf<weighted>(t, index, bags, dPooled, columns, sliceOf);
  double* out = scratches().squares.take<double>(g.count * quantaOf(t.dim) * 2);
  *norms = out;
  float* decoded = scratches().decoded.take<float>(t.dim);
  // The moments move in a copy.
  float* state = scratches().gradient.take<float>(t.stateWidth);
  float* second = state + t.dim;
  eachRow(g, [&](int64_t row, int64_t from, int64_t to) INLINE_LAMBDA {
    float* gradient = foldRow(g, slices.first, from, to);
    const float* w = rowWeights(t, row, decoded);
    if (t.rule.l2 > 0) regularise(gradient, w, t.rule.l2, t.dim);
    std::memcpy(state, t.state + row * t.stateWidth, t.stateWidth * sizeof(float));
    const float* u = lambDirection(t.rule, w, state, second, gradient, t.dim, mean);
    for (int64_t c = 0; c < t.dim; c += quantumColumns) {
      *out++ = static_cast<double>(quantumSquares(w + c, t.dim - c));
      *out++ = static_cast<double>(quantumSquares(u + c, t.dim - c));
    }
    if (mean != nullptr) mean++;
  });
  return out - *norms;
}

template <bool weighted>
inline void dRowsOf(float* const* dRows, float* const* counts, const Table& t, int64_t index,
                  const Bags& bags, const float* dPooled, int64_t columns, const Slices& slices) {
  SlicePlan* plan = scratches().trees.take<SlicePlan>(slices.count);
  const int64_t subtrees = planSlices(plan, slices);
  for (int64_t p = 0; p < subtrees; p++) {
    std::memset(dRows[p], 0, t.rows * t.dim * sizeof(float));
    std::memset(counts[p], 0, t.rows * sizeof(float));
  }
  const int32_t* sliceOf = slicesOfSamples(slices);
  const Gradients<weighted> g =
      gradientsOf<weighted>(t, index, bags, dPooled, columns, sliceOf);
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

inline int64_t updateRows(const Table* tables, const Bags& bags, const float* dPooled,
                          int64_t columns, const Slices& slices, const Completed* completed) {
  const auto of = bags.weights == nullptr ? updateRowsOf<false> : updateRowsOf<true>;
  return of(tables, bags, dPooled, columns, slices, completed);
}

inline int64_t rowSquares(float** squares, const Table& t, int64_t index, const Bags& bags,
                          const float* dPooled, int64_t columns, const Slices& slices) {
  const auto of = bags.weights == nullptr ? rowSquaresOf<false> : rowSquaresOf<true>;
  return of(squares, t, index, bags, dPooled, columns, slices);
}

inline int64_t rowNorms(double** norms, const Table& t, int64_t index, const Bags& bags,
                        const float* dPooled, int64_t columns, const Slices& slices,
                        const float* mean) {
  const auto of = bags.weights == nullptr ? rowNormsOf<false> : rowNormsOf<true>;
  return of(norms, t, index, bags, dPooled, columns, slices, mean);
}

inline void dRows(float* const* dRows, float* const* counts, const Table& t, int64_t index,
                  const Bags& bags, const float* dPooled, int64_t columns, const Slices& slices) {
  const auto of = bags.weights == nullptr ? dRowsOf<false> : dRowsOf<true>;
  of(dRows, counts, t, index, bags, dPooled, columns, slices);
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
