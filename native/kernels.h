// What the kernels of every instruction set share: plain views of JavaScript's memory, scratch that
// only grows, and the table of kernels, which is chosen when the addon is loaded.
//
// B = samples, I/O = inputs/outputs of a layer, F = features, D = embedding dim, C = columns of all
// tables side by side, R = rows of a table. Row-major. Output first, gradients start with `d`.

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
  const float* weights;  // of the ids, or nullptr: 1
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

/// The update rule of rows; all numbers are already rounded to float32.
/// A moving average of rows (src/kernels/contract/row-average.ts), of so many steps.
struct Average {
  double decay = 0;
  int64_t steps = 0;

  /// The share that is left of a lag as of `before` steps: by repeated squaring.
  float shareOf(float before) const {
    double result = 1, square = decay;
    for (int64_t left = steps - static_cast<int64_t>(before); left > 0; left /= 2) {
      if (left % 2 == 1) result *= square;
      square *= square;
    }
    return static_cast<float>(result);
  }
};

struct Rule {
  RuleKind kind;
  float rate;   // adam: learning rate / correction1
  float unit;   // lamb: 1 / correction1
  float l2;
  float decay;  // lamb: inside its direction
  float kept;   // elsewhere: 1 - learning rate * decay
  float epsilon;
  float momentum;
  float beta1, beta2, rest1, rest2;  // rest = 1 - beta
  float root2;                       // sqrt(correction2)
  float beta, lambda1, lambda2;      // ftrl
  float clip;                        // elements of g are at most this far from 0; 0: any
  Average average;                   // where the table's rows are averaged
  uint32_t key[2], purpose, step;    // of the random numbers that round

  bool isLamb() const { return kind == RuleKind::lamb || kind == RuleKind::partialRowWiseLamb; }
  /// Whether the rule needs the mean of squares of a row.
  bool hasMean() const {
    return kind == RuleKind::rowWiseAdagrad || kind == RuleKind::partialRowWiseAdam ||
           kind == RuleKind::partialRowWiseLamb;
  }
};

/// How weights are stored; src/kernels/contract/precision.ts defines the codes.
enum class Precision { float32, float16, bfloat16, int8 };

struct Table {
  float* weights;    // (R,D), where they are float32
  float* state;      // (R,W)
  uint8_t* touched;  // (R)
  int64_t rows, dim, stateWidth;
  bool mean;
  int64_t blocks;
  int64_t column;  // of (B,C), where this table's D columns begin
  Rule rule;
  Precision precision = Precision::float32;
  void* codes = nullptr;        // (R,D), where they are not float32
  int8_t* exponents = nullptr;  // (R,D/32 rounded up), of int8 rows
  int64_t blockRows = 1;        // of a whole block
  int64_t firstRow = 0, firstColumn = 0, tableDim = 0;  // of a tile, in its table
  const int32_t* names = nullptr;  // (R), of a cache's places: the row that each holds
  int64_t lookups = 1;  // in the same rows, of this table and the next ones; 0 in these
  bool averaged = false;  // a row's lag (D) stands before the rule's state, its steps behind it

  /// A row's own state, and that of its rule: so many floats.
  float* stateOf(int64_t row) const { return state + row * stateWidth; }
  float* ruleStateOf(int64_t row) const { return stateOf(row) + (averaged ? dim : 0); }
  int64_t ruleWidth() const { return averaged ? stateWidth - dim - 1 : stateWidth; }
};

/// Slots of a set of a cache.
constexpr int cacheWays = 32;

/// A cache's index: which row lies in which slot (src/kernels/contract/row-cache.ts).
struct RowCache {
  int64_t sets, spares;
  int32_t *rowOf, *stamps;  // (P)
  uint8_t* pins;            // (P)
  uint32_t* counts;         // of rows, or of hashes of rows, where LFU counts them
  int64_t countsLength;     // 0: LRU
  int32_t* spareTable;      // open addressing: spare places by the hash of their rows
  int64_t spareTableLength;
  int32_t* spareFree;       // a stack of free spare places
  int32_t* head;            // how many are free, and the last tick
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

/// Completed sums of rows that are split by columns, for each distinct row in ascending order;
/// nullptr: the rows are whole.
struct Completed {
  const float* mean = nullptr;  // of squares
  const float* trust = nullptr;
};

/// The sums (B,columns) of a run of row blocks; nullptr: no part, zeros.
struct PooledPart {
  const float* from;
  int64_t columns;
  Subtree tree;
};

/// Memory of one thread that is kept between calls and only grows.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(memory_); }

