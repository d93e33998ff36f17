// Dense layers: products with bias and ReLU, and weight gradients over the tree of slices. Included
// by dense/dense.cc for each instruction set.

/// A layer. With a single output it computes the transposed product, with samples as columns, as
/// otherwise only one lane of each vector would be used.
template <typename Format>
void layer(float* out, const float* x, const float* w, const float* b, int64_t samples,
           int64_t inputs, int64_t outputs, bool relu) {
  if (outputs != 1) {
    product<Format>(out, {x, inputs, 1}, {w, 1, inputs}, b, relu, samples, outputs, inputs);
    return;
  }
  float* starts = scratches().starts.take<float>(samples);
  for (int64_t s = 0; s < samples; s++) starts[s] = b[0];
  product<Format>(out, {w, inputs, 1}, {x, 1, inputs}, starts, relu, 1, samples, inputs);
}

inline void linear(float* out, const float* x, const float* w, const float* b, int64_t samples,
                   int64_t inputs, int64_t outputs, bool relu) {
  layer<Float32>(out, x, w, b, samples, inputs, outputs, relu);
}

inline void dRelu(float* d, const float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) d[i] = out[i] > 0 ? d[i] : 0;
}

inline void dLinearInput(float* dX, const float* dOut, const float* w, int64_t samples,
                         int64_t inputs, int64_t outputs, const Addends& plus,
                         Optional<const float> above) {
  product<Float32>(dX, {dOut, outputs, 1}, {w, inputs, 1}, nullptr, false, samples, inputs,
                   outputs, plus, above);
}

/// Some outputs of a layer: first .. end-1 of `all`.
struct Outputs {
  int64_t first, end, all;
};

/// A block of samples, which are the k of a weight gradient: a slice, or a part of a long one.
struct SampleBlock {
  int64_t k0, depth;
  int64_t packed, packedDepth;  // their offset among the packed samples of all blocks, and number
  bool begins, ends;            // whether the block begins its slice, and ends it
  SlicePlan plan;               // of its slice
};

/// Blocks of samples that a tile takes one after the other: it then keeps the sums of short slices
/// in registers and in the first-level cache. Their packed samples are adjacent in each panel.
struct SampleRun {
  const SampleBlock *first, *end;

  int64_t k0() const { return first->k0; }
  int64_t depth() const { return end[-1].k0 + end[-1].depth - first->k0; }
  int64_t packedDepth() const { return end[-1].packed + end[-1].packedDepth - first->packed; }
  /// Samples from one panel of packed gradients to the next.
  int64_t panelDepth() const { return packedDepth() + panelGap; }
};

/// Lists the sample blocks of all slices, in order, at least one per slice, and their runs of at
/// most `Format::blockK` samples. Returns the number of runs.
template <typename Format>
int64_t sampleRuns(SampleRun* runs, SampleBlock* blocks, const Slices& slices,
                   const SlicePlan* plan) {
  SampleBlock* block = blocks;
  int64_t count = 0, packed = 0;
  for (int64_t s = 0; s < slices.count; s++) {
    const int64_t begin = slices.bounds[s], end = slices.bounds[s + 1];
    int64_t k0 = begin;
    do {
      const int64_t depth = end - k0 < Format::blockK ? end - k0 : Format::blockK;
      if (count == 0 || k0 + depth - runs[count - 1].k0() > Format::blockK) {
        if (count > 0) packed += panelGap;
        runs[count++].first = block;
      }
      *block++ = {k0, depth, packed, Format::packed(depth), k0 == begin, k0 + depth == end,
                  plan[s]};
      runs[count - 1].end = block;
      packed += Format::packed(depth);
      k0 += depth;
    } while (k0 < end);
  }
  return count;
}

/// Calls pack(k0, depth, offset) for samples of a run that are packed together, with the offset of
/// their packed samples.
template <typename Format, typename Pack>
INLINE void packRun(const SampleRun& run, Pack pack) {
  if (Format::together == 1) return pack(run.k0(), run.depth(), int64_t{0});
  for (const SampleBlock* block = run.first; block != run.end; block++) {
    pack(block->k0, block->depth, block->packed - run.first->packed);
  }
}

