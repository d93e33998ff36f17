// Embedding bags, backward: sorts lookups by row, and sums the gradients of each row. Included by
// embedding/update.cc for each instruction set.

/// One lookup: its row in the upper half, its sample in the lower half; a stable sort by row keeps
/// the order of samples. If bags have weights, or several features look the table up, lookups are
/// `placed`: the lower half is then the index of the lookup among the lookups of the table.
using Lookup = uint64_t;
INLINE int64_t rowOf(Lookup l) { return static_cast<int64_t>(l >> 32); }
INLINE int64_t placeOf(Lookup l) { return static_cast<int64_t>(l & 0xffffffffu); }

/// The lookups of one table, and the inputs of the sums of their gradients. Most kernels test at
/// run time whether lookups are placed, as a template argument would compile each of them twice.
struct Gradients {
  const Lookup* lookups;   // sorted by row, then by slice, then in the order of the bags
  int64_t count;
  const int32_t* sliceOf;  // (B): index of a sample's slice in this call
  const int32_t* offsets;  // offsets of this table's bags, if lookups are not placed
  const float* d;          // this table's columns of dPooled
  int64_t columns, dim;
  bool mean;               // whether any bag is averaged
  float* stack;            // (64,D)
  // Arrays by place, if lookups are placed; else null.
  const int32_t* sampleAt;
  const int64_t* gradientAt;  // offset from d
  const int32_t* lengthAt;    // length of the bag, if it is averaged; else 0
  const float* weightAt;      // null: all 1

  bool placed() const { return sampleAt != nullptr; }
  const float* gradientOf(int64_t k) const {
    return placed() ? gradientOf<true>(k) : gradientOf<false>(k);
  }
  int64_t slice(int64_t k) const { return placed() ? slice<true>(k) : slice<false>(k); }

  /// The versions with `placed` as a template argument.
  template <bool placed>
  const float* gradientOf(int64_t k) const {
    const int64_t place = placeOf(lookups[k]);
    return d + (placed ? gradientAt[place] : place * columns);
  }
  template <bool placed>
  int64_t slice(int64_t k) const {
    const int64_t place = placeOf(lookups[k]);
    return sliceOf[placed ? sampleAt[place] : place];
  }
  float weightOf(int64_t k) const {
    return weightAt == nullptr ? 1 : weightAt[placeOf(lookups[k])];
  }
};

/// All ids that are looked up in a table, and the range of rows that this call updates.
struct LookupIds {
  const int32_t* ids;
  int64_t all;
  RowRange rows;

  bool wants(int32_t row) const { return row >= rows.first && row < rows.end; }
};

/// Stable radix sort by row in `passes` passes, least significant digit first. list(put) calls
/// put(row, place) for each of `ids`, in the order of their sums; `put` is the first pass. All
/// digits are counted before it. Returns `from` or `to`, whichever has the result, and sets
/// `count`. `from` has room for `ids.all` lookups and one more. `isWhole`: every row is wanted.
template <int passes, int widthMax, bool isWhole, typename List>
inline Lookup* sortLookups(Lookup* from, Lookup* to, int64_t& count, const LookupIds& ids,
                           int width, const List& list) {
  const LookupIds of = ids;  // A copy that no store can alias.
  const uint32_t mask = (1u << width) - 1;
  int32_t starts[passes][1 << widthMax];
  for (auto& digits : starts) std::memset(digits, 0, (mask + 1) * sizeof(int32_t));
  const auto countDigits = [&](int64_t k) INLINE_LAMBDA {
    const auto row = static_cast<uint32_t>(of.ids[k]);
    const bool wanted = isWhole || of.wants(of.ids[k]);
    UNROLL for (int p = 0; p < passes; p++) starts[p][row >> p * width & mask] += wanted;
  };
  int64_t k = 0;
  for (; k + 8 <= of.all; k += 8) {
    // The first two passes write to places in no order, for which the processor fetches nothing.
    __builtin_prefetch(from + k, 1, 2);
    __builtin_prefetch(to + k, 1, 2);
    UNROLL for (int i = 0; i < 8; i++) countDigits(k + i);
  }
  for (; k < of.all; k++) countDigits(k);
  int32_t total = 0;
  for (auto& digits : starts) {
    total = 0;
    for (uint32_t i = 0; i <= mask; i++) total += std::exchange(digits[i], total);
  }
  // A row that is not wanted is written after the last, as a branch would be mispredicted.
  list([&](int32_t row, uint64_t place) INLINE_LAMBDA {
    const bool wanted = isWhole || of.wants(row);
    int32_t& start = starts[0][static_cast<uint32_t>(row) & mask];
    from[wanted ? start : total] = static_cast<uint64_t>(row) << 32 | place;
    start += wanted;
  });
  for (int p = 1; p < passes; p++) {
    const int shift = 32 + p * width;
    for (int64_t k = 0; k < total; k++) to[starts[p][from[k] >> shift & mask]++] = from[k];
    std::swap(from, to);
  }
  count = total;
  return from;
}

