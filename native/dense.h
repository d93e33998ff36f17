// Dense layers: products with bias and ReLU, and weight gradients over the tree of slices. Included
// once for each instruction set.

/// A layer of one output has samples for columns: only one lane of a vector of outputs would work.
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
                         int64_t inputs, int64_t outputs) {
  product<Float32>(dX, {dOut, outputs, 1}, {w, inputs, 1}, nullptr, false, samples, inputs,
                   outputs);
}

/// Where slice `i` of a call stands in its subtree, and what becomes of its sum.
struct SlicePlan {
  int64_t subtree;  // which output
  bool last;        // its sum finishes the subtree
  int64_t slot;     // else where it waits, in a stack of finished left neighbours
  int64_t lefts;    // how many of the stack's top it takes up first
  int64_t packed;   // where its packed samples begin
};

inline int64_t planSlices(SlicePlan* plan, const Slices& slices) {
  int64_t subtree = 0;
  for (int64_t at = 0; at < slices.count; subtree++) {
    const int64_t first = slices.first + at;
    int64_t count = 1;
    while (first % (count * 2) == 0 && at + count * 2 <= slices.count) count *= 2;
    for (int64_t i = 0; i < count; i++, at++) {
      const int64_t lefts = __builtin_ctzll(~static_cast<uint64_t>(i));
      const int64_t waiting = __builtin_popcountll(static_cast<uint64_t>(i));
      plan[at] = {subtree, i == count - 1, waiting - lefts, lefts, 0};
    }
  }
  return subtree;
}

/// dB = column sums of dOut, four vectors of columns at a time.
inline void dBias(float* const* dB, const float* dOut, int64_t outputs, const Slices& slices,
                  const SlicePlan* plan) {
  constexpr int vectors = 4;
  for (int64_t j = 0; j < outputs; j += vectors * lanes) {
    Vec stack[64][vectors];
    for (int64_t s = 0; s < slices.count; s++) {
      Vec sum[vectors];
      UNROLL for (int v = 0; v < vectors; v++) sum[v] = zero();
      for (int64_t b = slices.bounds[s]; b < slices.bounds[s + 1]; b++) {
        const float* row = dOut + b * outputs;
        UNROLL for (int v = 0; v < vectors; v++) {
          const int64_t c = j + v * lanes;
          sum[v] = add(sum[v], loadSome(row + c, left(outputs, c)));
        }
      }
      const SlicePlan& p = plan[s];
      UNROLL for (int v = 0; v < vectors; v++) {
        const int64_t c = j + v * lanes;
        for (int64_t i = p.lefts - 1; i >= 0; i--) sum[v] = add(stack[p.slot + i][v], sum[v]);
        if (p.last) storeSome(dB[p.subtree] + c, left(outputs, c), sum[v]);
        else stack[p.slot][v] = sum[v];
      }
    }
  }
}

/// Blocks of dW stay in the second cache while the tree over slices is folded, tile by tile.
template <typename Format>
void weightProduct(float* const* dW, float* const* dB, const float* dOut, const float* x,
                   int64_t inputs, int64_t outputs, const Slices& slices) {
  constexpr int64_t blockColumns = 256, blockK = Format::blockK;
  constexpr int64_t slotSize = blockM * blockColumns;
  const Operand a{dOut, 1, outputs};
  SlicePlan* plan = scratches().trees.take<SlicePlan>(slices.count);
  planSlices(plan, slices);
  dBias(dB, dOut, outputs, slices, plan);
  int64_t slots = 1;
  while (slices.count >> slots > 0) slots++;
  float* unfinished = scratches().tiles.take<float>((slots + 1) * slotSize);
  float* waiting = unfinished + slotSize;
  float* packedA = scratches().packedA.take<float>(blockM * stridedK);
  int64_t packed = 0;
  for (int64_t s = 0; s < slices.count; s++) {
    plan[s].packed = packed;
    packed += Format::packed(slices.bounds[s + 1] - slices.bounds[s]);
  }
  // Few outputs use what packing would copy only once or twice: they take it where it lies.
  const bool isPacked = Format::together > 1 || outputs > 2 * tileRows || inputs % lanes != 0;
  const int64_t tiles = (outputs + tileRows - 1) / tileRows;
  const int64_t height = isPacked ? tileRows : (outputs + tiles - 1) / tiles;
  float* packedB = scratches().batch.take<float>(isPacked ? packed * blockColumns : 0);
  for (int64_t j0 = 0; j0 < inputs; j0 += blockColumns) {
    const int64_t columns = inputs - j0 < blockColumns ? inputs - j0 : blockColumns;
    const int64_t padded = (columns + tileColumns - 1) / tileColumns * tileColumns;
    for (int64_t s = 0; isPacked && s < slices.count; s++) {
      const int64_t begin = slices.bounds[s], end = slices.bounds[s + 1];
      for (int64_t k0 = begin; k0 < end; k0 += blockK) {
        const int64_t depth = end - k0 < blockK ? end - k0 : blockK;
        float* panels = packedB + (plan[s].packed + Format::packed(k0 - begin)) * padded;
        packB<Format>(panels, {x, inputs, 1}, k0, depth, j0, columns);
      }
    }
    for (int64_t i0 = 0; i0 < outputs; i0 += blockM) {
      const int64_t rows = outputs - i0 < blockM ? outputs - i0 : blockM;
      for (int64_t s = 0; s < slices.count; s++) {
        const SlicePlan& p = plan[s];
        const int64_t begin = slices.bounds[s], end = slices.bounds[s + 1];
        int64_t k0 = begin;
        Tile t{};
        do {
          const int64_t depth = end - k0 < blockK ? end - k0 : blockK;
          const float* panels = packedB + (p.packed + Format::packed(k0 - begin)) * padded;
          const int64_t packedDepth = Format::packed(depth);
          Panels ofA{dOut + k0 * outputs + i0, outputs, 1, height};
          Panels ofB{x + k0 * inputs + j0, inputs, tileColumns};
          if (isPacked) {
            packA<Format>(packedA, a, i0, rows, k0, depth);
            ofA = panelsOfA(packedA, a.columnStep == 1);
            ofB = panelsOfB(panels, packedDepth);
          }
          k0 += depth;
          t.c = unfinished;
          t.stride = blockColumns;
          if (k0 == end) {
            for (int64_t i = 0; i < p.lefts; i++) {
              t.lefts[i] = waiting + (p.slot + p.lefts - 1 - i) * slotSize;
            }
            t.leftCount = p.lefts;
            t.leftStride = blockColumns;
            t.c = p.last ? dW[p.subtree] + i0 * inputs + j0 : waiting + p.slot * slotSize;
            t.stride = p.last ? inputs : blockColumns;
          }
          blockTiles<Format>(t, rows, columns, packedDepth, ofA, ofB);
          t.resumed = unfinished;
          t.resumedStride = blockColumns;
        } while (k0 < end);
      }
    }
  }
}

inline void dLinearWeight(float* const* dW, float* const* dB, const float* dOut, const float* x,
                          int64_t inputs, int64_t outputs, const Slices& slices) {
  weightProduct<Float32>(dW, dB, dOut, x, inputs, outputs, slices);
}