/// sums += the samples of `count` panels of gradients, in order. `columns`: from the first one on.
/// Returns `count`.
template <int count>
INLINE int addPanels(float* sums, const Panels& from, int64_t first, int64_t depth,
                      int64_t columns) {
  constexpr int vectors = panelRows / lanes;
  Vec sum[count][vectors];
  loadRows(sum, sums, panelRows, lanes);
  const float* p = from.p + first * from.next;
  for (int64_t k = 0; k < depth; k++, p += from.step) {
    UNROLL for (int i = 0; i < count; i++) {
      UNROLL for (int v = 0; v < vectors; v++) {
        const int64_t at = i * panelRows + v * lanes;
        const int64_t n = i < count - 1 ? lanes : left(columns, at);
        sum[i][v] = add(sum[i][v], loadUpTo(p + i * from.next + v * lanes, n));
      }
    }
  }
  storeRows(sums, panelRows, sum, lanes);
  return count;
}

/// The bias gradient of a block of outputs: sums the output gradients of a run of samples, here
/// because packing has just brought them into a cache. The sum of a subtree of samples is written
/// to dB once its last sample is added. `sums`: packedM floats for the sums, and for each slot of
/// the tree.
inline void sumPanels(float* sums, Panels panels, int64_t rows, const SampleRun& run,
                      float* const* dB, int64_t i0) {
  float* const waiting = sums + packedM;
  const int64_t height = panels.height, count = (rows + height - 1) / height;
  // A panel that is not packed may be followed by memory of others.
  const int64_t columns = height < panelRows ? count * panelRows : rows;
  for (const SampleBlock* block = run.first; block != run.end; block++) {
    if (block->begins) std::memset(sums, 0, packedM * sizeof(float));
    for (int64_t i = 0; i < count;) {
      float* const to = sums + i * panelRows;
      const int64_t rest = columns - i * panelRows, depth = block->depth;
      i += count - i >= 6   ? addPanels<6>(to, panels, i, depth, rest)
           : count - i >= 2 ? addPanels<2>(to, panels, i, depth, rest)
                            : addPanels<1>(to, panels, i, depth, rest);
    }
    panels.p += block->depth * panels.step;
    if (!block->ends) continue;
    const SlicePlan& p = block->plan;
    for (int64_t i = p.lefts - 1; i >= 0; i--) {
      addRow(sums, waiting + (p.slot + i) * packedM, packedM);
    }
    if (!p.last) std::memcpy(waiting + p.slot * packedM, sums, packedM * sizeof(float));
    for (int64_t r = 0; p.last && r < rows; r += height) {
      const int64_t some = rows - r < height ? rows - r : height;
      std::memcpy(dB[p.subtree] + i0 + r, sums + r / height * panelRows, some * sizeof(float));
    }
  }
}

/// A tile of a weight gradient.
struct FoldedTile {
  SampleRun run;
  /// What waits for later samples, each in a whole tile, `slotStep` apart: the sum of an unfinished
  /// slice, then the slots of the tree over slices.
  float* waiting;
  int64_t slotStep;
  float* const* dW;
  int64_t at, stride;  // offset of the tile in each dW, and floats from a row to the next
  int64_t columns;
  Coming coming;
};

/// Whether a tile of half the rows holds the sums of two slices, and adds them, in registers. With
/// AVX2 its products would wait for each other, and changes of the processor's mode move all sums.
template <typename Format>
constexpr bool holdsPairs = lanes == 16 && !Format::flushed;

