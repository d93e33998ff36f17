// Tests lookups and updates of tables on random shapes, compared with plain loops in double, and
// the narrowing of 64-bit ids.

#pragma once

#include "bindings/ids.h"
#include "test/test-support.h"

namespace osiris::test {

inline int64_t stateWidth(RuleKind kind, int64_t dim) {
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

/// Lookups are sorted by row, and lookups of the same row by sample, as std::sort sorts them. The
/// row counts of the tables are chosen so that the radix sort takes one, two and three passes.
inline void testOrderOfLookups(const Kernels& k) {
  for (const int64_t rows : {1 << 11, 1 << 22, (1 << 22) + 5, 1 << 24, 1 << 27}) {
    for (const int64_t samples : {300, 9000}) {
      std::vector<int32_t> ids, offsets{0};
      std::vector<uint64_t> expected, order(samples);
      for (int64_t s = 0; s < samples; s++) {
        // Many rows far apart, and some rows with many lookups.
        ids.push_back(static_cast<int32_t>(below(2) == 0 ? below(rows) : rows - 1 - below(9)));
        offsets.push_back(static_cast<int32_t>(s + 1));
        expected.push_back(static_cast<uint64_t>(ids.back()) << 32 | static_cast<uint64_t>(s));
      }
      std::sort(expected.begin(), expected.end());
      Table table{};
      table.rows = rows;
      table.dim = 1;
      table.rule.kind = RuleKind::rowWiseAdagrad;
      Buffer d(samples);
      const int32_t bounds[] = {0, static_cast<int32_t>(samples)};
      const Bags bags{1, samples, offsets.data(), ids.data(), nullptr};
      float* squares = nullptr;
      k.rowSquares(&squares, &table, 0, bags, d.data(), 1, {0, 1, bounds}, order.data());
      expect(order == expected, k.name, "order of lookups");
    }
  }
}

/// Updates tables of all kinds. SGD is compared with a scatter in double; the other rules only run.
inline void testEmbedding(const Kernels& k, RuleKind kind) {
  const int64_t samples = 1 + below(40), count = int64_t{1} << below(5), tableCount = 3;
  const int64_t dims[] = {1 + below(80), int64_t{16} << below(5), 32};
  const int64_t rows[] = {1 + below(20), 5000, 1};
  int64_t columns = 0;
  std::vector<int32_t> offsets{0}, ids;
  std::vector<std::vector<double>> expected;
  std::vector<Buffer> memory;
  memory.reserve(2 * tableCount);
  std::vector<std::vector<uint8_t>> touched;
  std::vector<Table> tables;
  for (int64_t t = 0; t < tableCount; t++) {
    const int64_t width = stateWidth(kind, dims[t]) + dims[t] + 1;  // Averaged after `pool`.
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
    rule.average = {0.9, 5};
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
  for (Table& table : tables) table.averaged = true;
  k.pool(out.data(), tables.data(), bags, 0, samples, columns);
  const auto bounds = boundsOf(count, samples);
  const Slices slices{0, count, bounds.data()};
  float* squares = nullptr;
  const int64_t sums = k.rowSquares(&squares, tables.data(), 0, bags, d.data(), columns, slices,
                                    nullptr);
  const int32_t quanta = static_cast<int32_t>((dims[0] + 31) / 32), parts[] = {quanta, quanta};
  const float* const halves[] = {squares, squares};
  Buffer means(sums / quanta);
  k.rowMeans(means.data(), halves, parts, 2, means.size(), 2);
  for (int64_t row = 0; row < means.size(); row++) {
    double mean = 0;
    for (int64_t q = 0; q < quanta; q++) mean += squares[row * quanta + q];
    expect(near(means[row], mean), k.name, "rowMeans");
  }
  if (tables[0].rule.isLamb()) {
    double* norms = nullptr;
    k.rowNorms(&norms, tables.data(), 0, bags, d.data(), columns, slices, nullptr);
  }
  Buffer dRows(rows[0] * dims[0]), counts(rows[0]);
  float* const dRowsOf[] = {dRows.data()};
  float* const countsOf[] = {counts.data()};
  k.dRows(dRowsOf, countsOf, tables.data(), 0, bags, d.data(), columns, slices);
  k.updateRows(tables.data(), bags, d.data(), columns, slices, nullptr, nullptr, nullptr);
  for (int64_t t = 0; t < tableCount && kind == RuleKind::sgd; t++) {
    for (int64_t i = 0; i < rows[t] * dims[t]; i++) {
      expect(near(tables[t].weights[i], expected[t][i]), k.name, "updateRows");
    }
  }
  k.applyRows(tables[0], dRows.data(), counts.data(), true);
}

/// Reads and updates rows with coded weights: all weights are 1, and the update gives an exact
/// value.
inline void testCodes(const Kernels& k, Precision precision) {
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
  k.rowSquares(&squares, &table, 0, bags, d.data(), dim, slices, nullptr);
  const int64_t bad = k.updateRows(&table, bags, d.data(), dim, slices, nullptr, nullptr, nullptr);
  expect(bad == -1, k.name, "updateRows, rows that are finite");
  k.pool(after.data(), &table, bags, 0, samples, dim);
  for (int64_t i = 0; i < out.size(); i++) {
    expect(out[i] == 1, k.name, "pool of codes");
    // 1 - 0.5 * 0.25 * 1, which all three precisions hold exactly.
    expect(after[i] == 0.875f, k.name, "updateRows of codes");
  }
}

/// Narrows 64-bit ids in buffers of exact size; then replaces one of them by an invalid id.
inline void testNarrow() {
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

}  // namespace osiris::test
