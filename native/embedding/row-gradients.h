// Embedding bags, backward: sorts lookups by row, and sums the gradients of each row. Included by
// embedding/update.cc for each instruction set.

/// One lookup: its row above its sample, so that a sort by row keeps the order of samples. Where
/// bags have weights, it holds the lookup's index in its table instead of the sample.
using Lookup = uint64_t;
INLINE int64_t rowOf(Lookup l) { return static_cast<int64_t>(l >> 32); }
INLINE int64_t placeOf(Lookup l) { return static_cast<int64_t>(l & 0xffffffffu); }

/// The lookups of one table, and the inputs of their gradients' sums.
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

/// Stable radix sort by row in `passes` passes, least significant digit first. All digits are
/// counted before the first pass. Returns where the result lies.
template <int passes>
inline Lookup* sortLookups(Lookup* from, Lookup* to, int64_t count, int width) {
  const uint64_t mask = (1u << width) - 1;
  int32_t starts[passes][2048];
  std::memset(starts, 0, sizeof starts);
  for (int64_t k = 0; k < count; k++) {
    UNROLL for (int p = 0; p < passes; p++) starts[p][from[k] >> (32 + p * width) & mask]++;
  }
  for (int p = 0; p < passes; p++) {
    int32_t total = 0;
    for (uint64_t digit = 0; digit <= mask; digit++) {
      const int32_t size = starts[p][digit];
      starts[p][digit] = total;
      total += size;
    }
    const int shift = 32 + p * width;
    for (int64_t k = 0; k < count; k++) to[starts[p][from[k] >> shift & mask]++] = from[k];
    std::swap(from, to);
  }
  return from;
}

inline Lookup* sortLookups(Lookup* from, Lookup* to, int64_t count, int64_t rows) {
  int bits = 1;
  while (((rows - 1) >> bits) > 0) bits++;
  if (bits <= 11) return sortLookups<1>(from, to, count, bits);
  if (bits <= 22) return sortLookups<2>(from, to, count, (bits + 1) / 2);
  return sortLookups<3>(from, to, count, (bits + 2) / 3);
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

/// The slice tree of lookups from..to-1, slices counted from `first`. Returns the sum, in g.stack.
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
