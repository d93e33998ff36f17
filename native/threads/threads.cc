// The threads of a device (threads.h), and the kernels that they run in parts: each such kernel is
// called once for each range of its samples, rows or elements. Weight gradients and updates of
// tables split themselves (dense/dense.h, embedding/row-update.h), as their parts are inside.

#include "threads/threads.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <vector>

#include "threads/pool.h"

namespace osiris {

namespace {

/// Least estimated time of a part: handing a part to a helper takes 1 to 5 us.
constexpr double usualPartNs = 20000;

/// The helpers of a thread, and its kernels.
struct Threads {
  Pool pool;
  double partNs;
  const Kernels* base = nullptr;
  Kernels inParts{};

  Threads(int64_t threads, double part) : pool(threads - 1), partNs(part) {}
};

thread_local std::unique_ptr<Threads> mine;

/// Calls body(first, count) for ranges of `count` samples or elements, which begin at multiples of
/// `unit`. `ns`: the estimated time of all of them on one thread.
template <typename Body>
void inRanges(int64_t count, int64_t unit, double ns, const Body& body) {
  const int64_t units = (count + unit - 1) / unit;
  const int64_t parts = partsOf(ns, units);
  if (parts == 1) return body(int64_t{0}, count);
  const auto run = [&](int64_t part) {
    const int64_t first = units * part / parts * unit;
    body(first, std::min(count, units * (part + 1) / parts * unit) - first);
  };
  runParts(parts, [](void* of, int64_t part) { (*static_cast<decltype(run)*>(of))(part); },
           const_cast<void*>(static_cast<const void*>(&run)));
}

// Estimated times on one core. They decide only what is worth a part.
double nsOfProduct(int64_t m, int64_t n, int64_t k) { return 0.02 * m * n * k; }
double nsOfElements(int64_t n) { return 0.3 * n; }

/// Samples of a range begin at a multiple of a tile's rows; elements at a multiple of a cache line.
constexpr int64_t sampleUnit = 4, elementUnit = 64;

/// Addends from an element on.
struct AddendsFrom {
  const float* of[addendsMax];
  int64_t count;

