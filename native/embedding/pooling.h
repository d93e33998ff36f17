// Embedding bags, forward: sums the rows of each bag. Included by embedding/lookup.cc for each
// instruction set.

/// How many lookups ahead a row's memory is prefetched.
constexpr int64_t prefetchAhead = 64;

/// Samples per block. The bags of a block are pooled table by table, so that its outputs stay in
/// cache.
constexpr int64_t poolSamples = 64;

/// The lookups of one table in one block of samples that are not prefetched yet.
struct Run {
  const int32_t* next;
  const int32_t* stop;
  const char* rows;  // rows of the table
  int64_t bytes;     // bytes of a row
  const int8_t* exponents;
  int64_t quanta;    // exponents per row, or 0
};

/// Iterates over the runs of a call in the order of `pool`.
struct Lookahead {
  const Table* tables;
  const Bags& bags;
  int64_t end;        // end of the call's samples
  int64_t sample;     // first sample of the next run's block
  int64_t table = 0;  // table of the next run

  /// The next run; after the last run, a run that prefetches nothing.
  [[gnu::noinline]] Run follow() {
    for (; sample < end; sample += poolSamples, table = 0) {
      const int64_t last = sample + poolSamples < end ? sample + poolSamples : end;
      while (table < bags.tables) {
        const Table& t = tables[table];
        const int32_t* offsets = bags.offsets + table++ * bags.samples;
        if (offsets[sample] == offsets[last]) continue;
        return {bags.ids + offsets[sample], bags.ids + offsets[last], rowsOf(t), rowBytes(t),
                t.exponents, t.precision == Precision::int8 ? quantaOf(t.dim) : 0};
      }
    }
    static const int32_t none[prefetchAhead] = {};
    return {none, none + prefetchAhead, nullptr, 0, nullptr, 0};
  }
};

/// Prefetches the next row. It is called once per lookup, as a burst would wait for miss buffers.
INLINE void ask(Run& run, Lookahead& lookahead) {
  if (__builtin_expect(run.next == run.stop, 0)) run = lookahead.follow();
  const int64_t row = *run.next++;
  prefetch(run.rows + row * run.bytes, run.bytes);
  if (run.quanta > 0) prefetch(run.exponents + row * run.quanta, 1);
}

// Pooling ----

/// The bags of one table for one block of samples, and the output of their pooled vectors.
struct BagBlock {
  const Table& t;
  const int32_t* ids;
  const float* weights;  // weights of the ids; nullptr: all 1
  const int32_t* offsets;
  int64_t count;
  float* out;
  int64_t columns;
  bool far;  // whether the call's output is large: see storeFar
};

/// Sums `vectors` vectors of columns, from c on, of `count` rows in bag order, each row times its
/// weight if `weighted`. Rows are decoded in registers. `last`: elements of the last vector.
template <Precision precision, int vectors, bool weighted>
INLINE void sumBag(float* out, const Table& t, int64_t c, const int32_t* ids, const float* weights,
                   int64_t count, bool mean, int64_t last, bool far, Run* run,
                   Lookahead& lookahead) {
  static_assert(vectors <= 4 || vectors == 8, "`scattered` visits each of so many vectors once");
  Vec acc[vectors];
  UNROLL for (int v = 0; v < vectors; v++) acc[v] = zero();
  // `ask` without its branches: the fewer instructions a row takes, the more rows are in flight.
  constexpr bool isLong = vectors * lanes > 32 && precision != Precision::int8;
  constexpr int64_t bytes = vectors * lanes * weightBytes(precision);
  const bool isNear = isLong && run != nullptr && run->bytes == bytes;
  const int32_t* next = isNear && run->stop - run->next >= count ? run->next : nullptr;
  for (int64_t k = 0; k < count; k++) {
    if (next != nullptr) prefetch(run->rows + *next++ * bytes, bytes);
    else if (run != nullptr) ask(*run, lookahead);
    const RowView<precision> row(t, ids[k]);
    const Vec weight = weighted ? broadcast(weights[k]) : zero();
    Vec scale;  // once a quantum, which the columns from c on begin with or lie in
    UNROLL for (int i = 0; i < vectors; i++) {
      const int v = isLong ? scattered(i, vectors) : i;
      const int64_t from = c + v * lanes;
      if (v * lanes % quantumColumns == 0) scale = row.scaleOf(from);
      if (isLong) asm volatile("" ::: "memory");  // The compiler keeps this order of loads.
      const Vec some = v == vectors - 1 ? row.some(from, last, scale) : row.whole(from, scale);
      acc[v] = weighted ? fma(weight, some, acc[v]) : add(acc[v], some);
    }
  }
  if (next != nullptr) run->next = next;
  if (mean && count > 0) {
    const Vec length = broadcast(static_cast<float>(count));
    UNROLL for (int v = 0; v < vectors; v++) acc[v] = div(acc[v], length);
  }
  UNROLL for (int v = 0; v < vectors - 1; v++) storeFar(out + v * lanes, lanes, acc[v], far);
  storeFar(out + (vectors - 1) * lanes, last, acc[vectors - 1], far);
}

