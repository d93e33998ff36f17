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

/// Column sums of dOut over the tree of slices, for `vectors` vectors of columns from `first` on.
template <int vectors>
void sumColumns(float* const* dB, const float* dOut, int64_t first, const Outputs& outputs,
                const Slices& slices, const SlicePlan* plan) {
  Vec stack[32][vectors];
  for (int64_t s = 0; s < slices.count; s++) {
    Vec sum[vectors];
    UNROLL for (int v = 0; v < vectors; v++) sum[v] = zero();
    for (int64_t b = slices.bounds[s]; b < slices.bounds[s + 1]; b++) {
      const float* row = dOut + b * outputs.all + first;
      UNROLL for (int v = 0; v < vectors; v++) {
        sum[v] = add(sum[v], loadSome(row + v * lanes, left(outputs.end, first + v * lanes)));
      }
    }
    const SlicePlan& p = plan[s];
    UNROLL for (int v = 0; v < vectors; v++) {
      const int64_t c = first + v * lanes;
      for (int64_t i = p.lefts - 1; i >= 0; i--) sum[v] = add(stack[p.slot + i][v], sum[v]);
      if (p.last) storeSome(dB[p.subtree] + c, left(outputs.end, c), sum[v]);
      else stack[p.slot][v] = sum[v];
    }
  }
}

/// dB = column sums of dOut, eight vectors at a time, as longer contiguous reads are faster.
inline void dBias(float* const* dB, const float* dOut, const Outputs& outputs,
                  const Slices& slices, const SlicePlan* plan) {
  int64_t first = outputs.first;
  for (; outputs.end - first > 4 * lanes; first += 8 * lanes) {
    sumColumns<8>(dB, dOut, first, outputs, slices, plan);
  }
  for (; outputs.end - first > lanes; first += 4 * lanes) {
    sumColumns<4>(dB, dOut, first, outputs, slices, plan);
  }
  if (first < outputs.end) sumColumns<1>(dB, dOut, first, outputs, slices, plan);
}

/// A block of samples, which are the k of a weight gradient: part of one slice.
struct SampleBlock {
  int64_t slice, k0, depth;
  int64_t packed;       // offset among the packed samples of all blocks
  int64_t packedDepth;  // number of packed samples

  /// Samples from one panel of packed gradients to the next.
  int64_t panelDepth() const { return packedDepth + panelGap; }
};

/// Lists the sample blocks of all slices, in order, at least one per slice. Returns their number.
template <typename Format>
int64_t sampleBlocks(SampleBlock* blocks, const Slices& slices) {
  int64_t count = 0, packed = 0;
  for (int64_t s = 0; s < slices.count; s++) {
    const int64_t end = slices.bounds[s + 1];
    int64_t k0 = slices.bounds[s];
    do {
      const int64_t depth = end - k0 < Format::blockK ? end - k0 : Format::blockK;
      blocks[count++] = {s, k0, depth, packed, Format::packed(depth)};
      packed += Format::packed(depth) + panelGap;
      k0 += depth;
    } while (k0 < end);
  }
  return count;
}

/// The gradients of sample block `i` from output `i0` on, to prefetch; after the last block, the
/// first block of the next outputs.
inline ComingRows comingGradients(const float* dOut, const Outputs& outputs, int64_t i0,
                                  const SampleBlock* blocks, int64_t count, int64_t i) {
  if (i == count) return comingGradients(dOut, outputs, i0 + blockM, blocks, count, 0);
  const int64_t rows = outputs.end - i0 < blockM ? outputs.end - i0 : blockM;
  const float* from = dOut + blocks[i].k0 * outputs.all + i0;
  return {from, rows > 0 ? blocks[i].depth : 0, outputs.all, rows};
}