  /// At least `count` elements, aligned to 64 bytes, with undefined values. Much memory is on large
  /// pages where the system gives some: packed operands are read in an order that small ones slow.
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

/// What batch normalisation knows of each column.
struct BatchNormColumns {
  const float *mean, *unit, *gain, *bias;
};

/// The most tensors that a kernel adds to an output (src/kernels/contract/blocks.ts).
constexpr int64_t addendsMax = 16;

/// Tensors in the layout of an output, which are added to it in order.
struct Addends {
  const float* const* of = nullptr;
  int64_t count = 0;
};

/// How the operands of a product lie, T = transposed.
enum class ProductForm { ab, abT, aTb };

/// B samples of N vectors of D columns, and K sums of these vectors.
struct RankShape {
  int64_t samples, vectors, dim, rank;
};

/// One thread's scratch memory, by use.
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

/// The kernels of one instruction set, in the order of kernels.ts. Each part adds its own.
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
  /// Packs weights (O,I) into whole panels of 64 outputs.
  void (*packLayer)(float* out, const float* w, int64_t inputs, int64_t outputs);
  /// As `linear`, with weights that `packLayer` packed.
  decltype(linear) linearPacked;
  void (*dRelu)(float* d, const float* out, int64_t n);
  void (*dLinearInput)(float* dX, const float* dOut, const float* w, int64_t samples,
                       int64_t inputs, int64_t outputs, const Addends& plus, const float* above);
  void (*dLinearWeight)(float* const* dW, float* const* dB, const float* dOut, const float* x,
                        int64_t inputs, int64_t outputs, const Slices& slices);
  /// The same with bfloat16 operands.
  decltype(linear) linearBfloat16;
  decltype(dLinearInput) dLinearInputBfloat16;
  decltype(dLinearWeight) dLinearWeightBfloat16;
  void (*dropout)(float* x, int64_t n, const uint32_t* key, uint32_t purpose, uint32_t step,
                  int64_t first, float keep, uint32_t limit);
  void (*interact)(float* out, const float* x, int64_t samples, int64_t features, int64_t dim,
                   int64_t copied, bool dots);
  void (*dInteract)(float* dX, const float* dOut, const float* x, int64_t samples,
                    int64_t features, int64_t dim, int64_t copied, bool dots);
  /// Element by element: out = a + b, out = a * b.
  void (*add)(float* out, const float* a, const float* b, int64_t n);
  void (*multiply)(float* out, const float* a, const float* b, int64_t n);
  /// dA = dOut * b, dB = dOut * a; out = a * b + c, the product rounded first.
  void (*dMultiply)(float* dA, float* dB, const float* dOut, const float* a, const float* b,
                    int64_t n);
  void (*multiplyAdd)(float* out, const float* a, const float* b, const float* c, int64_t n);
  /// out (rows,C) = `count` values (rows,widths[i]) side by side + other (rows,C).
  void (*addBeside)(float* out, const float* const* values, const int32_t* widths, int64_t count,
                    const float* other, int64_t rows);
  void (*relu)(float* out, const float* x, int64_t n);
  void (*scale)(float* out, const float* x, int64_t n, float factor);
  void (*leakyRelu)(float* out, const float* x, int64_t n, float slope);
  /// Of n elements; d of out is d of x afterwards.
  void (*dLeakyRelu)(float* d, const float* out, int64_t n, float slope);
  void (*sigmoid)(float* out, const float* x, int64_t n);
  void (*dSigmoid)(float* d, const float* out, int64_t n);
  void (*softmax)(float* out, const float* x, int64_t rows, int64_t dim);
  void (*dSoftmax)(float* dX, const float* dOut, const float* out, int64_t rows, int64_t dim);
  /// Each vector of a (B,rows,dim) times each of b (B,columns,dim), and back.
  void (*pairs)(float* out, const float* a, const float* b, int64_t samples, int64_t rows,
                int64_t columns, int64_t dim);
  decltype(pairs) dPairsLeft;
  decltype(pairs) dPairsRight;
  /// For each sample out (rows,columns) = a * b, over `depth`; `shared`: a is that of all samples.
  void (*products)(float* out, const float* a, const float* b, int64_t samples, int64_t rows,
                   int64_t columns, int64_t depth, bool shared, ProductForm form,
                   const Addends& plus);
  /// Subtree p of dA[p] (rows,depth): over samples and columns, of dOut (B,rows,columns) times b
  /// (B,depth,columns).
  void (*dShared)(float* const* dA, const float* dOut, const float* b, int64_t rows,
                  int64_t columns, int64_t depth, const Slices& slices);
  /// y (B,K,D) = w (K,N) * x (B,N,D), and out (B,N,K) = x * y^T.
  void (*rankProducts)(float* out, float* y, const float* x, const float* w,
                       const RankShape& shape);
  /// dX (B,N,D) and subtree p of dW[p] (K,N).
  void (*dRankProducts)(float* dX, float* const* dW, const float* dOut, const float* x,
                        const float* y, const float* w, const RankShape& shape,
                        const Slices& slices, const Addends& plus);
  void (*pairSum)(float* out, const float* x, int64_t samples, int64_t count, int64_t dim);
  void (*dPairSum)(float* dX, const float* dOut, const float* x, int64_t samples, int64_t count,
                   int64_t dim);
  void (*layerNorm)(float* out, float* saved, const float* x, const float* gain,
                    const float* bias, int64_t rows, int64_t dim, float epsilon);
  /// dX may be nullptr: nobody needs it.
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
  /// The dense optimizers: a tensor is one long row. False where g was not finite.
  bool (*applyFlat)(const Rule& rule, float* w, float* state, float* second, const float* g,
                    int64_t n);
  /// False where a row finds no slot.
  bool (*placeRows)(const RowCache& cache, int32_t* places, const int32_t* ids, int64_t n,
                    int32_t tick, PlacedLists& out);
  void (*gatherRecords)(char* out, const Table& rows, const int32_t* places, int64_t count);
  /// `at`, and the indices of `moveRecords`, may be nullptr: 0, 1, 2 ...
  void (*scatterRecords)(const Table& rows, const int32_t* places, int64_t count,
                         const char* records, const int32_t* at);
  void (*bornAt)(const Table& rows, const int32_t* places, const int32_t* ids, int64_t count,
                 const uint32_t* key, uint32_t purpose, float scale, float initialState);
  void (*moveRecords)(char* to, const int32_t* toAt, const char* from, const int32_t* fromAt,
                      int64_t count, int64_t bytes);
};

/// The kernels of an instruction set by name, or nullptr where the processor does not have it, or
/// they were not compiled.
const Kernels* kernelsOf(const char* isa);

/// The fastest kernels here that this processor can run, or nullptr: an addon with the set of another
/// processor alone.
const Kernels* bestKernels();

/// The sets that were compiled, each with a blank behind it.
const char* compiledSets();

}  // namespace osiris
