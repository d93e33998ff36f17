// Layers with packed weights, for few samples, for which `product` would spend most of its time on
// packing. Included by dense/dense.cc for each instruction set.
//
// Weights (O,I) are packed as panels of 64 outputs: [panel][input][64], zeros beyond the last
// output. All instruction sets read the same panels. Each output is the same chain as in `product`,
// which begins with the bias and adds the inputs in ascending order, so the bits are equal.

constexpr int64_t packedOutputs = 64;
/// Samples of a tile of four vectors, which has as many accumulators as a tile of `product`.
constexpr int packedSamples = tileRows / 2;

inline void packLayer(float* out, const float* w, int64_t inputs, int64_t outputs) {
  for (int64_t j = 0; j < outputs; j += packedOutputs, out += packedOutputs * inputs) {
    const int64_t columns = outputs - j < packedOutputs ? outputs - j : packedOutputs;
    if (columns < packedOutputs) std::memset(out, 0, packedOutputs * inputs * sizeof(float));
    transpose(out, packedOutputs, w + j * inputs, inputs, columns, inputs);
  }
}

/// A tile of out (rows, columns), with rows `outputs` apart = x (rows, inputs) times columns of a
/// panel.
template <int rows, int vectors>
void packedTile(float* out, const float* x, const float* panel, const float* bias, int64_t inputs,
                int64_t outputs, int64_t columns, bool relu) {
  constexpr int64_t ahead = 16;
  const int64_t last = columns - (vectors - 1) * lanes;
  Vec acc[rows][vectors];
  loadRows(acc, bias, 0, last);
  for (int64_t p = 0; p < inputs; p++, panel += packedOutputs) {
    for (int64_t n = 0; n < vectors * lanes; n += 16) askSoon(panel + ahead * packedOutputs + n);
    Vec w[vectors];
    UNROLL for (int v = 0; v < vectors; v++) w[v] = load(panel + v * lanes);
    UNROLL for (int m = 0; m < rows; m++) stepRow(acc[m], x + m * inputs + p, w);
  }
  if (relu) {
    UNROLL for (int m = 0; m < rows; m++) {
      UNROLL for (int v = 0; v < vectors; v++) acc[m][v] = positive(acc[m][v]);
    }
  }
  storeRows(out, outputs, acc, last);
}

struct PackedTiles {
  template <int rows, int vectors>
  static constexpr auto run = packedTile<rows, vectors>;
};

/// `linear` with packed weights.
inline void linearPacked(float* out, const float* x, const float* packed, const float* b,
                         int64_t samples, int64_t inputs, int64_t outputs, bool relu) {
  for (int64_t j = 0; j < outputs;) {
    const int64_t inPanel = packedOutputs - j % packedOutputs;
    const int64_t most = 4 * lanes < inPanel ? 4 * lanes : inPanel;
    const int64_t columns = outputs - j < most ? outputs - j : most;
    const float* panel = packed + j / packedOutputs * packedOutputs * inputs + j % packedOutputs;
    for (int64_t s = 0; s < samples; s += packedSamples) {
      const int64_t rows = samples - s < packedSamples ? samples - s : packedSamples;
      const int64_t vectors = (columns + lanes - 1) / lanes;
      const auto tile = pickTile<PackedTiles, packedSamples, 4>(rows, vectors);
      tile(out + s * outputs + j, x + s * inputs, panel, b + j, inputs, outputs, columns, relu);
    }
    j += columns;
  }
}