/// sums (packedM) += the samples of `count` panels of packed gradients, in order. `next`: floats
/// from one panel to the next.
template <int count>
INLINE void addPanels(float* sums, const float* panels, int64_t depth, int64_t next) {
  constexpr int vectors = panelRows / lanes;
  Vec sum[count][vectors];
  loadRows(sum, sums, panelRows, lanes);
  for (int64_t k = 0; k < depth; k++) {
    UNROLL for (int i = 0; i < count; i++) {
      const float* panel = panels + i * next + k * panelRows;
      UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = add(sum[i][v], load(panel + v * lanes));
    }
  }
  UNROLL for (int i = 0; i < count; i++) {
    UNROLL for (int v = 0; v < vectors; v++) store(sums + i * panelRows + v * lanes, sum[i][v]);
  }
}

/// Column sums of a block of outputs, computed from its packed gradients while they are in a cache.
/// The bits are those of `sumColumns`.
class PackedSums {
 public:
  /// `memory`: packedM floats for the sums, and packedM for each slot of the tree.
  explicit PackedSums(float* memory) : sums_(memory), waiting_(memory + packedM) {}

  void beginSlice() { std::memset(sums_, 0, packedM * sizeof(float)); }

  void addBlock(const float* panels, int64_t rows, const SampleBlock& block) {
    const int64_t count = (rows + tileRows - 1) / tileRows;
    const int64_t next = panelRows * block.panelDepth();
    int64_t i = 0;
    for (; i + 6 <= count; i += 6) {
      addPanels<6>(sums_ + i * panelRows, panels + i * next, block.depth, next);
    }
    for (; i < count; i++) {
      addPanels<1>(sums_ + i * panelRows, panels + i * next, block.depth, next);
    }
  }

  /// Ends a slice: writes the sums of `rows` outputs to `out` if they finish a subtree, else keeps
  /// them for their right neighbour in the tree.
  void endSlice(const SlicePlan& p, float* out, int64_t rows) {
    for (int64_t i = p.lefts - 1; i >= 0; i--) {
      const float* left = waiting_ + (p.slot + i) * packedM;
      for (int64_t c = 0; c < packedM; c += lanes) {
        store(sums_ + c, add(load(left + c), load(sums_ + c)));
      }
    }
    if (!p.last) {
      std::memcpy(waiting_ + p.slot * packedM, sums_, packedM * sizeof(float));
      return;
    }
    for (int64_t r = 0; r < rows; r += tileRows) {
      const int64_t some = rows - r < tileRows ? rows - r : tileRows;
      std::memcpy(out + r, sums_ + r / tileRows * panelRows, some * sizeof(float));
    }
  }

 private:
  float *sums_, *waiting_;
};