/// Adds the samples of a run to a tile, and folds the slices that end in it.
template <typename Format, int rows, int vectors>
INLINE void foldRun(FoldedTile& t, const float* a, int64_t stepA, const float* b,
                    int64_t stepB) {
  const int64_t last = t.columns - (vectors - 1) * lanes;
  const auto multiply = [&](Vec (&acc)[rows][vectors], const SampleBlock& block) INLINE_LAMBDA {
    Format::Tiles::template multiply<1>(acc, block.packedDepth, a, stepA, b, stepB,
                                        Format::flushed, t.coming);
    a += block.packedDepth * stepA;
    b += block.packedDepth * stepB;
  };
  Vec acc[rows][vectors];
  for (const SampleBlock* block = t.run.first; block != t.run.end; block++) {
    if (block->begins) clear(acc);
    else loadRows(acc, t.waiting, tileColumns, lanes);
    multiply(acc, *block);
    int64_t lefts = block->plan.lefts;
    if constexpr (holdsPairs<Format> && rows * vectors <= tileRows) {
      const SampleBlock* const next = block + 1;
      if (block->begins && next != t.run.end && next->ends && next->plan.lefts > 0) {
        Vec right[rows][vectors];
        clear(right);
        multiply(right, *next);
        UNROLL for (int m = 0; m < rows; m++) {
          UNROLL for (int v = 0; v < vectors; v++) acc[m][v] = add(acc[m][v], right[m][v]);
        }
        lefts = next->plan.lefts - 1;
        block = next;
      }
    }
    if (!block->ends) {
      storeRows(t.waiting, tileColumns, acc, lanes);
      continue;
    }
    const SlicePlan& p = block->plan;
    float* const slot = t.waiting + (p.slot + 1) * t.slotStep;
    for (int64_t i = lefts - 1; i >= 0; i--) {
      addRows(acc, slot + i * t.slotStep, tileColumns, lanes);
    }
    if (!p.last) storeRows(slot, tileColumns, acc, lanes);
    else if (last == lanes) storeRows(t.dW[p.subtree] + t.at, t.stride, acc, lanes);
    else storeRows(t.dW[p.subtree] + t.at, t.stride, acc, last);
  }
}

/// `foldRun`; with AVX2, known steps are found once a run instead of once a slice.
template <typename Format, int rows, int vectors>
void foldedTile(FoldedTile& t, const float* a, int64_t stepA, const float* b,
                int64_t stepB) {
  if (lanes == 8 && stepA == panelStep && stepB == tileColumns) {
    foldRun<Format, rows, vectors>(t, a, panelStep, b, tileColumns);
  } else {
    foldRun<Format, rows, vectors>(t, a, stepA, b, stepB);
  }
}

template <typename Format>
struct FoldedTiles {
  template <int rows, int vectors>
  static constexpr auto run = foldedTile<Format, rows, vectors>;
};

/// `foldedTile` for a block of dW (m,n). `t` is the first tile; `step`: floats from what waits of a
/// tile to that of the next.
template <typename Format>
void foldedTiles(FoldedTile t, int64_t m, int64_t n, const Panels& a, const Panels& b,
                 int64_t step) {
  const SampleBlock& end = t.run.end[-1];
  // Memory of dW that is written only in a later run is not prefetched.
  const float* const written =
      end.ends && end.plan.last ? t.dW[end.plan.subtree] + t.at : nullptr;
  t.coming.tensors = &written;
  t.coming.count = 1;
  const int64_t at = t.at;
  // Memory for what waits is allotted to tiles of whole height. Long slices gain nothing.
  const int64_t blocks = t.run.end - t.run.first;
  const bool isShort = blocks > 1 && t.run.depth() <= 64 * blocks;
  const bool hasPairs = holdsPairs<Format> && step == 0 && isShort;
  // Of x in place, too, tiles read whole vectors. Where the last vector would exceed its row, the
  // last tile ends with the row instead: some columns are computed twice, with the same bits.
  const bool isInPlace = b.height == 1;
  const int64_t fit = isInPlace ? t.stride / lanes : Format::widest;
  const int64_t width = (fit < Format::widest ? fit : Format::widest) * lanes;
  for (int64_t j = 0; j < n; j += width) {
    const int64_t rest = n - j < width ? n - j : width;
    const int64_t vectors = (rest + lanes - 1) / lanes;
    t.columns = isInPlace ? vectors * lanes : rest;
    const int64_t column = j + rest - t.columns;
    const bool isHalved = hasPairs && vectors == 2 && a.height == tileRows;
    const int64_t height = isHalved ? tileRows / 2 : a.height;
    const float* const panel = b.p + column / b.height * b.next;
    for (int64_t i = 0; i < m; i += height, t.waiting += step) {
      const int64_t rows = m - i < height ? m - i : height;
      t.at = at + i * t.stride + column;
      if (!spreadsLines) t.coming.operands->askRow();
      if (written != nullptr) {
        t.coming.tile = LaterTile(i, j, m, n, height).of(written, t.stride);
        if (!spreadsLines) t.coming.tile.askAll();
      }
      using Tiles = FoldedTiles<Format>;
      const auto tile = pickTile<Tiles, Format::tallest, Format::widest>(rows, vectors);
      tile(t, a.p + i / a.height * a.next + i % a.height, a.step, panel, b.step);
    }
  }
}