  AddendsFrom(const Addends& all, int64_t first) : count(all.count) {
    for (int64_t i = 0; i < count; i++) of[i] = all.of[i] + first;
  }
  operator Addends() const { return {of, count}; }
};

Columns from(const Columns& all, int64_t sample) {
  return {all.at + sample * all.stride, all.stride};
}

template <typename Element>
Element* from(const Optional<Element>& all, int64_t first) {
  return all == nullptr ? nullptr : all + first;
}

/// The rows of a table from one on.
Table from(const Table& all, int64_t row, int64_t count) {
  Table t = all;
  const int64_t bytes = t.precision == Precision::int8 ? 1 : 2;
  if (t.weights != nullptr) t.weights += row * t.dim;
  if (t.codes != nullptr) t.codes = static_cast<char*>(t.codes) + row * t.dim * bytes;
  if (t.exponents != nullptr) t.exponents += row * ((t.dim + 31) / 32);
  t.state += row * t.stateWidth;
  t.touched += row;
  if (t.names != nullptr) t.names += row;
  t.firstRow += row;
  t.rows = count;
  return t;
}

// Kernels in parts, in the order of their tables ----

template <auto kernel>
void layer(float* out, const float* x, const float* w, const float* b, int64_t samples,
           int64_t inputs, int64_t outputs, bool relu) {
  const Kernels& one = *mine->base;
  inRanges(samples, sampleUnit, nsOfProduct(samples, outputs, inputs), [&](int64_t s, int64_t n) {
    (one.*kernel)(out + s * outputs, x + s * inputs, w, b, n, inputs, outputs, relu);
  });
}

template <auto kernel>
void dLayerInput(float* dX, const float* dOut, const float* w, int64_t samples, int64_t inputs,
                 int64_t outputs, const Addends& plus, Optional<const float> above) {
  const Kernels& one = *mine->base;
  inRanges(samples, sampleUnit, nsOfProduct(samples, inputs, outputs), [&](int64_t s, int64_t n) {
    (one.*kernel)(dX + s * inputs, dOut + s * outputs, w, n, inputs, outputs,
                  AddendsFrom(plus, s * inputs), from(above, s * inputs));
  });
}

void interact(float* out, const float* x, int64_t samples, int64_t features, int64_t dim,
              int64_t copied, bool dots) {
  const Kernels& one = *mine->base;
  const int64_t width = copied * dim + (dots ? features * (features - 1) / 2 : 0);
  const double ns = nsOfProduct(samples * features, dots ? features : copied, dim);
  inRanges(samples, 1, ns, [&](int64_t s, int64_t n) {
    one.interact(out + s * width, x + s * features * dim, n, features, dim, copied, dots);
  });
}

void dInteract(float* dX, const float* dOut, const float* x, int64_t samples, int64_t features,
               int64_t dim, int64_t copied, bool dots) {
  const Kernels& one = *mine->base;
  const int64_t width = copied * dim + (dots ? features * (features - 1) / 2 : 0);
  const double ns = nsOfProduct(samples * features, dots ? features : copied, dim);
  inRanges(samples, 1, ns, [&](int64_t s, int64_t n) {
    const int64_t at = s * features * dim;
    one.dInteract(dX + at, dOut + s * width, x + at, n, features, dim, copied, dots);
  });
}

template <auto kernel>
void oneInput(float* out, const float* a, int64_t n) {
  const Kernels& one = *mine->base;
  inRanges(n, elementUnit, nsOfElements(n),
           [&](int64_t i, int64_t some) { (one.*kernel)(out + i, a + i, some); });
}

template <auto kernel>
void oneInputAndFactor(float* out, const float* a, int64_t n, float factor) {
  const Kernels& one = *mine->base;
  inRanges(n, elementUnit, nsOfElements(n),
           [&](int64_t i, int64_t some) { (one.*kernel)(out + i, a + i, some, factor); });
}

template <auto kernel>
void twoInputs(float* out, const float* a, const float* b, int64_t n) {
  const Kernels& one = *mine->base;
  inRanges(n, elementUnit, nsOfElements(n),
           [&](int64_t i, int64_t some) { (one.*kernel)(out + i, a + i, b + i, some); });
}

void dMultiply(float* dA, float* dB, const float* dOut, const float* a, const float* b,
               int64_t n) {
  const Kernels& one = *mine->base;
  inRanges(n, elementUnit, 2 * nsOfElements(n), [&](int64_t i, int64_t some) {
    one.dMultiply(dA + i, dB + i, dOut + i, a + i, b + i, some);
  });
}

void multiplyAdd(float* out, const float* a, const float* b, const float* c, int64_t n) {
  const Kernels& one = *mine->base;
  inRanges(n, elementUnit, nsOfElements(n), [&](int64_t i, int64_t some) {
    one.multiplyAdd(out + i, a + i, b + i, c + i, some);
  });
}

void addBeside(float* out, const float* const* values, const int32_t* widths, int64_t count,
               const float* other, int64_t rows) {
  const Kernels& one = *mine->base;
  const int64_t columns = std::accumulate(widths, widths + count, int64_t{0});
  inRanges(rows, 1, nsOfElements(rows * columns), [&](int64_t r, int64_t n) {
    std::vector<const float*> own(values, values + count);
    for (int64_t i = 0; i < count; i++) own[static_cast<size_t>(i)] += r * widths[i];
    one.addBeside(out + r * columns, own.data(), widths, count, other + r * columns, n);
  });
}

void softmax(float* out, const float* x, int64_t rows, int64_t dim) {
  const Kernels& one = *mine->base;
  inRanges(rows, 1, 4 * nsOfElements(rows * dim), [&](int64_t r, int64_t n) {
    one.softmax(out + r * dim, x + r * dim, n, dim);
  });
}

void dSoftmax(float* dX, const float* dOut, const float* out, int64_t rows, int64_t dim) {
  const Kernels& one = *mine->base;
  inRanges(rows, 1, 2 * nsOfElements(rows * dim), [&](int64_t r, int64_t n) {
    one.dSoftmax(dX + r * dim, dOut + r * dim, out + r * dim, n, dim);
  });
}

void pairs(float* out, const float* a, const float* b, int64_t samples, int64_t rows,
           int64_t columns, int64_t dim) {
  const Kernels& one = *mine->base;
  const int64_t all = rows * columns * dim;
  inRanges(samples, 1, nsOfElements(samples * all), [&](int64_t s, int64_t n) {
    one.pairs(out + s * all, a + s * rows * dim, b + s * columns * dim, n, rows, columns, dim);
  });
}

/// The gradient of the vectors of rows, or of columns.
template <auto kernel, bool ofRows>
void dPairs(float* d, const float* dOut, const float* other, int64_t samples, int64_t rows,
            int64_t columns, int64_t dim) {
  const Kernels& one = *mine->base;
  const int64_t all = rows * columns * dim;
  const int64_t own = (ofRows ? rows : columns) * dim, others = (ofRows ? columns : rows) * dim;
  inRanges(samples, 1, nsOfElements(samples * all), [&](int64_t s, int64_t n) {
    (one.*kernel)(d + s * own, dOut + s * all, other + s * others, n, rows, columns, dim);
  });
}

void products(float* out, const float* a, const float* b, int64_t samples, int64_t rows,
              int64_t columns, int64_t depth, bool shared, ProductForm form, const Addends& plus) {
  const Kernels& one = *mine->base;
  const double ns = 2 * nsOfProduct(samples * rows, columns, depth);
  inRanges(samples, 1, ns, [&](int64_t s, int64_t n) {
    const int64_t at = s * rows * columns;
    one.products(out + at, a + (shared ? 0 : s * rows * depth), b + s * depth * columns, n, rows,
                 columns, depth, shared, form, AddendsFrom(plus, at));
  });
}

void rankProducts(float* out, float* y, const float* x, const float* w, const RankShape& shape) {
  const Kernels& one = *mine->base;
  const auto [samples, vectors, dim, rank] = shape;
  const int64_t v = vectors, d = dim, k = rank;  // Lambdas cannot capture structured bindings.
  inRanges(samples, 1, 4 * nsOfProduct(samples * v, d, k), [&](int64_t s, int64_t n) {
    one.rankProducts(out + s * v * k, y + s * k * d, x + s * v * d, w, {n, v, d, k});
  });
}

void pairSum(float* out, const float* x, int64_t samples, int64_t count, int64_t dim) {
  const Kernels& one = *mine->base;
  inRanges(samples, elementUnit, nsOfElements(samples * count * dim), [&](int64_t s, int64_t n) {
    one.pairSum(out + s, x + s * count * dim, n, count, dim);
  });
}

void dPairSum(float* dX, const float* dOut, const float* x, int64_t samples, int64_t count,
              int64_t dim) {
  const Kernels& one = *mine->base;
  inRanges(samples, 1, 2 * nsOfElements(samples * count * dim), [&](int64_t s, int64_t n) {
    one.dPairSum(dX + s * count * dim, dOut + s, x + s * count * dim, n, count, dim);
  });
}

void layerNorm(float* out, float* saved, const float* x, const float* gain, const float* bias,
               int64_t rows, int64_t dim, float epsilon) {
  const Kernels& one = *mine->base;
  inRanges(rows, sampleUnit, 3 * nsOfElements(rows * dim), [&](int64_t r, int64_t n) {
    one.layerNorm(out + r * dim, saved + 2 * r, x + r * dim, gain, bias, n, dim, epsilon);
  });
}

void batchNorm(float* out, const float* x, const BatchNormColumns& columns, int64_t rows,
               int64_t width, bool relu) {
  const Kernels& one = *mine->base;
  inRanges(rows, 1, nsOfElements(rows * width), [&](int64_t r, int64_t n) {
    one.batchNorm(out + r * width, x + r * width, columns, n, width, relu);
  });
}

void dBatchNorm(float* dX, const float* dOut, const float* x, const BatchNormColumns& columns,
                const float* dMean, const float* dSlope, int64_t rows, int64_t width) {
  const Kernels& one = *mine->base;
  inRanges(rows, 1, 2 * nsOfElements(rows * width), [&](int64_t r, int64_t n) {
    const int64_t at = r * width;
    one.dBatchNorm(dX + at, dOut + at, x + at, columns, dMean, dSlope, n, width);
  });
}

void uniform(float* t, int64_t n, const uint32_t* key, uint32_t purpose, int64_t first,
             float scale) {
  const Kernels& one = *mine->base;
  inRanges(n, elementUnit, 2 * nsOfElements(n), [&](int64_t i, int64_t some) {
    one.uniform(t + i, some, key, purpose, first + i, scale);
  });
}

void dropout(float* x, int64_t n, const uint32_t* key, uint32_t purpose, uint32_t step,
             int64_t first, float keep, uint32_t limit) {
  const Kernels& one = *mine->base;
  inRanges(n, elementUnit, 2 * nsOfElements(n), [&](int64_t i, int64_t some) {
    one.dropout(x + i, some, key, purpose, step, first + i, keep, limit);
  });
}

void born(const Table& rows, const uint32_t* key, uint32_t purpose, float scale) {
  const Kernels& one = *mine->base;
  inRanges(rows.rows, elementUnit, 2 * nsOfElements(rows.rows * rows.dim),
           [&](int64_t r, int64_t n) { one.born(from(rows, r, n), key, purpose, scale); });
}

void pool(float* out, const Table* tables, const Bags& bags, int64_t first, int64_t count,
          int64_t columns) {
  const Kernels& one = *mine->base;
  const int64_t bagCount = bags.tables * bags.samples;
  if (bagCount == 0) return one.pool(out, tables, bags, first, count, columns);
  const double ids = bags.offsets[bagCount] - bags.offsets[0];
  const double dim = static_cast<double>(columns) / static_cast<double>(bags.tables);
  const double ns = (ids * (10 + 0.2 * dim) + 5.0 * bagCount) * count / bags.samples;
  inRanges(count, elementUnit, ns, [&](int64_t s, int64_t n) {
    one.pool(out + s * columns, tables, bags, first + s, n, columns);
  });
}

bool applyRows(const Table& rows, const float* dRows, const float* counts, bool whole) {
  const Kernels& one = *mine->base;
  std::atomic<bool> areFinite{true};
  inRanges(rows.rows, elementUnit, nsOfElements(rows.rows * rows.dim), [&](int64_t r, int64_t n) {
    if (!one.applyRows(from(rows, r, n), dRows + r * rows.dim, counts + r, whole)) {
      areFinite.store(false, std::memory_order_relaxed);
    }
  });
  return areFinite.load(std::memory_order_relaxed);
}

bool applyFlat(const Rule& rule, float* w, float* state, float* second, const float* g,
               int64_t n) {
  const Kernels& one = *mine->base;
  // LAMB's trust ratio is one number of the whole tensor.
  if (rule.isLamb()) return one.applyFlat(rule, w, state, second, g, n);
  std::atomic<bool> areFinite{true};
  inRanges(n, elementUnit, 3 * nsOfElements(n), [&](int64_t i, int64_t some) {
    if (!one.applyFlat(rule, w + i, state + i, second + i, g + i, some)) {
      areFinite.store(false, std::memory_order_relaxed);
    }
  });
  return areFinite.load(std::memory_order_relaxed);
}

void copyColumns(Columns out, Columns of, int64_t samples, int64_t columns) {
  const Kernels& one = *mine->base;
  inRanges(samples, 1, nsOfElements(samples * columns), [&](int64_t s, int64_t n) {
    one.copyColumns(from(out, s), from(of, s), n, columns);
  });
}

void copyRuns(Columns out, Columns of, int64_t samples, const int32_t* runs, int64_t count) {
  const Kernels& one = *mine->base;
  int64_t columns = 0;
  for (int64_t i = 0; i < count; i++) columns += runs[3 * i + 2];
  inRanges(samples, 1, nsOfElements(samples * columns), [&](int64_t s, int64_t n) {
    one.copyRuns(from(out, s), from(of, s), n, runs, count);
  });
}

void expandColumns(Columns out, Columns of, const int32_t* inverse, Optional<const int32_t> used,
                   int64_t samples, int64_t columns) {
  const Kernels& one = *mine->base;
  inRanges(samples, 1, nsOfElements(samples * columns), [&](int64_t s, int64_t n) {
    one.expandColumns(from(out, s), of, inverse + s, used, n, columns);
  });
}

void foldSubtrees(float* out, const float* const* parts, const Subtree* trees, int64_t count,
                  int64_t n) {
  const Kernels& one = *mine->base;
  inRanges(n, elementUnit, nsOfElements(count * n), [&](int64_t i, int64_t some) {
    std::vector<const float*> own(parts, parts + count);
    for (const float*& part : own) part += i;
    one.foldSubtrees(out + i, own.data(), trees, count, some);
  });
}

void foldPooled(Columns out, const PooledPart* parts, int64_t count, int64_t samples,
                int64_t columns, const int32_t* lengths, Precision precision,
                float scale) {
  const Kernels& one = *mine->base;
  const double ns = nsOfElements(count * samples * columns);
  inRanges(samples, 1, ns, [&](int64_t s, int64_t n) {
    std::vector<PooledPart> own(parts, parts + count);
    for (PooledPart& part : own) {
      if (part.from != nullptr) part.from += s * part.columns;
    }
    one.foldPooled(from(out, s), own.data(), count, n, columns,
                   lengths == nullptr ? nullptr : lengths + s, precision, scale);
  });
}

void shareColumns(Columns out, Columns of, int64_t samples, int64_t columns,
                  const int32_t* lengths) {
  const Kernels& one = *mine->base;
  inRanges(samples, 1, nsOfElements(samples * columns), [&](int64_t s, int64_t n) {
    one.shareColumns(from(out, s), from(of, s), n, columns, lengths + s);
  });
}

/// Bytes of a packed value, if packed samples follow each other; 0: exponents follow all codes.
int64_t packedBytes(Precision precision) {
  switch (precision) {
    case Precision::float32: return 4;
    case Precision::int8: return 0;
    case Precision::float8e4m3:
    case Precision::float8e5m2: return 1;
    default: return 2;
  }
}

void packColumns(void* to, Columns of, int64_t samples, int64_t columns, Precision precision,
                 float scale) {
  const Kernels& one = *mine->base;
  const int64_t bytes = packedBytes(precision);
  if (bytes == 0) return one.packColumns(to, of, samples, columns, precision, scale);
  inRanges(samples, 1, nsOfElements(samples * columns), [&](int64_t s, int64_t n) {
    one.packColumns(static_cast<char*>(to) + s * columns * bytes, from(of, s), n, columns,
                    precision, scale);
  });
}

void unpackColumns(Columns out, const void* of, int64_t samples, int64_t columns,
                   Precision precision, float scale) {
  const Kernels& one = *mine->base;
  const int64_t bytes = packedBytes(precision);
  if (bytes == 0) return one.unpackColumns(out, of, samples, columns, precision, scale);
  inRanges(samples, 1, nsOfElements(samples * columns), [&](int64_t s, int64_t n) {
    one.unpackColumns(from(out, s), static_cast<const char*>(of) + s * columns * bytes, n, columns,
                      precision, scale);
  });
}

void setInParts(Kernels& of) {
  of.linear = layer<&Kernels::linear>;
  of.linearPacked = layer<&Kernels::linearPacked>;
  of.linearBfloat16 = layer<&Kernels::linearBfloat16>;
  of.dRelu = oneInput<&Kernels::dRelu>;
  of.dLinearInput = dLayerInput<&Kernels::dLinearInput>;
  of.dLinearInputBfloat16 = dLayerInput<&Kernels::dLinearInputBfloat16>;
  of.interact = interact;
  of.dInteract = dInteract;
  of.add = twoInputs<&Kernels::add>;
  of.addBeside = addBeside;
  of.multiply = twoInputs<&Kernels::multiply>;
  of.dMultiply = dMultiply;
  of.multiplyAdd = multiplyAdd;
  of.relu = oneInput<&Kernels::relu>;
  of.scale = oneInputAndFactor<&Kernels::scale>;
  of.leakyRelu = oneInputAndFactor<&Kernels::leakyRelu>;
  of.dLeakyRelu = oneInputAndFactor<&Kernels::dLeakyRelu>;
  of.sigmoid = oneInput<&Kernels::sigmoid>;
  of.dSigmoid = oneInput<&Kernels::dSigmoid>;
  of.softmax = softmax;
  of.dSoftmax = dSoftmax;
  of.pairs = pairs;
  of.dPairsLeft = dPairs<&Kernels::dPairsLeft, true>;
  of.dPairsRight = dPairs<&Kernels::dPairsRight, false>;
  of.products = products;
  of.rankProducts = rankProducts;
  of.pairSum = pairSum;
  of.dPairSum = dPairSum;
  of.layerNorm = layerNorm;
  of.batchNorm = batchNorm;
  of.dBatchNorm = dBatchNorm;
  of.uniform = uniform;
  of.dropout = dropout;
  of.born = born;
  of.pool = pool;
  of.applyRows = applyRows;
  of.applyFlat = applyFlat;
  of.copyColumns = copyColumns;
  of.copyRuns = copyRuns;
  of.expandColumns = expandColumns;
  of.foldSubtrees = foldSubtrees;
  of.foldPooled = foldPooled;
  of.shareColumns = shareColumns;
  of.packColumns = packColumns;
  of.unpackColumns = unpackColumns;
}

}  // namespace

int64_t useThreads(int64_t threads, double partNs) {
  mine.reset();
  if (threads <= 1) return 1;
  mine = std::make_unique<Threads>(std::min(threads, threadsMax),
                                   partNs > 0 ? partNs : usualPartNs);
  return mine->pool.threads();
}

const Kernels& kernelsInParts(const Kernels& base) {
  if (mine == nullptr) return base;
  if (mine->base != &base) {
    mine->base = &base;
    mine->inParts = base;
    setInParts(mine->inParts);
  }
  return mine->inParts;
}

int64_t partsOf(double ns, int64_t most) {
  if (mine == nullptr || most <= 1) return 1;
  const int64_t worth = static_cast<int64_t>(ns / mine->partNs);
  const int64_t threads = mine->pool.threads();
  // Two parts a thread, where they are worth it: a thread that is late then runs fewer of them.
  const int64_t wanted = worth >= 2 * threads ? 2 * threads : std::min(worth, threads);
  return std::max<int64_t>(1, std::min(wanted, most));
}

void runParts(int64_t count, void (*run)(void* of, int64_t part), void* of) {
  mine->pool.run(count, run, of);
}

int64_t cutRows(RowRange* ranges, int64_t parts, const int32_t* ids, int64_t count, int64_t rows) {
  // Quantiles of a sample of the lookups: row numbers may be ordered by how often they occur.
  constexpr int64_t sampled = 512;
  int32_t sample[sampled];
  const int64_t taken = std::min(sampled, count);
  for (int64_t i = 0; i < taken; i++) sample[i] = ids[i * count / taken];
  std::sort(sample, sample + taken);
  int64_t cut = 0, first = 0;
  for (int64_t part = 1; part < parts && taken > 0; part++) {
    const int64_t end = sample[part * taken / parts];
    if (end <= first) continue;
    ranges[cut++] = {first, end};
    first = end;
  }
  ranges[cut++] = {first, rows};
  return cut;
}

}  // namespace osiris
