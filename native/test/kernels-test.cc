// Random shapes through every kernel of every instruction set, under the sanitizers: arguments lie
// in buffers of their exact size between guard words, and results are compared with naive loops.

#define OSIRIS_KERNELS_ONLY
#include "kernels.cc"
#include "bindings/ids.h"
#include "tiers/record-file.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace osiris;

std::mt19937_64 engine(20240607);
int failures = 0;

int64_t below(int64_t limit) {
  return static_cast<int64_t>(engine() % static_cast<uint64_t>(limit));
}

void expect(bool good, const char* isa, const char* what) {
  if (good) return;
  failures++;
  std::fprintf(stderr, "%s: %s is wrong\n", isa, what);
}

/// Floats between guard words; the sanitizer watches the heap around them.
class Buffer {
 public:
  explicit Buffer(int64_t n, bool filled = true) : words_(static_cast<size_t>(n) + 2 * guards) {
    std::fill(words_.begin(), words_.end(), guard);
    for (int64_t i = 0; i < n; i++) {
      data()[i] = filled ? static_cast<float>(below(2001) - 1000) / 1000 : 0.0f;
    }
  }
  ~Buffer() {
    for (size_t i = 0; i < guards; i++) {
      expect(words_[i] == guard && words_[words_.size() - 1 - i] == guard, "any", "a guard word");
    }
  }
  float* data() { return words_.data() + guards; }
  float& operator[](int64_t i) { return data()[i]; }
  int64_t size() const { return static_cast<int64_t>(words_.size() - 2 * guards); }

 private:
  static constexpr size_t guards = 4;
  static constexpr float guard = 12345.678f;
  std::vector<float> words_;
};

bool near(float a, double b) { return std::abs(a - b) <= 1e-4 * std::max(1.0, std::abs(b)); }

std::vector<int32_t> boundsOf(int64_t slices, int64_t samples) {
  std::vector<int32_t> bounds;
  for (int64_t i = 0; i <= slices; i++) {
    bounds.push_back(static_cast<int32_t>(i * samples / slices));
  }
  return bounds;
}

/// Mostly few, now and then more than a block of a product takes at once.
int64_t someInputs() { return 1 + below(below(4) == 0 ? 1300 : 200); }

void testColumns(const Kernels& k) {
  const int64_t samples = 1 + below(30), columns = below(70);
  const int64_t outStride = columns + below(9), fromStride = columns + below(9);
  Buffer out((samples - 1) * outStride + columns), from((samples - 1) * fromStride + columns);
  std::vector<float> expected(out.data(), out.data() + out.size());
  for (int64_t s = 0; s < samples; s++) {
    std::copy_n(from.data() + s * fromStride, columns, expected.data() + s * outStride);
  }
  k.copyColumns(out.data(), outStride, from.data(), fromStride, samples, columns);
  expect(std::equal(expected.begin(), expected.end(), out.data()), k.name, "copyColumns");
}