/// dW[p] = dOut^T x and dB[p] for each subtree p and some outputs. The tree over slices is folded
/// tile by tile, in the first-level cache where one run has all samples, else in the second-level
/// cache for a block of dW. Both operands are packed once per `panelledColumns` columns of x, and
/// are read from the third-level cache.
template <typename Format>
void outputsProduct(float* const* dW, float* const* dB, const float* dOut, const float* x,
                    int64_t inputs, const Outputs& outputs, const Slices& slices) {
  constexpr int64_t blockColumns = 256, panelledColumns = lanes == 8 ? 512 : 1024;
  constexpr int64_t tileSize = tileRows * tileColumns;
  const int64_t own = outputs.end - outputs.first;
  const int64_t samples = slices.bounds[slices.count] - slices.bounds[0];
  SlicePlan* plan = scratches().trees.take<SlicePlan>(slices.count);
  planSlices(plan, slices);
  const int64_t blocksMax = slices.count + samples / Format::blockK;
  SampleBlock* blocks = scratches().blocks.take<SampleBlock>(blocksMax);
  SampleRun* runs = scratches().runs.take<SampleRun>(blocksMax);
  const int64_t count = sampleRuns<Format>(runs, blocks, slices, plan);
  const int64_t packed = runs[count - 1].first->packed + runs[count - 1].panelDepth();
  int64_t slots = 1;
  while (slices.count >> slots > 0) slots++;
  // With few outputs, packed operands would be used only once or twice, so they are read unpacked.
  const bool isPacked = Format::together > 1 || own > 2 * tileRows || inputs < lanes;
  // So are output gradients with few inputs: each would be used by one tile.
  const bool packsA = isPacked && (Format::together > 1 || inputs > tileColumns);
  const int64_t tiles = (own + tileRows - 1) / tileRows;
  const int64_t height = isPacked ? tileRows : (own + tiles - 1) / tiles;
  // The tiles of a block follow each other, and the slots of a tile do not lie in one cache set.
  const int64_t tileStep = count == 1 ? 0 : tileSize;
  const int64_t blockTiles = (blockM + height - 1) / height * (blockColumns / tileColumns);
  const int64_t slotStep = tileSize + tileStep * blockTiles;
  float* waiting = scratches().tiles.take<float>((slots + 1) * (slotStep + packedM));
  float* const sums = waiting + (slots + 1) * slotStep;
  const int64_t columnsMax = inputs < panelledColumns ? inputs + tileColumns : panelledColumns;
  // If there are several blocks of columns, the packed A of all samples is kept for them; for a
  // single block, each run reuses the same memory, which stays in cache.
  const bool isKept = inputs > blockColumns;
  float* packedA = scratches().packedA.take<float>(packsA ? packed * packedM : 0);
  float* packedB = scratches().batch.take<float>(isPacked ? packed * columnsMax : 0);
  const auto panelsOfX = [&](const SampleRun& run, int64_t columns) {
    const int64_t padded = (columns + tileColumns - 1) / tileColumns * tileColumns;
    return packedB + run.first->packed * padded;
  };
  // Without inputs there is one empty block, for the bias gradient.
  for (int64_t n0 = 0; n0 == 0 || n0 < inputs; n0 += panelledColumns) {
    const int64_t width = inputs - n0 < panelledColumns ? inputs - n0 : panelledColumns;
    for (int64_t i = 0; isPacked && i < count; i++) {
      packRun<Format>(runs[i], [&](int64_t k0, int64_t depth, int64_t offset) {
        packB<Format>(panelsOfX(runs[i], width) + offset * tileColumns, {x, inputs, 1}, k0, depth,
                      n0, width, runs[i].packedDepth());
      });
    }
    for (int64_t i0 = outputs.first; i0 < outputs.end; i0 += blockM) {
      const int64_t rows = outputs.end - i0 < blockM ? outputs.end - i0 : blockM;
      for (int64_t j0 = 0; j0 == 0 || j0 < width; j0 += blockColumns) {
        const int64_t columns = width - j0 < blockColumns ? width - j0 : blockColumns;
        const int64_t column = n0 + j0;
        for (int64_t i = 0; i < count; i++) {
          const SampleRun& run = runs[i];
          const int64_t depth = run.panelDepth();
          const float* const gradients = dOut + run.k0() * outputs.all + i0;
          Panels ofA{gradients, outputs.all, height, height};
          Panels ofB{x + run.k0() * inputs + column, inputs, 1, 1};
          ComingRows coming;
          if (packsA) {
            float* panels = packedA + (isKept ? run.first->packed * packedM : 0);
            ofA = panelsOfA(panels, false, depth);
            if (j0 == 0) {
              packRun<Format>(run, [&](int64_t k0, int64_t some, int64_t offset) {
                packA<Format>(panels + offset * panelStep, {dOut, 1, outputs.all}, i0, rows, k0,
                              some, depth);
              });
              // Prefetches the gradients to pack next: of the next run of samples, or, after the
              // last run, of the next block of outputs.
              const int64_t to = i + 1 < count ? i0 : i0 + blockM;
              const SampleRun& next = runs[(i + 1) % count];
              const int64_t some = outputs.end - to < blockM ? outputs.end - to : blockM;
              coming = {dOut + next.k0() * outputs.all + to, next.depth(), outputs.all, some + 16};
            }
          }
          const int64_t k = run.packedDepth();
          if (isPacked) ofB = panelsOfB(panelsOfX(run, width) + j0 * k, k);
          if (j0 == 0 && n0 == 0) {
            // dB sums unrounded gradients, which a format that converts does not pack.
            const Panels inPlace{gradients, outputs.all, panelRows, panelRows};
            sumPanels(sums, packsA && !Format::converts ? ofA : inPlace, rows, run, dB, i0);
          }
          foldedTiles<Format>({run, waiting, slotStep, dW, i0 * inputs + column, inputs, 0,
                               {&coming}},
                              rows, columns, ofA, ofB, tileStep);
        }
      }
    }
  }
}

/// `outputsProduct` of all outputs, in parts of some outputs each.
template <typename Format>
void weightProduct(float* const* dW, float* const* dB, const float* dOut, const float* x,
                   int64_t inputs, int64_t outputs, const Slices& slices) {
  const int64_t samples = slices.bounds[slices.count] - slices.bounds[0];
  const int64_t tiles = (outputs + tileRows - 1) / tileRows;
  const int64_t parts = partsOf(0.02 * samples * inputs * outputs, tiles / 2);
  inParts(parts, [&](int64_t part) {
    const int64_t first = tiles * part / parts * tileRows;
    const int64_t next = tiles * (part + 1) / parts * tileRows;
    const int64_t end = next < outputs ? next : outputs;
    outputsProduct<Format>(dW, dB, dOut, x, inputs, {first, end, outputs}, slices);
  });
}

inline void dLinearWeight(float* const* dW, float* const* dB, const float* dOut, const float* x,
                          int64_t inputs, int64_t outputs, const Slices& slices) {
  weightProduct<Float32>(dW, dB, dOut, x, inputs, outputs, slices);
}
