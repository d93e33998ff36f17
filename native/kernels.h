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

#include "rule.h"

namespace osiris {

/// A pointer for an argument that may be left out, which is nullptr then.
template <typename Element>
class Optional {
 public:
  Optional(Element* data) : data_(data) {}
  operator Element*() const { return data_; }

 private:
  Element* data_;
};

/// The slices that one call covers: slice first+i holds samples bounds[i] .. bounds[i+1]-1.
/// Subtrees have `most` slices or fewer.
struct Slices {
  int64_t first;
  int64_t count;
  const int32_t* bounds;
  int64_t most = INT64_MAX;
};

/// Table-major jagged ids: bag (t,b) is ids[offsets[t*samples+b]] .. ids[offsets[t*samples+b+1]-1].
struct Bags {
  int64_t tables;
  int64_t samples;
  const int32_t* offsets;
  const int32_t* ids;
  const float* weights;  // weights of the ids; nullptr: all 1
};

/// Precision of stored weights, and of exchanged vectors, which may also have a float8;
/// src/kernels/contract/precision.ts defines the codes.
enum class Precision { float32, float16, bfloat16, int8, float8e4m3, float8e5m2 };

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

/// Rows first .. end-1 of a table.
struct RowRange {
  int64_t first, end;
};

/// Completed whole-row values of rows that are split by columns, for each distinct row in ascending
/// order; nullptr: the rows are whole.
struct Completed {
  const float* mean = nullptr;  // means of squares
  const float* trust = nullptr;
  int64_t rows = -1;            // their number; -1: none are given
};

/// The error of an update that got another number of sums than its table has distinct rows.
struct WrongSums {
  int64_t rows = 0;
  int64_t sums = 0;
};

/// The pooled sums (B,columns) of a run of row blocks; `from` nullptr: zeros.
struct PooledPart {
  const float* from;
  int64_t columns;
  Subtree tree;
};

/// Most arrays of a tile (src/kernels/contract/undo.ts).
constexpr int64_t keptArraysMax = 5;

/// A tile of which the rows ids[first] .. ids[end-1] change: the bits of the rows that the log has,
/// and the arrays with values of its rows.
struct UndoneTile {
  int64_t tile;
  uint32_t* seen;
  int64_t first, end;
  int64_t arrays;
  const char* of[keptArraysMax];
  int64_t rowBytes[keptArraysMax];
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

/// Some columns of a tensor (B, ·): the first of these columns, and the width of a row.
struct Columns {
  float* at;
  int64_t stride;
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
  Scratch packedA, packedB, batch, blocks, runs, tiles, converted, features;
  Scratch narrowed, rowsA, rowsB, samples, gradients, lengths, weights, slices, fold, gradient, direction, decoded, noise;
  Scratch averaged;
  Scratch beside, squares, trees, starts, misses;
  Scratch leftOperand, rightOperand, mixed;
  Scratch parts, updated;
};

inline Scratches& scratches() {
  static thread_local Scratches mine;
  return mine;
}

/// Into how many parts, at most `most`, a thread splits work that takes it `ns` nanoseconds: 1 if it
/// has no helpers, or the work is not worth it (threads/threads.h).
int64_t partsOf(double ns, int64_t most);

/// Calls run(of, part) for each part below `count` on this thread and its helpers, of which it has
/// some if `partsOf` was above 1. Throws std::bad_alloc where a part did.
void runParts(int64_t count, void (*run)(void* of, int64_t part), void* of);

/// Cuts the rows of a table into at most `parts` ranges with similar numbers of these lookups.
/// Returns the number of ranges, which are ascending and cover all rows.
int64_t cutRows(RowRange* ranges, int64_t parts, const int32_t* ids, int64_t count, int64_t rows);

/// The kernels of one instruction set: a pointer to each function of table.h. Each part sets its own
/// kernels.
struct Kernels {
  const char* name;
  const char* arithmetic;
#define KERNEL(result, name, ...) result (*name)(__VA_ARGS__);
#define ADAPTED KERNEL
#include "table.h"
#undef KERNEL
#undef ADAPTED
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