void testLayer(const Kernels& k) {
  const int64_t samples = 1 + below(90), inputs = someInputs(), outputs = 1 + below(100);
  Buffer x(samples * inputs), w(outputs * inputs), b(outputs), out(samples * outputs);
  k.linear(out.data(), x.data(), w.data(), b.data(), samples, inputs, outputs, true);
  for (int64_t s = 0; s < samples; s++) {
    for (int64_t o = 0; o < outputs; o++) {
      double sum = b[o];
      for (int64_t i = 0; i < inputs; i++) sum += 1.0 * x[s * inputs + i] * w[o * inputs + i];
      expect(near(out[s * outputs + o], std::max(sum, 0.0)), k.name, "linear");
    }
  }
  Buffer d(samples * outputs), dX(samples * inputs);
  k.dRelu(d.data(), out.data(), d.size());
  k.dLinearInput(dX.data(), d.data(), w.data(), samples, inputs, outputs);
  for (int64_t s = 0; s < samples; s++) {
    for (int64_t i = 0; i < inputs; i++) {
      double sum = 0;
      for (int64_t o = 0; o < outputs; o++) sum += 1.0 * d[s * outputs + o] * w[o * inputs + i];
      expect(near(dX[s * inputs + i], sum), k.name, "dLinearInput");
    }
  }
  const int64_t count = int64_t{1} << below(5);
  const auto bounds = boundsOf(count, samples);
  Buffer dW(outputs * inputs), dB(outputs);
  float* const dWs[] = {dW.data()};
  float* const dBs[] = {dB.data()};
  k.dLinearWeight(dWs, dBs, d.data(), x.data(), inputs, outputs, {0, count, bounds.data()});
  for (int64_t o = 0; o < outputs; o++) {
    double bias = 0;
    for (int64_t s = 0; s < samples; s++) bias += d[s * outputs + o];
    expect(near(dB[o], bias), k.name, "dLinearWeight, bias");
    for (int64_t i = 0; i < inputs; i++) {
      double sum = 0;
      for (int64_t s = 0; s < samples; s++) sum += 1.0 * d[s * outputs + o] * x[s * inputs + i];
      expect(near(dW[o * inputs + i], sum), k.name, "dLinearWeight");
    }
  }
}