/// dW[p] = dOut^T x and dB[p] for each subtree p and some outputs. A block of dW stays in the
/// second-level cache while the tree over slices is folded, tile by tile. Both operands are packed
/// once per `blockN` columns of x, and are read from the third-level cache.
template <typename Format>
void outputsProduct(float* const* dW, float* const* dB, const float* dOut, const float* x,
                    int64_t inputs, const Outputs& outputs, const Slices& slices) {
  constexpr int64_t blockColumns = 256;
  constexpr int64_t slotSize = blockM * blockColumns;
  const int64_t own = outputs.end - outputs.first;
  const int64_t samples = slices.bounds[slices.count] - slices.bounds[0];
  SlicePlan* plan = scratches().trees.take<SlicePlan>(slices.count);
  planSlices(plan, slices);
  const int64_t blocksMax = slices.count + samples / Format::blockK;
  SampleBlock* blocks = scratches().blocks.take<SampleBlock>(blocksMax);
  const int64_t count = sampleBlocks<Format>(blocks, slices);
  const int64_t packed = blocks[count - 1].packed + blocks[count - 1].panelDepth();
  int64_t slots = 1;
  while (slices.count >> slots > 0) slots++;
  float* unfinished = scratches().tiles.take<float>((slots + 1) * (slotSize + packedM));
  float* waiting = unfinished + slotSize;
  PackedSums sums(waiting + slots * slotSize);
  // With few outputs, packed operands would be used only once or twice, so they are read unpacked.
  const bool isPacked = Format::together > 1 || own > 2 * tileRows || inputs % lanes != 0;
  // dB sums unrounded gradients, so it cannot use the packed ones of a format that converts.
  const bool sumsPacked = isPacked && !Format::converts && inputs > 0;
  if (!sumsPacked) dBias(dB, dOut, outputs, slices, plan);
  const int64_t tiles = (own + tileRows - 1) / tileRows;
  const int64_t height = isPacked ? tileRows : (own + tiles - 1) / tiles;
  const int64_t columnsMax = inputs < blockN ? inputs + tileColumns : blockN;
  // If there are several blocks of columns, the packed A of all samples is kept for them; for a
  // single block, each sample block reuses the same memory, which stays in cache.
  const bool isKept = inputs > blockColumns;
  float* packedA = scratches().packedA.take<float>(isPacked ? packed * packedM : 0);
  float* packedB = scratches().batch.take<float>(isPacked ? packed * columnsMax : 0);
  const auto panelsOfX = [&](const SampleBlock& block, int64_t columns) {
    const int64_t padded = (columns + tileColumns - 1) / tileColumns * tileColumns;
    return packedB + block.packed * padded;
  };
  for (int64_t n0 = 0; n0 < inputs; n0 += blockN) {
    const int64_t width = inputs - n0 < blockN ? inputs - n0 : blockN;
    for (int64_t i = 0; isPacked && i < count; i++) {
      const SampleBlock& block = blocks[i];
      packB<Format>(panelsOfX(block, width), {x, inputs, 1}, block.k0, block.depth, n0, width);
    }
    for (int64_t i0 = outputs.first; i0 < outputs.end; i0 += blockM) {
      const int64_t rows = outputs.end - i0 < blockM ? outputs.end - i0 : blockM;
      for (int64_t j0 = 0; j0 < width; j0 += blockColumns) {
        const int64_t columns = width - j0 < blockColumns ? width - j0 : blockColumns;
        const int64_t column = n0 + j0;
        for (int64_t i = 0; i < count; i++) {
          const SampleBlock& block = blocks[i];
          const SlicePlan& p = plan[block.slice];
          const bool begins = i == 0 || blocks[i - 1].slice != block.slice;
          const bool ends = i == count - 1 || blocks[i + 1].slice != block.slice;
          Panels ofA{dOut + block.k0 * outputs.all + i0, outputs.all, height, height};
          Panels ofB{x + block.k0 * inputs + column, inputs, tileColumns};
          if (isPacked) {
            float* panels = packedA + (isKept ? block.packed * packedM : 0);
            ofA = panelsOfA(panels, false, block.panelDepth());
            if (j0 == 0) {
              packA<Format>(panels, {dOut, 1, outputs.all}, i0, rows, block.k0, block.depth,
                            block.panelDepth());
              if (sumsPacked && n0 == 0) {
                if (begins) sums.beginSlice();
                sums.addBlock(panels, rows, block);
                if (ends) sums.endSlice(p, dB[p.subtree] + i0, rows);
              }
            }
            ofB = panelsOfB(panelsOfX(block, width) + j0 * block.packedDepth, block.packedDepth);
          }
          ComingRows coming;
          if (isPacked && j0 == 0) {
            coming = comingGradients(dOut, outputs, i0, blocks, count, i + 1);
          }
          Tile t{};
          t.coming.operands = &coming;
          t.c = unfinished;
          t.stride = blockColumns;
          if (!begins) {
            t.resumed = unfinished;
            t.resumedStride = blockColumns;
          }
          if (ends) {
            for (int64_t l = 0; l < p.lefts; l++) {
              t.lefts[l] = waiting + (p.slot + p.lefts - 1 - l) * slotSize;
            }
            t.leftCount = p.lefts;
            t.leftStride = blockColumns;
            t.c = p.last ? dW[p.subtree] + i0 * inputs + column : waiting + p.slot * slotSize;
            t.stride = p.last ? inputs : blockColumns;
          }
          blockTiles<Format>(t, rows, columns, block.packedDepth, ofA, ofB);
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
