// Types that the kernels of all instruction sets share: views of JavaScript's memory, scratch
// memory, which only grows, and the table of kernels, which is chosen when the addon is loaded.
//
// B = samples, I/O = inputs/outputs of a layer, F = features, D = embedding dim, C = columns of all
// tables, concatenated, R = rows of a table. Row-major. Output first, gradients start with `d`.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace osiris {

/// The slices that one call covers: slice first+i holds samples bounds[i] .. bounds[i+1]-1.
struct Slices {
  int64_t first;
  int64_t count;
  const int32_t* bounds;
};

/// Table-major jagged ids: bag (t,b) is ids[offsets[t*samples+b]] .. ids[offsets[t*samples+b+1]-1].
struct Bags {
  int64_t tables;
  int64_t samples;
  const int32_t* offsets;
  const int32_t* ids;
  const float* weights;  // weights of the ids; nullptr: all 1
};

enum class RuleKind {
  sgd,
  momentum,
  adagrad,
  rowWiseAdagrad,
  adam,
  partialRowWiseAdam,
  lamb,
  partialRowWiseLamb,
  ftrl
};

/// The moving average of rows (src/kernels/contract/row-average.ts) at step count `steps`.
struct Average {
  double decay = 0;
  int64_t steps = 0;

  /// The factor on a lag that was stored at step count `before`: decay^(steps - before), by
  /// repeated squaring.
  float shareOf(float before) const {
    double result = 1, square = decay;
    for (int64_t left = steps - static_cast<int64_t>(before); left > 0; left /= 2) {
      if (left % 2 == 1) result *= square;
      square *= square;
    }
    return static_cast<float>(result);
  }
};

/// The update rule of rows. All numbers are already rounded to float32.
struct Rule {
  RuleKind kind;
  float rate;   // learning rate; adam: learning rate / correction1
  float unit;   // lamb: 1 / correction1
  float l2;
  float decay;  // lamb: weight decay, a part of the direction
  float kept;   // other rules: 1 - learning rate * decay; lamb: 1
  float epsilon;
  float momentum;
  float beta1, beta2, rest1, rest2;  // rest = 1 - beta
  float root2;                       // sqrt(correction2)
  float beta, lambda1, lambda2;      // ftrl
  float clip;                        // elements of g are clamped to -clip .. clip; 0: they are not
  Average average;                   // used if the table's rows have a moving average
  uint32_t key[2], purpose, step;    // random stream of stochastic rounding

  bool isLamb() const { return kind == RuleKind::lamb || kind == RuleKind::partialRowWiseLamb; }
  /// Whether the rule needs the mean of squares of a row.
  bool hasMean() const {
    return kind == RuleKind::rowWiseAdagrad || kind == RuleKind::partialRowWiseAdam ||
           kind == RuleKind::partialRowWiseLamb;
  }
};

/// Precision of stored weights; src/kernels/contract/precision.ts defines the codes.
enum class Precision { float32, float16, bfloat16, int8 };

/// A table as one lookup sees it (`Rows` of src/kernels/contract/tables.ts).
struct Table {
  float* weights;    // (R,D) for float32, else nullptr
  float* state;      // (R,W)
  uint8_t* touched;  // (R)
  int64_t rows, dim, stateWidth;
  bool mean;
  int64_t blocks;
  int64_t column;  // first of this lookup's D columns in (B,C)
  Rule rule;
  Precision precision = Precision::float32;
  void* codes = nullptr;        // (R,D), unless the precision is float32
  int8_t* exponents = nullptr;  // (R,D/32 rounded up), for int8 rows
  int64_t blockRows = 1;        // rows of a whole block
  int64_t firstRow = 0, firstColumn = 0, tableDim = 0;  // position of a tile in its table
  const int32_t* names = nullptr;  // (R), for slots of a cache: the row in each slot
  int64_t lookups = 1;  // entries with the same rows, from this entry on; 0 in the later ones
  bool averaged = false;  // a row's state is its lag (D), the rule's state, and a step count

  /// The state of a row, the part of it that belongs to the rule, and the floats of that part.
  float* stateOf(int64_t row) const { return state + row * stateWidth; }
  float* ruleStateOf(int64_t row) const { return stateOf(row) + (averaged ? dim : 0); }
  int64_t ruleWidth() const { return averaged ? stateWidth - dim - 1 : stateWidth; }
};

/// Slots of a set of a cache.
constexpr int cacheWays = 32;