/// Pools bags of a table with one row block. A row of eight vectors, or a multiple, is summed in
/// groups of eight; another in groups of four, then a last group of `vectors`, 1 to 4. A group is a
/// pass over the ids, and only the first pass prefetches. `single`: every bag has one id. The
/// loop's inputs are copied to locals, so that its stores cannot alias them.
template <Precision precision, int vectors, bool weighted, bool single>
[[gnu::noinline]] static void poolPlain(const BagBlock& block, Run& run, Lookahead& lookahead) {
  const Table t = block.t;
  const int64_t columns = block.columns, bags = block.count;
  const bool mean = t.mean && !single, far = block.far;
  constexpr int group = vectors > 4 ? vectors : 4;
  const int64_t before = (t.dim - 1) / (group * lanes) * group * lanes;
  const int64_t last = t.dim - before - (vectors - 1) * lanes;
  const int32_t* const offsets = block.offsets;
  const int32_t* ids = block.ids + offsets[0];
  const float* weights = weighted ? block.weights + offsets[0] : nullptr;
  float* out = block.out;
  Run ahead = run;
  for (int64_t b = 0; b < bags; b++, out += columns) {
    const int64_t count = single ? 1 : offsets[b + 1] - offsets[b];
    Run* asked = &ahead;
    for (int64_t c = 0; c < before; c += group * lanes, asked = nullptr) {
      sumBag<precision, group, weighted>(out + c, t, c, ids, weights, count, mean, lanes, far,
                                         asked, lookahead);
    }
    sumBag<precision, vectors, weighted>(out + before, t, before, ids, weights, count, mean, last,
                                         far, asked, lookahead);
    ids += count;
    if (weighted) weights += count;
  }
  run = ahead;
}

INLINE bool bagsOfOne(const int32_t* offsets, int64_t count) {
  int32_t other = 0;
  for (int64_t b = 0; b < count; b++) other |= (offsets[b + 1] - offsets[b]) ^ 1;
  return other == 0;
}

template <Precision precision, bool weighted, bool single>
INLINE void poolPlain(const BagBlock& block, Run& run, Lookahead& lookahead) {
  switch ((block.t.dim - 1) / lanes % 8) {
    case 7: return poolPlain<precision, 8, weighted, single>(block, run, lookahead);
    case 0:
    case 4: return poolPlain<precision, 1, weighted, single>(block, run, lookahead);
    case 1:
    case 5: return poolPlain<precision, 2, weighted, single>(block, run, lookahead);
    case 2:
    case 6: return poolPlain<precision, 3, weighted, single>(block, run, lookahead);
    default: return poolPlain<precision, 4, weighted, single>(block, run, lookahead);
  }
}

/// out += weight * row, over n columns.
inline void addWeighted(float* out, const float* row, float weight, int64_t n) {
  for (int64_t c = 0; c < n; c += lanes) {
    const int64_t some = left(n, c);
    const Vec sum = fma(broadcast(weight), loadSome(row + c, some), loadSome(out + c, some));
    storeSome(out + c, some, sum);
  }
}

/// Computes the moving average of a row, in scratch.
[[gnu::noinline]] static const float* averageOf(const Table& t, int64_t row, float* decoded) {
  float* average = scratches().averaged.take<float>(t.dim);
  const float *w = rowWeights(t, row, decoded), *lag = t.stateOf(row);
  const Vec share = broadcast(t.rule.average.shareOf(lag[t.stateWidth - 1]));
  for (int64_t c = 0; c < t.dim; c += lanes) {
    const int64_t some = left(t.dim, c);
    storeSome(average + c, some, fma(share, loadSome(lag + c, some), loadSome(w + c, some)));
  }
  return average;
}

