// Embedding bags, backward: updates rows with their gradients. Included by embedding/update.cc for
// each instruction set.

/// Prefetches the memory of a table's next lookups, up to `updateAhead` after `to`: gradients, and
/// rows with their state.
INLINE void askForRows(const Table& t, const Gradients& g, int64_t& asked, int64_t to) {
  const int64_t ahead = to + updateAhead(t.dim), stop = ahead < g.count ? ahead : g.count;
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

/// Computes the clipped sum of a row's gradients, in g.stack.
INLINE float* clippedRow(const Table& t, const Gradients& g, int64_t first, int64_t from,
                         int64_t to) {
  float* gradient = foldRow(g, first, from, to);
  if (t.rule.clip != 0) clipRow(gradient, gradient, t.rule.clip, t.dim);
  return gradient;
}

/// Updates the rows of a table with coded weights by a plain rule (`isPlain`).
template <Precision precision>
[[gnu::noinline]] static void updateCoded(const Table& table, const Gradients& gradients,
                                          int64_t first, const float* mean, Finite& finite) {
  const Table t = table;
  const Gradients g = gradients;  // Copies that no store can alias.
  int64_t asked = 0;
  const Room room(t);
  Finite seen;
  eachRow(g, [&](int64_t row, int64_t from, int64_t to) INLINE_LAMBDA {
    askForRows(t, g, asked, to);
    const bool lone = to == from + 1 && !g.placed() && !g.mean;
    const float* gradient = lone ? g.gradientOf(from) : foldRow(gradients, first, from, to);
    if (t.rule.clip != 0) {
      clipRow(g.stack, gradient, t.rule.clip, t.dim);
      gradient = g.stack;
    }
    drawRow(room.noise, t, row);
    seen.also(stepCodedRow<precision>(t, row, gradient, mean, room));
    t.touched[row] = 1;
    if (mean != nullptr) mean++;
  });
  finite = seen;
}

/// Updates the rows of a table by any rule, in any precision.
[[gnu::noinline]] static void updateTable(const Table& t, const Gradients& g, int64_t first,
                                          const Completed& completed, Finite& finite) {
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

/// Number of distinct rows among sorted lookups.
inline int64_t distinctRows(const Gradients& g) {
  int64_t rows = g.count > 0;
  for (int64_t k = 1; k < g.count; k++) rows += g.lookups[k] >> 32 != g.lookups[k - 1] >> 32;
  return rows;
}

/// Updates `rows` of the table at `index`, and records in `finite` whether they are still finite.
/// Returns the number of distinct rows; where `known` has another number of sums, it updates none.
inline int64_t updateTableRows(const Table* tables, int64_t index, const Bags& bags,
                               const float* dPooled, int64_t columns, const Slices& slices,
                               const int32_t* sliceOf, const RowRange& range, const Lookup* order,
                               const Completed& known, Finite& finite) {
  const Table& t = tables[index];
  const Gradients g =
      gradientsOf(tables, index, bags, dPooled, columns, slices, sliceOf, range, order);
  if (known.rows >= 0) {
    if (const int64_t rows = distinctRows(g); rows != known.rows) return rows;
  }
  withPrecision(t.precision, [&](auto precision) INLINE_LAMBDA {
    if constexpr (precision != Precision::float32) {
      if (isPlain(t)) return updateCoded<precision>(t, g, slices.first, known.mean, finite);
    }
    if (heldVectors(t) > 0) return updateHeld(t, g, slices.first, known.mean, finite);
    updateTable(t, g, slices.first, known, finite);
  });
  return known.rows;
}

template <bool placed>
inline int64_t rowSquaresOf(float** squares, const Table* tables, int64_t index, const Bags& bags,
                            const float* dPooled, int64_t columns, const Slices& slices,
                            Lookup* order) {
  const Table& t = tables[index];
  const int32_t* sliceOf = slicesOfSamples(slices);
  const Gradients found =
      gradientsOf(tables, index, bags, dPooled, columns, slices, sliceOf, {0, t.rows});
  const Gradients g = found;  // A copy that no store can alias.
  if (order != nullptr) std::memcpy(order, g.lookups, g.count * sizeof(Lookup));
  const int64_t quanta = (t.dim + 31) / 32;
  float* out = scratches().squares.take<float>(g.count * quanta);
  *squares = out;
  // A vector of squares for each quantum that is not stored yet: their lanes are summed together.
  Vec squared[lanes] = {};
  int64_t held = 0;
  const auto storeHeld = [&]() INLINE_LAMBDA {
    storeSome(out, held, sumsOfLanes(squared));
    out += held;
    held = 0;
  };
  const bool changed = placed || g.mean || t.rule.clip != 0 || t.rule.l2 > 0;
  int64_t asked = 0;
  eachRow(g, [&](int64_t row, int64_t from, int64_t to) INLINE_LAMBDA {
    for (; asked < g.count && asked < to + updateAhead(t.dim); asked++) {
      prefetch(g.gradientOf<placed>(asked), g.dim * sizeof(float));
    }
    const bool lone = !changed && to == from + 1;
    const float* gradient = g.gradientOf<placed>(from);
    if (!lone) {
      float* sum = clippedRow(t, g, slices.first, from, to);
      if (t.rule.l2 > 0) {
        float* decoded = scratches().decoded.take<float>(t.dim);
        regularise(sum, rowWeights(t, row, decoded), t.rule.l2, t.dim);
      }
      gradient = sum;
    }
    for (int64_t c = 0; c < t.dim; c += 32) {
      squared[held++] = squaresOf(gradient + c, t.dim - c);
      if (held == lanes) storeHeld();
    }
  });
  storeHeld();
  return out - *squares;
}

/// out (rows) = the means of squares of rows of `dim` columns, whose quanta are in `parts` arrays.
inline void rowMeans(float* __restrict out, const float* const* squares, const int32_t* quanta,
                     int64_t parts, int64_t rows, int64_t dim) {
  std::memset(out, 0, rows * sizeof(float));
  for (int64_t part = 0; part < parts; part++) {
    const float* sums = squares[part];
    const int64_t width = quanta[part];
    if (width == 1) {
      for (int64_t row = 0; row < rows; row++) out[row] += sums[row];
      continue;
    }
    for (int64_t row = 0; row < rows; row++) {
      for (const float* end = sums + width; sums < end; sums++) out[row] += *sums;
    }
  }
  for (int64_t row = 0; row < rows; row++) out[row] /= static_cast<float>(dim);
}

template <bool placed>
inline int64_t rowNormsOf(double** norms, const Table* tables, int64_t index, const Bags& bags,
                          const float* dPooled, int64_t columns, const Slices& slices,
                          const float* mean) {
  const Table& t = tables[index];
  const int32_t* sliceOf = slicesOfSamples(slices);
  const Gradients found =
      gradientsOf(tables, index, bags, dPooled, columns, slices, sliceOf, {0, t.rows});
  const Gradients g = found;  // A copy that no store can alias.
  double* out = scratches().squares.take<double>(g.count * quantaOf(t.dim) * 2);
  *norms = out;
  float* decoded = scratches().decoded.take<float>(t.dim);
  // The moments are updated in a copy, as this phase must change nothing.
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
  const Gradients found =
      gradientsOf(tables, index, bags, dPooled, columns, slices, sliceOf, {0, t.rows});
  const Gradients g = found;  // A copy that no store can alias.
  const auto subtreeOf = [&](int64_t k) { return plan[g.slice<placed>(k)].subtree; };
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

/// The estimated time of the update of the table at `index`, in nanoseconds.
inline double nsOfUpdate(const Table* tables, int64_t index, const Bags& bags) {
  const int32_t* offsets = bags.offsets + index * bags.samples;
  const int64_t end = tables[index].lookups * bags.samples;
  return static_cast<double>(offsets[end] - offsets[0]) * (15 + 0.6 * tables[index].dim);
}

/// A part of an update: some rows of a table.
struct UpdatePart {
  int64_t index;
  RowRange rows;
};

/// What became of a part: the distinct rows that it found, and the sums that the exchange completed
/// for them; if the numbers differ, no row was updated. Both are -1 where rows are whole.
struct Updated {
  bool isFinite;
  int64_t rows;
  int64_t sums;
};

/// Lists the parts of an update: whole tables, and of large ones ranges of rows, `most` at most.
/// `out` has room for `most` parts of each table.
inline int64_t updateParts(UpdatePart* out, int64_t most, const Table* tables, const Bags& bags,
                           const Completed* completed) {
  RowRange* ranges = scratches().starts.take<RowRange>(most);
  int64_t count = 0;
  for (int64_t index = 0; index < bags.tables; index += tables[index].lookups) {
    const Table& t = tables[index];
    // Completed values are in the order of the table's distinct rows, which a part does not count.
    const bool isWhole = completed != nullptr && completed[index].rows >= 0;
    const int64_t parts = isWhole ? 1 : partsOf(nsOfUpdate(tables, index, bags), most);
    const int32_t* offsets = bags.offsets + index * bags.samples;
    const int64_t lookups = offsets[t.lookups * bags.samples] - offsets[0];
    const int64_t cut = cutRows(ranges, parts, bags.ids + offsets[0], lookups, t.rows);
    for (int64_t i = 0; i < cut; i++) out[count++] = {index, ranges[i]};
  }
  return count;
}

inline int64_t updateRows(const Table* tables, const Bags& bags, const float* dPooled,
                          int64_t columns, const Slices& slices, const Completed* completed,
                          const uint64_t* order, WrongSums* wrong) {
  const int32_t* sliceOf = slicesOfSamples(slices);
  int64_t firstBad = -1;
  const auto update = [&](const UpdatePart& part) {
    const Completed known = completed == nullptr ? Completed{} : completed[part.index];
    Finite finite;
    // Lookups of tables without completed sums have not been sorted yet.
    const bool sorted = order != nullptr && known.rows >= 0;
    const Lookup* own = sorted ? order + bags.offsets[part.index * bags.samples] : nullptr;
    const int64_t rows = updateTableRows(tables, part.index, bags, dPooled, columns, slices,
                                         sliceOf, part.rows, own, known, finite);
    return Updated{finite.all(), rows, known.rows};
  };
  // Notes what became of a part, in the order of tables: the first fault wins. Returns whether the
  // sums were wrong.
  const auto isWrong = [&](const Updated& done, int64_t index) {
    if (done.rows != done.sums) {
      *wrong = {done.rows, done.sums};
      firstBad = index;
    } else if (!done.isFinite && firstBad < 0) {
      firstBad = index;
    }
    return done.rows != done.sums;
  };
  double ns = 0;
  for (int64_t index = 0; index < bags.tables; index += tables[index].lookups) {
    ns += nsOfUpdate(tables, index, bags);
  }
  const int64_t most = partsOf(ns, INT64_MAX);
  if (most == 1) {
    for (int64_t index = 0; index < bags.tables; index += tables[index].lookups) {
      if (isWrong(update({index, {0, tables[index].rows}}), index)) break;
    }
    return firstBad;
  }
  UpdatePart* parts = scratches().parts.take<UpdatePart>(most * bags.tables);
  const int64_t count = updateParts(parts, most, tables, bags, completed);
  Updated* updated = scratches().updated.take<Updated>(count);
  inParts(count, [&](int64_t part) { updated[part] = update(parts[part]); });
  for (int64_t i = 0; i < count; i++) {
    if (isWrong(updated[i], parts[i].index)) break;
  }
  return firstBad;
}

inline int64_t rowSquares(float** squares, const Table* tables, int64_t index, const Bags& bags,
                          const float* dPooled, int64_t columns, const Slices& slices,
                          uint64_t* order) {
  const auto of = isPlaced(tables[index], bags) ? rowSquaresOf<true> : rowSquaresOf<false>;
  Lookup* own = order == nullptr ? nullptr : order + bags.offsets[index * bags.samples];
  return of(squares, tables, index, bags, dPooled, columns, slices, own);
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