/// The index of a cache: which row is in which slot (src/kernels/contract/row-cache.ts).
struct RowCache {
  int64_t sets, spares;
  int32_t *rowOf, *stamps;  // (P)
  uint8_t* pins;            // (P)
  uint32_t* counts;         // LFU: access counts by row, or by hash of a row
  int64_t countsLength;     // 0: LRU
  int32_t* spareTable;      // open addressing: spare slots by the hash of their rows
  int64_t spareTableLength;
  int32_t* spareFree;       // a stack of the free spare slots
  int32_t* head;            // number of free spare slots, and the last tick
};

/// The results of one call of `placeRows`.
struct PlacedLists {
  int32_t *placed, *missed, *missedRows, *evicted, *evictedRows;
  int64_t distinct, missedCount, evictedCount, conflicts, conflictLookups;
};

/// A lookup of a missing row, and its rank in LFU's order.
struct Miss {
  uint64_t key;
  int32_t lookup;
};

struct Subtree {
  int64_t first, count;
};

/// Completed whole-row values of rows that are split by columns, for each distinct row in ascending
/// order; nullptr: the rows are whole.
struct Completed {
  const float* mean = nullptr;  // means of squares
  const float* trust = nullptr;
};

/// The pooled sums (B,columns) of a run of row blocks; `from` nullptr: zeros.
struct PooledPart {
  const float* from;
  int64_t columns;
  Subtree tree;
};

/// Memory of one thread that is reused by later calls and only grows.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(memory_); }

  /// At least `count` elements, aligned to 64 bytes, with undefined values, valid until the next
  /// `take`. From 2 MiB on, memory is on large pages if the system provides them, as packed
  /// operands are read in an order that is slow on small pages.
  template <typename Element>
  Element* take(int64_t count) {
    const size_t bytes = (static_cast<size_t>(count) * sizeof(Element) + 127) / 64 * 64;
    if (bytes > bytes_) {
      std::free(memory_);
      const size_t unit = bytes < largePage ? 64 : largePage;
      const size_t whole = (bytes + unit - 1) / unit * unit;
      memory_ = std::aligned_alloc(unit, whole);
      bytes_ = memory_ == nullptr ? 0 : whole;
      if (memory_ == nullptr) throw std::bad_alloc();
#if defined(__linux__)
      if (unit == largePage) madvise(memory_, whole, MADV_HUGEPAGE);
#endif
    }
    return static_cast<Element*>(memory_);
  }

 private:
  static constexpr size_t largePage = 2 << 20;

  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

/// Statistics and parameters of batch normalisation, one per column. unit: 1 / standard deviation.
struct BatchNormColumns {
  const float *mean, *unit, *gain, *bias;
};

/// Most tensors that a kernel adds to an output (src/kernels/contract/blocks.ts).
constexpr int64_t addendsMax = 16;

/// Tensors in the layout of an output, which a kernel adds to it in order.
struct Addends {
  const float* const* of = nullptr;
  int64_t count = 0;
};

/// Which operand of a product is transposed (T).
enum class ProductForm { ab, abT, aTb };

/// B samples of N vectors of D columns, and K (rank) weighted sums of these vectors.
struct RankShape {
  int64_t samples, vectors, dim, rank;
};

/// The scratch memory of one thread, by use.
struct Scratches {
  Scratch packedA, packedB, batch, blocks, tiles, converted, features;
  Scratch narrowed, rowsA, rowsB, samples, gradients, lengths, weights, slices, fold, gradient, direction, decoded, noise;
  Scratch averaged;
  Scratch squares, trees, starts, misses;
  Scratch leftOperand, rightOperand, mixed;
};

inline Scratches& scratches() {
  static thread_local Scratches mine;
  return mine;
}