/// The tree over the row blocks of one bag. Its one idea: a node without an id is +0, and adding +0
/// changes nothing but a -0, so only blocks with ids are cleared and added.
struct BlockTree {
  int64_t blocks, dim;
  float* sums;   // (blocks, dim): the sums of blocks with ids
  float** node;  // (blocks): the sum of the subtree that begins at a block; nullptr: no id

  void clear() { std::memset(node, 0, blocks * sizeof(*node)); }

  /// The sum of a block, to which a row is added.
  float* sumOf(int64_t block) {
    float* sum = sums + block * dim;
    if (node[block] == nullptr) {
      std::memset(sum, 0, dim * sizeof(float));
      node[block] = sum;
    }
    return sum;
  }

  /// The root, or nullptr if the bag is empty. `whole`: whether every block has an id.
  const float* fold(bool& whole) {
    whole = true;
    for (int64_t block = 0; block < blocks; block++) whole &= node[block] != nullptr;
    for (int64_t half = 1; half < blocks; half *= 2) {
      for (int64_t at = 0; at < blocks; at += 2 * half) {
        float* right = node[at + half];
        if (right == nullptr) continue;
        if (node[at] == nullptr) node[at] = right;
        else addRow(node[at], right, dim);
      }
    }
    return node[0];
  }
};

/// Pools each bag as a tree over row blocks, each a sum in bag order. With `averaged`, pools the
/// rows' moving averages.
[[gnu::noinline]] static void poolBlocks(const BagBlock& block, Run& run, Lookahead& lookahead) {
  const Table& t = block.t;
  BlockTree tree{t.blocks, t.dim, scratches().fold.take<float>(t.blocks * t.dim),
                 scratches().trees.take<float*>(t.blocks)};
  float* decoded = scratches().decoded.take<float>(t.dim);
  const uint32_t blockRows = static_cast<uint32_t>(t.blockRows);
  for (int64_t b = 0; b < block.count; b++) {
    const int64_t first = block.offsets[b], end = block.offsets[b + 1];
    tree.clear();
    for (int64_t k = first; k < end; k++) {
      ask(run, lookahead);
      const float* row = t.averaged ? averageOf(t, block.ids[k], decoded)
                                    : rowWeights(t, block.ids[k], decoded);
      const float weight = block.weights == nullptr ? 1 : block.weights[k];
      addWeighted(tree.sumOf(static_cast<uint32_t>(block.ids[k]) / blockRows), row, weight, t.dim);
    }
    float* out = block.out + b * block.columns;
    bool whole = false;
    const float* sum = tree.fold(whole);
    if (sum == nullptr) {
      std::memset(out, 0, t.dim * sizeof(float));
      continue;
    }
    const float others = whole ? -0.0f : 0.0f;  // blocks without ids
    const float length = t.mean ? static_cast<float>(end - first) : 1;
    for (int64_t c = 0; c < t.dim; c++) out[c] = (sum[c] + others) / length;
  }
}

inline void pool(float* out, const Table* tables, const Bags& bags, int64_t first, int64_t count,
                 int64_t columns) {
  const int64_t end = first + count;
  const bool far = count * columns > farFloats;
  Lookahead lookahead{tables, bags, end, first};
  Run run = lookahead.follow();
  for (int64_t k = 0; k < prefetchAhead; k++) ask(run, lookahead);
  for (int64_t sample = first; sample < end; sample += poolSamples) {
    const int64_t samples = end - sample < poolSamples ? end - sample : poolSamples;
    for (int64_t index = 0; index < bags.tables; index++) {
      const Table& t = tables[index];
      const int32_t* offsets = bags.offsets + index * bags.samples + sample;
      float* pooled = out + (sample - first) * columns + t.column;
      const bool single = bags.weights == nullptr && bagsOfOne(offsets, samples);
      const BagBlock block{t, bags.ids, bags.weights, offsets, samples, pooled, columns, far};
      withPrecision(t.precision, [&](auto precision) INLINE_LAMBDA {
        // The tree of a single row is the row, plus +0.
        const bool plain = !t.averaged && (t.blocks == 1 || single);
        if (!plain) poolBlocks(block, run, lookahead);
        else if (bags.weights != nullptr) poolPlain<precision, true, false>(block, run, lookahead);
        else if (single) poolPlain<precision, false, true>(block, run, lookahead);
        else poolPlain<precision, false, false>(block, run, lookahead);
      });
    }
  }
  endFar();
}