/// Sorts the lookups of a table of `rows` rows. Two passes of 12 bits have 8192 counters to clear
/// and to add up, and so replace three passes only from some thousands of lookups on.
template <typename List>
inline Lookup* sortLookups(int64_t& count, const LookupIds& ids, int64_t rows, const List& list) {
  Lookup* from = scratches().rowsA.take<Lookup>(ids.all + 1);
  Lookup* to = scratches().rowsB.take<Lookup>(ids.all);
  int bits = 1;
  while (((rows - 1) >> bits) > 0) bits++;
  const bool isLong = ids.all >= 1 << 13;
  const auto sort = [&](auto isWhole) INLINE_LAMBDA {
    if (bits <= 11) return sortLookups<1, 11, isWhole>(from, to, count, ids, bits, list);
    if (bits <= (isLong ? 24 : 22)) {
      return sortLookups<2, 12, isWhole>(from, to, count, ids, (bits + 1) / 2, list);
    }
    return sortLookups<3, 11, isWhole>(from, to, count, ids, (bits + 2) / 3, list);
  };
  const bool isWhole = ids.rows.first == 0 && ids.rows.end == rows;
  return isWhole ? sort(std::true_type()) : sort(std::false_type());
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

/// Calls put(row, place) for the lookups in the table at `index`, and in the next entries with the
/// same rows, in the order of their sums: slice by slice, entry by entry, sample by sample.
template <typename Put>
INLINE void placeLookups(int32_t* sampleAt, int64_t* gradientAt, int32_t* lengthAt,
                         float* weightAt, const Table* tables, int64_t index, const Bags& bags,
                         int64_t columns, const Slices& slices, const Put& put) {
  int64_t place = 0;
  for (int64_t slice = 0; slice < slices.count; slice++) {
    for (int64_t i = index; i < index + tables[index].lookups; i++) {
      const int32_t* offsets = bags.offsets + i * bags.samples;
      const int64_t column = tables[i].column - tables[index].column;
      for (int64_t b = slices.bounds[slice]; b < slices.bounds[slice + 1]; b++) {
        const int32_t length = tables[i].mean ? offsets[b + 1] - offsets[b] : 0;
        for (int64_t k = offsets[b]; k < offsets[b + 1]; k++, place++) {
          put(bags.ids[k], static_cast<uint64_t>(place));
          sampleAt[place] = static_cast<int32_t>(b);
          gradientAt[place] = b * columns + column;
          lengthAt[place] = length;
          if (weightAt != nullptr) weightAt[place] = bags.weights[k];
        }
      }
    }
  }
}

/// Whether the lookups of a table are placed.
INLINE bool isPlaced(const Table& t, const Bags& bags) {
  return bags.weights != nullptr || t.lookups > 1;
}

/// The gradients of one table's vectors side by side, in scratch. In dPooled, vectors of a table
/// are a long stride apart, and so evict each other from the caches before they are read again.
inline const float* besideOf(const float* d, int64_t columns, int64_t samples, int64_t dim) {
  float* beside = scratches().beside.take<float>(samples * dim);
  copyColumns({beside, dim}, {const_cast<float*>(d), columns}, samples, dim);
  return beside;
}

/// The sorted lookups of `rows` in the table at `index`, which is the first entry with its rows.
/// `order`: the sorted lookups of all its rows, if they are known; else null.
[[gnu::noinline]] inline Gradients gradientsOf(const Table* tables, int64_t index,
                                               const Bags& bags, const float* dPooled,
                                               int64_t columns, const Slices& slices,
                                               const int32_t* sliceOf, const RowRange& rows,
                                               const Lookup* order = nullptr) {
  const Table& t = tables[index];
  const int32_t* offsets = bags.offsets + index * bags.samples;
  const int64_t all = offsets[t.lookups * bags.samples] - offsets[0];
  int64_t count = all;
  const LookupIds own{bags.ids + offsets[0], all, rows};
  const float* d = dPooled + t.column;
  float* stack = scratches().fold.take<float>(64 * t.dim);
  if (!isPlaced(t, bags)) {
    const bool isWhole = rows.first == 0 && rows.end == t.rows;
    if (isWhole && all >= bags.samples && bags.samples * t.dim <= farFloats && columns > t.dim) {
      d = besideOf(d, columns, bags.samples, t.dim);
      columns = t.dim;
    }
    const int64_t samples = bags.samples;
    const int32_t* ids = bags.ids;
    if (order == nullptr) {
      order = sortLookups(count, own, t.rows, [&](const auto& put) INLINE_LAMBDA {
        for (int64_t b = 0; b < samples; b++) {
          for (int64_t k = offsets[b]; k < offsets[b + 1]; k++) {
            put(ids[k], static_cast<uint64_t>(b));
          }
        }
      });
    }
    return {order,  count, sliceOf, offsets, d,       columns, t.dim,
            t.mean, stack, nullptr, nullptr, nullptr, nullptr};
  } else {
    int32_t* sampleAt = scratches().samples.take<int32_t>(all);
    int64_t* gradientAt = scratches().gradients.take<int64_t>(all);
    int32_t* lengthAt = scratches().lengths.take<int32_t>(all);
    float* weightAt = nullptr;
    if (bags.weights != nullptr) weightAt = scratches().weights.take<float>(all);
    const auto list = [&](const auto& put) INLINE_LAMBDA {
      placeLookups(sampleAt, gradientAt, lengthAt, weightAt, tables, index, bags, columns, slices,
                   put);
    };
    if (order == nullptr) order = sortLookups(count, own, t.rows, list);
    else list([](int32_t, uint64_t) {});
    bool mean = false;
    for (int64_t i = index; i < index + t.lookups; i++) mean = mean || tables[i].mean;
    return {order, count, sliceOf,  nullptr,    d,        columns, t.dim,
            mean,  stack, sampleAt, gradientAt, lengthAt, weightAt};
  }
}

/// Adds the gradient of lookup k, averaged and weighted, to `sum`: `width` vectors from column c
/// on, of which only a single vector may be shorter.
template <bool placed, int width>
INLINE void addGradient(Vec (&sum)[width], const Gradients& g, int64_t k, int64_t c) {
  const float* d = g.gradientOf<placed>(k) + c;
  const int64_t place = placeOf(g.lookups[k]);
  const int32_t length =
      !g.mean ? 0 : placed ? g.lengthAt[place] : g.offsets[place + 1] - g.offsets[place];
  UNROLL for (int v = 0; v < width; v++) {
    Vec share = width > 1 ? load(d + v * lanes) : loadUpTo(d, left(g.dim, c));
    if (length > 0) share = div(share, broadcast(static_cast<float>(length)));
    sum[v] = placed ? fma(broadcast(g.weightOf(k)), share, sum[v]) : add(sum[v], share);
  }
}

/// `foldLookups` of `width` vectors from column c on. A sum that is to be added at a level of the
/// tree waits in row `level` of g.stack, and has its bit in `waiting`.
template <bool placed, int width>
INLINE void foldColumns(float* out, const Gradients& g, int64_t first, int64_t from, int64_t to,
                        int64_t c) {
  const int64_t some = width > 1 ? lanes : left(g.dim, c);
  Vec sum[width] = {};
  uint64_t waiting = 0;
  const auto addWaiting = [&](uint64_t levels) INLINE_LAMBDA {
    for (; levels != 0; levels &= levels - 1) {
      const float* with = g.stack + __builtin_ctzll(levels) * g.dim + c;
      UNROLL for (int v = 0; v < width; v++) {
        sum[v] = add(loadUpTo(with + v * lanes, some), sum[v]);
      }
    }
  };
  const auto storeSum = [&](float* row) INLINE_LAMBDA {
    UNROLL for (int v = 0; v < width; v++) storeUpTo(row + c + v * lanes, some, sum[v]);
  };
  int64_t before = g.slice<placed>(from);
  // Two unweighted lookups have the same sum in one slice and in two.
  const bool isPair = !placed && to - from == 2;
  for (int64_t k = from; k < to; k++) {
    const int64_t slice = g.slice<placed>(k);
    if (slice != before && !isPair) {
      const auto parted = static_cast<uint64_t>((first + before) ^ (first + slice));
      const int level = 63 - __builtin_clzll(parted);
      const uint64_t below = (uint64_t{1} << level) - 1;
      addWaiting(waiting & below);
      storeSum(g.stack + level * g.dim);
      waiting = (waiting & ~below) | (below + 1);
      UNROLL for (int v = 0; v < width; v++) sum[v] = zero();
      before = slice;
    }
    addGradient<placed>(sum, g, k, c);
  }
  addWaiting(waiting);
  storeSum(out);
}

/// Sums the gradients of lookups from..to-1 into out (D). The lookups of a slice are added in order,
/// then the slices as the slice tree pairs them; slices are counted from `first`. A slice without
/// lookups is skipped: it would add +0, which changes no bit, as no partial sum is ever -0. Sums
/// stay in registers. Not inlined, as it would take the registers of the loops over rows.
template <bool placed>
[[gnu::noinline]] static void foldLookups(float* out, const Gradients& gradients, int64_t first,
                                          int64_t from, int64_t to) {
  const Gradients g = gradients;  // A copy that no store can alias.
  int64_t c = 0;
  const auto fold = [&](auto width) INLINE_LAMBDA {
    const int64_t step = width * lanes, end = width > 1 ? g.dim - step + 1 : g.dim;
    for (; c < end; c += step) foldColumns<placed, width>(out, g, first, from, to, c);
  };
  fold(std::integral_constant<int, 8>());
  fold(std::integral_constant<int, 4>());
  fold(std::integral_constant<int, 2>());
  fold(std::integral_constant<int, 1>());
}

/// `foldLookups` of any lookups. Returns the sum, in g.stack.
INLINE float* foldRow(const Gradients& g, int64_t first, int64_t from, int64_t to) {
  (g.placed() ? foldLookups<true> : foldLookups<false>)(g.stack, g, first, from, to);
  return g.stack;
}

/// Calls visit(row, from, to) for each distinct row, ascending.
template <typename Visit>
INLINE void eachRow(const Gradients& g, const Visit& visit) {
  for (int64_t from = 0; from < g.count;) {
    const int64_t row = rowOf(g.lookups[from]);
    int64_t to = from + 1;
    while (to < g.count && rowOf(g.lookups[to]) == row) to++;
    visit(row, from, to);
    from = to;
  }
}