/// The kernels of one instruction set, in the order of kernels.ts. Each part sets its own kernels.
struct Kernels {
  const char* name;
  const char* arithmetic;
  void (*copyColumns)(float* out, int64_t outStride, const float* from, int64_t fromStride,
                      int64_t samples, int64_t columns);
  void (*expandColumns)(float* out, int64_t outStride, const float* from, int64_t fromStride,
                        const int32_t* inverse, const int32_t* used, int64_t samples, int64_t columns);
  void (*dExpandColumns)(float* dFrom, int64_t fromStride, int64_t lists, const float* dOut,
                         int64_t outStride, const int32_t* inverse, const int32_t* used,
                         int64_t samples, int64_t columns);
  void (*uniform)(float* t, int64_t n, const uint32_t* key, uint32_t purpose, int64_t first,
                  float scale);
  void (*born)(const Table& rows, const uint32_t* key, uint32_t purpose, float scale);
  void (*linear)(float* out, const float* x, const float* w, const float* b, int64_t samples,
                 int64_t inputs, int64_t outputs, bool relu);
  /// Packs weights (O,I) into panels of 64 outputs; the last panel is padded.
  void (*packLayer)(float* out, const float* w, int64_t inputs, int64_t outputs);
  /// `linear` with weights from `packLayer`.
  decltype(linear) linearPacked;
  void (*dRelu)(float* d, const float* out, int64_t n);
  void (*dLinearInput)(float* dX, const float* dOut, const float* w, int64_t samples,
                       int64_t inputs, int64_t outputs, const Addends& plus, const float* above);
  void (*dLinearWeight)(float* const* dW, float* const* dB, const float* dOut, const float* x,
                        int64_t inputs, int64_t outputs, const Slices& slices);
  /// The dense kernels with bfloat16 operands.
  decltype(linear) linearBfloat16;
  decltype(dLinearInput) dLinearInputBfloat16;
  decltype(dLinearWeight) dLinearWeightBfloat16;
  void (*dropout)(float* x, int64_t n, const uint32_t* key, uint32_t purpose, uint32_t step,
                  int64_t first, float keep, uint32_t limit);
  void (*interact)(float* out, const float* x, int64_t samples, int64_t features, int64_t dim,
                   int64_t copied, bool dots);
  void (*dInteract)(float* dX, const float* dOut, const float* x, int64_t samples,
                    int64_t features, int64_t dim, int64_t copied, bool dots);
  /// Element-wise: out = a + b; out = a * b.
  void (*add)(float* out, const float* a, const float* b, int64_t n);
  void (*multiply)(float* out, const float* a, const float* b, int64_t n);
  /// Element-wise: dA = dOut * b, dB = dOut * a; out = a * b + c, with the product rounded first.
  void (*dMultiply)(float* dA, float* dB, const float* dOut, const float* a, const float* b,
                    int64_t n);
  void (*multiplyAdd)(float* out, const float* a, const float* b, const float* c, int64_t n);
  /// out (rows,C) = the concatenated columns of `count` values (rows,widths[i]) + other (rows,C).
  void (*addBeside)(float* out, const float* const* values, const int32_t* widths, int64_t count,
                    const float* other, int64_t rows);
  void (*relu)(float* out, const float* x, int64_t n);
  void (*scale)(float* out, const float* x, int64_t n, float factor);
  void (*leakyRelu)(float* out, const float* x, int64_t n, float slope);
  /// In place: d, the gradient of n elements of out, becomes that of x.
  void (*dLeakyRelu)(float* d, const float* out, int64_t n, float slope);
  void (*sigmoid)(float* out, const float* x, int64_t n);
  void (*dSigmoid)(float* d, const float* out, int64_t n);
  void (*softmax)(float* out, const float* x, int64_t rows, int64_t dim);
  void (*dSoftmax)(float* dX, const float* dOut, const float* out, int64_t rows, int64_t dim);
  /// out = each vector of a (B,rows,dim) times each vector of b (B,columns,dim); then the
  /// backwards.
  void (*pairs)(float* out, const float* a, const float* b, int64_t samples, int64_t rows,
                int64_t columns, int64_t dim);
  decltype(pairs) dPairsLeft;
  decltype(pairs) dPairsRight;
  /// For each sample, out (rows,columns) = a * b, over `depth`; `shared`: all samples share a.
  void (*products)(float* out, const float* a, const float* b, int64_t samples, int64_t rows,
                   int64_t columns, int64_t depth, bool shared, ProductForm form,
                   const Addends& plus);
  /// For subtree p, dA[p] (rows,depth) = the sum over samples and columns of dOut (B,rows,columns)
  /// times b (B,depth,columns).
  void (*dShared)(float* const* dA, const float* dOut, const float* b, int64_t rows,
                  int64_t columns, int64_t depth, const Slices& slices);
  /// y (B,K,D) = w (K,N) * x (B,N,D), and out (B,N,K) = x * y^T.
  void (*rankProducts)(float* out, float* y, const float* x, const float* w,
                       const RankShape& shape);
  /// dX (B,N,D), and dW[p] (K,N) for subtree p.
  void (*dRankProducts)(float* dX, float* const* dW, const float* dOut, const float* x,
                        const float* y, const float* w, const RankShape& shape,
                        const Slices& slices, const Addends& plus);
  void (*pairSum)(float* out, const float* x, int64_t samples, int64_t count, int64_t dim);
  void (*dPairSum)(float* dX, const float* dOut, const float* x, int64_t samples, int64_t count,
                   int64_t dim);
  void (*layerNorm)(float* out, float* saved, const float* x, const float* gain,
                    const float* bias, int64_t rows, int64_t dim, float epsilon);
  /// dX may be nullptr: it is then not computed.
  void (*dLayerNorm)(float* dX, float* const* dGain, float* const* dBias, const float* dOut,
                     const float* saved, const float* x, const float* gain, int64_t dim,
                     const Slices& slices);
  void (*batchMoments)(float* const* sums, const float* x, const float* shift, int64_t width,
                       const Slices& slices);
  void (*batchNorm)(float* out, const float* x, const BatchNormColumns& columns, int64_t rows,
                    int64_t width, bool relu);
  void (*dBatchNormWeights)(float* const* dGain, float* const* dBias, const float* dOut,
                            const float* x, const BatchNormColumns& columns, int64_t width,
                            const Slices& slices);
  void (*dBatchNorm)(float* dX, const float* dOut, const float* x,
                     const BatchNormColumns& columns, const float* dMean, const float* dSlope,
                     int64_t rows, int64_t width);
  void (*pool)(float* out, const Table* tables, const Bags& bags, int64_t first, int64_t count,
               int64_t columns);
  /// Returns the first table with a NaN or an infinity after the update, or -1.
  int64_t (*updateRows)(const Table* tables, const Bags& bags, const float* dPooled,
                        int64_t columns, const Slices& slices, const Completed* completed);
  int64_t (*rowSquares)(float** squares, const Table* tables, int64_t index, const Bags& bags,
                        const float* dPooled, int64_t columns, const Slices& slices);
  int64_t (*rowNorms)(double** norms, const Table* tables, int64_t index, const Bags& bags,
                      const float* dPooled, int64_t columns, const Slices& slices,
                      const float* mean);
  void (*dRows)(float* const* dRows, float* const* counts, const Table* tables, int64_t index,
                const Bags& bags, const float* dPooled, int64_t columns, const Slices& slices);
  bool (*applyRows)(const Table& rows, const float* dRows, const float* counts, bool whole);
  void (*foldSubtrees)(float* out, const float* const* parts, const Subtree* trees, int64_t count,
                       int64_t n);
  void (*foldPooled)(float* out, int64_t outColumns, const PooledPart* parts, int64_t count,
                     int64_t samples, int64_t columns, const int32_t* lengths,
                     Precision precision);
  void (*shareColumns)(float* out, int64_t outColumns, const float* from, int64_t fromColumns,
                       int64_t samples, int64_t columns, const int32_t* lengths);
  void (*packColumns)(void* to, const float* from, int64_t fromColumns, int64_t samples,
                      int64_t columns, Precision precision);
  void (*unpackColumns)(float* out, int64_t outColumns, const void* from, int64_t samples,
                        int64_t columns, Precision precision);
  /// The dense optimizers, which treat a tensor as one long row. Returns false if g is not finite.
  bool (*applyFlat)(const Rule& rule, float* w, float* state, float* second, const float* g,
                    int64_t n);
  /// Returns false if a row finds no slot.
  bool (*placeRows)(const RowCache& cache, int32_t* places, const int32_t* ids, int64_t n,
                    int32_t tick, PlacedLists& out);
  void (*gatherRecords)(char* out, const Table& rows, const int32_t* places, int64_t count);
  /// `at`, and the indices of `moveRecords`, may be nullptr for 0, 1, 2 ...
  void (*scatterRecords)(const Table& rows, const int32_t* places, int64_t count,
                         const char* records, const int32_t* at);
  void (*bornAt)(const Table& rows, const int32_t* places, const int32_t* ids, int64_t count,
                 const uint32_t* key, uint32_t purpose, float scale, float initialState);
  void (*moveRecords)(char* to, const int32_t* toAt, const char* from, const int32_t* fromAt,
                      int64_t count, int64_t bytes);
};

/// The kernels of an instruction set by name; nullptr if the processor lacks the set, or the addon
/// was compiled without it.
const Kernels* kernelsOf(const char* isa);

/// The fastest kernels of this addon that this processor can run; nullptr if the addon has only
/// sets of other processors.
const Kernels* bestKernels();

/// The names of the compiled sets, each followed by a blank.
const char* compiledSets();

}  // namespace osiris