float toBfloat16(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

/// The three products of bfloat16 operands, on one slice.
void testBfloat16(const Kernels& k) {
  const int64_t samples = 1 + below(90), inputs = someInputs(), outputs = 1 + below(100);
  Buffer x(samples * inputs), w(outputs * inputs), b(outputs), out(samples * outputs);
  Buffer d(samples * outputs), dX(samples * inputs), dW(outputs * inputs), dB(outputs);
  const int64_t count = int64_t{1} << below(5);
  const auto bounds = boundsOf(count, samples);
  float* const dWs[] = {dW.data()};
  float* const dBs[] = {dB.data()};
  k.linearBfloat16(out.data(), x.data(), w.data(), b.data(), samples, inputs, outputs, false);
  k.dLinearInputBfloat16(dX.data(), d.data(), w.data(), samples, inputs, outputs);
  k.dLinearWeightBfloat16(dWs, dBs, d.data(), x.data(), inputs, outputs,
                          {0, count, bounds.data()});
  for (Buffer* operand : {&x, &w, &d}) {
    for (int64_t i = 0; i < operand->size(); i++) (*operand)[i] = toBfloat16((*operand)[i]);
  }
  const auto sum = [](double start, int64_t n, auto&& term) {
    for (int64_t i = 0; i < n; i++) start += term(i);
    return start;
  };
  for (int64_t s = 0; s < samples; s++) {
    for (int64_t o = 0; o < outputs; o++) {
      const auto term = [&](int64_t i) { return 1.0 * x[s * inputs + i] * w[o * inputs + i]; };
      expect(near(out[s * outputs + o], sum(b[o], inputs, term)), k.name, "linear, bfloat16");
    }
    for (int64_t i = 0; i < inputs; i++) {
      const auto term = [&](int64_t o) { return 1.0 * d[s * outputs + o] * w[o * inputs + i]; };
      expect(near(dX[s * inputs + i], sum(0, outputs, term)), k.name, "dLinearInput, bfloat16");
    }
  }
  for (int64_t o = 0; o < outputs; o++) {
    for (int64_t i = 0; i < inputs; i++) {
      const auto term = [&](int64_t s) { return 1.0 * d[s * outputs + o] * x[s * inputs + i]; };
      expect(near(dW[o * inputs + i], sum(0, samples, term)), k.name, "dLinearWeight, bfloat16");
    }
  }
}

void testInteraction(const Kernels& k) {
  const int64_t samples = 1 + below(3), features = 1 + below(40), dim = 1 + below(70);
  const int64_t copied = below(features + 1), pairs = features * (features - 1) / 2;
  const int64_t width = copied * dim + pairs;
  Buffer x(samples * features * dim), out(samples * width), d(samples * width);
  Buffer dX(samples * features * dim);
  k.interact(out.data(), x.data(), samples, features, dim, copied, true);
  k.dInteract(dX.data(), d.data(), x.data(), samples, features, dim, copied, true);
  for (int64_t s = 0; s < samples; s++) {
    const float* xs = x.data() + s * features * dim;
    for (int64_t i = 0; i < features; i++) {
      for (int64_t j = 0; j < i; j++) {
        double sum = 0;
        for (int64_t c = 0; c < dim; c++) sum += 1.0 * xs[i * dim + c] * xs[j * dim + c];
        expect(near(out[s * width + copied * dim + i * (i - 1) / 2 + j], sum), k.name, "interact");
      }
      for (int64_t c = 0; c < dim; c++) {
        double sum = i < copied ? d[s * width + i * dim + c] : 0;
        for (int64_t j = 0; j < features; j++) {
          if (j == i) continue;
          const int64_t high = std::max(i, j), low = std::min(i, j);
          const int64_t pair = s * width + copied * dim + high * (high - 1) / 2 + low;
          sum += 1.0 * d[pair] * xs[j * dim + c];
        }
        expect(near(dX[(s * features + i) * dim + c], sum), k.name, "dInteract");
      }
    }
  }
  const uint32_t key[2] = {1, 2};
  k.uniform(x.data(), x.size(), key, 3, below(1000), 0.5f);
  for (int64_t i = 0; i < x.size(); i++) expect(std::abs(x[i]) <= 0.5f, k.name, "uniform");
  k.dropout(d.data(), d.size(), key, 3, 4, below(1000), 0.5f, 1u << 31);
}

int64_t stateWidth(RuleKind kind, int64_t dim) {
  switch (kind) {
    case RuleKind::sgd: return 0;
    case RuleKind::rowWiseAdagrad: return 1;
    case RuleKind::momentum:
    case RuleKind::adagrad: return dim;
    case RuleKind::partialRowWiseAdam:
    case RuleKind::partialRowWiseLamb: return dim + 1;
    default: return 2 * dim;
  }
}

/// SGD on tables of all kinds, compared with a scatter in double; the other rules only run.
void testEmbedding(const Kernels& k, RuleKind kind) {
  const int64_t samples = 1 + below(40), count = int64_t{1} << below(5), tableCount = 3;
  const int64_t dims[] = {1 + below(80), 16, 32};
  const int64_t rows[] = {1 + below(20), 5000, 1};
  int64_t columns = 0;
  std::vector<int32_t> offsets{0}, ids;
  std::vector<std::vector<double>> expected;
  std::vector<Buffer> memory;
  memory.reserve(2 * tableCount);
  std::vector<std::vector<uint8_t>> touched;
  std::vector<Table> tables;
  for (int64_t t = 0; t < tableCount; t++) {
    const int64_t width = stateWidth(kind, dims[t]);
    touched.emplace_back(rows[t]);
    memory.emplace_back(rows[t] * dims[t]);
    memory.emplace_back(rows[t] * width, false);
    Rule rule{};
    rule.kind = kind;
    rule.rate = rule.momentum = rule.root2 = 0.5f;
    rule.unit = rule.kept = rule.beta = rule.lambda1 = rule.lambda2 = 1;
    rule.epsilon = 1e-3f;
    rule.beta1 = rule.beta2 = 0.9f;
    rule.rest1 = rule.rest2 = 0.1f;
    tables.push_back({memory[2 * t].data(), memory[2 * t + 1].data(), touched[t].data(), rows[t],
                      dims[t], width, t == 0, int64_t{1} << below(3), columns, rule});
    Table& table = tables.back();
    table.blockRows = (table.rows + table.blocks - 1) / table.blocks;
    table.tableDim = table.dim;
    columns += dims[t];
    for (int64_t s = 0; s < samples; s++) {
      for (int64_t i = below(4); i > 0; i--) ids.push_back(static_cast<int32_t>(below(rows[t])));
      offsets.push_back(static_cast<int32_t>(ids.size()));
    }
  }
  Buffer weights(static_cast<int64_t>(ids.size()));
  const bool weighted = below(2) == 0;
  const Bags bags{tableCount, samples, offsets.data(), ids.data(),
                  weighted ? weights.data() : nullptr};
  const auto weightOf = [&](int32_t i) { return weighted ? weights[i] : 1.0f; };
  Buffer out(samples * columns), d(samples * columns);
  k.pool(out.data(), tables.data(), bags, 0, samples, columns);
  for (int64_t t = 0; t < tableCount; t++) {
    const Table& table = tables[t];
    expected.emplace_back(table.weights, table.weights + table.rows * table.dim);
    for (int64_t s = 0; s < samples; s++) {
      const int32_t from = offsets[t * samples + s], to = offsets[t * samples + s + 1];
      const double share = table.mean && to > from ? 1.0 / (to - from) : 1;
      for (int64_t c = 0; c < table.dim; c++) {
        double sum = 0;
        for (int32_t i = from; i < to; i++) {
          sum += weightOf(i) * table.weights[ids[i] * table.dim + c];
        }
        const int64_t at = s * columns + table.column + c;
        expect(near(out[at], sum * share), k.name, "pool");
        for (int32_t i = from; i < to; i++) {
          expected[t][ids[i] * table.dim + c] -= 0.5 * share * weightOf(i) * d[at];
        }
      }
    }
  }
  const auto bounds = boundsOf(count, samples);
  const Slices slices{0, count, bounds.data()};
  float* squares = nullptr;
  k.rowSquares(&squares, tables[0], 0, bags, d.data(), columns, slices);
  if (tables[0].rule.isLamb()) {
    double* norms = nullptr;
    k.rowNorms(&norms, tables[0], 0, bags, d.data(), columns, slices, nullptr);
  }
  Buffer dRows(rows[0] * dims[0]), counts(rows[0]);
  float* const dRowsOf[] = {dRows.data()};
  float* const countsOf[] = {counts.data()};
  k.dRows(dRowsOf, countsOf, tables[0], 0, bags, d.data(), columns, slices);
  k.updateRows(tables.data(), bags, d.data(), columns, slices, nullptr);
  for (int64_t t = 0; t < tableCount && kind == RuleKind::sgd; t++) {
    for (int64_t i = 0; i < rows[t] * dims[t]; i++) {
      expect(near(tables[t].weights[i], expected[t][i]), k.name, "updateRows");
    }
  }
  k.applyRows(tables[0], dRows.data(), counts.data(), true);
}

/// A table in fewer bits: its float16 rows are read right, and an update moves them by its step.
void testCodes(const Kernels& k, Precision precision) {
  const int64_t rows = 1 + below(30), dim = 1 + below(150), samples = 1 + below(20);
  const int64_t bytes = precision == Precision::int8 ? 1 : 2;
  std::vector<uint8_t> memory(static_cast<size_t>(rows * dim * bytes)), touched(rows);
  std::vector<int8_t> exponents(precision == Precision::int8 ? rows * ((dim + 31) / 32) : 0);
  std::vector<uint16_t> ones(rows * dim, precision == Precision::float16 ? 0x3c00 : 0x3f80);
  if (bytes == 2) std::memcpy(memory.data(), ones.data(), memory.size());
  else std::fill(memory.begin(), memory.end(), 1);
  Rule rule{};
  rule.rate = 0.5f;
  rule.l2 = 0.25f;
  rule.kept = 1;
  Table table{nullptr, nullptr, touched.data(), rows, dim, 0, false, 1, 0, rule,
              precision, memory.data(), exponents.data(), rows, below(1000), 32 * below(3)};
  table.tableDim = table.firstColumn + dim + 32 * below(2);
  std::vector<int32_t> offsets{0}, ids;
  for (int64_t s = 0; s < samples; s++) {
    ids.push_back(static_cast<int32_t>(below(rows)));
    offsets.push_back(static_cast<int32_t>(ids.size()));
  }
  const Bags bags{1, samples, offsets.data(), ids.data(), nullptr};
  Buffer out(samples * dim), d(samples * dim, false), after(samples * dim);
  k.pool(out.data(), &table, bags, 0, samples, dim);
  const auto bounds = boundsOf(1, samples);
  const Slices slices{0, 1, bounds.data()};
  float* squares = nullptr;
  k.rowSquares(&squares, table, 0, bags, d.data(), dim, slices);
  const int64_t bad = k.updateRows(&table, bags, d.data(), dim, slices, nullptr);
  expect(bad == -1, k.name, "updateRows, rows that are finite");
  k.pool(after.data(), &table, bags, 0, samples, dim);
  for (int64_t i = 0; i < out.size(); i++) {
    expect(out[i] == 1, k.name, "pool of codes");
    // 1 - 0.5 * 0.25 * 1, which all three hold exactly.
    expect(after[i] == 0.875f, k.name, "updateRows of codes");
  }
}

#include "test/exchange-test.h"
#include "test/cache-test.h"
#include "test/record-file-test.h"

/// Ids of 64 bits in buffers of their exact size; then one of them is no row of its table.
void testNarrow() {
  const int64_t samples = 1 + below(20), tableCount = 1 + below(3);
  std::vector<Table> tables(tableCount);
  std::vector<int32_t> offsets{0};
  std::vector<int64_t> ids;
  for (Table& t : tables) {
    t.rows = 1 + below(int64_t{1} << (1 + below(31)));
    for (int64_t s = 0; s < samples; s++) {
      for (int64_t i = 1 + below(3); i > 0; i--) ids.push_back(below(t.rows));
      offsets.push_back(static_cast<int32_t>(ids.size()));
    }
  }
  std::vector<int32_t> rows(ids.size());
  int64_t table = 0;
  const auto narrow = [&] {
    return narrowIds(rows.data(), ids.data(), offsets.data(), samples, tables.data(), tableCount,
                     table);
  };
  expect(narrow() == -1, "any", "narrowIds");
  expect(std::equal(ids.begin(), ids.end(), rows.begin()), "any", "narrowIds, its rows");
  const int64_t at = below(static_cast<int64_t>(ids.size()));
  int64_t owner = 0;
  while (offsets[(owner + 1) * samples] <= at) owner++;
  for (int64_t id : {tables[owner].rows, int64_t{-1}, ids[at] + (int64_t{1} << 32), INT64_MIN}) {
    ids[at] = id;
    expect(narrow() == at && table == owner, "any", "narrowIds, an id that is no row");
  }
}

}  // namespace

int main() {
  for (int round = 0; round < 50; round++) testNarrow();
  for (int round = 0; round < 50; round++) testRecordFile();
  for (const char* isa : {"avx512bf16", "avx512", "avx2", "portable"}) {
    const Kernels* kernels = kernelsOf(isa);
    if (kernels == nullptr) continue;
    for (int round = 0; round < 12; round++) {
      testColumns(*kernels);
      testLayer(*kernels);
      testBfloat16(*kernels);
      testInteraction(*kernels);
      testFold(*kernels);
      testFoldPooled(*kernels);
      testPacking(*kernels);
      testBorn(*kernels);
      for (int i = 0; i < 10; i++) testCache(*kernels);
      for (int kind = 0; kind < 4; kind++) testRecords(*kernels, static_cast<Precision>(kind));
      for (int kind = 1; kind < 4; kind++) testCodes(*kernels, static_cast<Precision>(kind));
      for (int kind = 0; kind < 9; kind++) testEmbedding(*kernels, static_cast<RuleKind>(kind));
    }
    std::printf("osiris: the %s kernels are clean\n", isa);
  }
  return failures == 0 ? 0 : 1;
}
