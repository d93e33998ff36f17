// Tests the kernels of the exchange: they copy, fold and pack columns in buffers of exact size.

#pragma once

#include "test/test-support.h"

namespace osiris::test {

inline void testColumns(const Kernels& k) {
  const int64_t samples = 1 + below(30), columns = below(70);
  const int64_t outStride = columns + below(9), fromStride = columns + below(9);
  Buffer out((samples - 1) * outStride + columns), from((samples - 1) * fromStride + columns);
  std::vector<float> expected(out.data(), out.data() + out.size());
  for (int64_t s = 0; s < samples; s++) {
    std::copy_n(from.data() + s * fromStride, columns, expected.data() + s * outStride);
  }
  k.copyColumns({out.data(), outStride}, {from.data(), fromStride}, samples, columns);
  expect(std::equal(expected.begin(), expected.end(), out.data()), k.name, "copyColumns");
  std::fill(out.data(), out.data() + out.size(), -1.0f);
  const int32_t half = static_cast<int32_t>(columns / 2);
  const int32_t rest = static_cast<int32_t>(columns) - half;
  const int32_t runs[] = {0, 0, half, half, half, rest};
  k.copyRuns({out.data(), outStride}, {from.data(), fromStride}, samples, runs, 2);
  bool same = true;
  for (int64_t s = 0; s < samples; s++) {
    const float* copied = out.data() + s * outStride;
    same = same && std::equal(copied, copied + columns, from.data() + s * fromStride);
  }
  expect(same, k.name, "copyRuns");
}

/// Expands distinct lists, and backward: lists without a sample get a zero gradient, as do columns
/// that a list does not have.
inline void testDistinctLists(const Kernels& k) {
  const int64_t samples = 1 + below(30), lists = 1 + below(9), columns = 1 + below(70);
  const int64_t outStride = columns + below(9), fromStride = columns + below(9);
  Buffer out((samples - 1) * outStride + columns), from((lists - 1) * fromStride + columns);
  std::vector<int32_t> inverse, some, all(lists, static_cast<int32_t>(columns));
  for (int64_t s = 0; s < samples; s++) inverse.push_back(static_cast<int32_t>(below(lists)));
  for (int64_t u = 0; u < lists; u++) some.push_back(static_cast<int32_t>(below(columns + 1)));
  const bool jagged = below(2) == 0;
  const std::vector<int32_t>& used = jagged ? some : all;
  k.expandColumns({out.data(), outStride}, {from.data(), fromStride}, inverse.data(),
                  jagged ? used.data() : nullptr, samples, columns);
  std::vector<float> sums(lists * columns);
  for (int64_t s = 0; s < samples; s++) {
    const int64_t u = inverse[s], n = used[u];
    const float* own = out.data() + s * outStride;
    expect(std::equal(own, own + n, from.data() + u * fromStride), k.name, "expandColumns");
    expect(std::all_of(own + n, own + columns, [](float value) { return value == 0; }), k.name,
           "expandColumns beyond the end");
    for (int64_t c = 0; c < n; c++) sums[u * columns + c] += own[c];
  }
  k.dExpandColumns({from.data(), fromStride}, lists, {out.data(), outStride}, inverse.data(),
                   jagged ? used.data() : nullptr, samples, columns);
  for (int64_t u = 0; u < lists; u++) {
    expect(std::equal(from.data() + u * fromStride, from.data() + u * fromStride + columns,
                      sums.data() + u * columns),
           k.name, "dExpandColumns");
  }
}

inline void testFold(const Kernels& k) {
  const int64_t n = 1 + below(1300);
  Buffer a(n), b(n), c(n), out(n);
  const float* const parts[] = {a.data(), b.data(), c.data()};
  const Subtree trees[] = {{0, 2}, {2, 1}, {3, 1}};
  k.foldSubtrees(out.data(), parts, trees, 3, n);
  for (int64_t i = 0; i < n; i++) expect(out[i] == a[i] + (b[i] + c[i]), k.name, "foldSubtrees");
}

/// Selects the largest elements into memory of exact size: no remaining element is larger, and
/// selected and remaining elements add up to the original vector.
inline void testLargest(const Kernels& k) {
  const int64_t n = 1 + below(1300), count = 1 + below(n);
  Buffer residual(n), sum(n), out(n);
  std::vector<float> expected(n);
  for (int64_t i = 0; i < n; i++) expected[i] = residual[i] + sum[i];
  std::vector<int32_t> indices(count);
  std::vector<uint16_t> codes(count);
  k.selectLargest(indices.data(), codes.data(), count, residual.data(), sum.data(), n);
  expect(std::is_sorted(indices.begin(), indices.end()), k.name, "selectLargest in order");
  std::fill(out.data(), out.data() + n, 0.0f);
  k.addSelected(out.data(), indices.data(), codes.data(), count);
  std::vector<bool> taken(n);
  for (const int32_t i : indices) taken[i] = true;
  float least = INFINITY, left = 0;
  for (int64_t i = 0; i < n; i++) {
    if (taken[i]) least = std::min(least, std::abs(expected[i]));
    else left = std::max(left, std::abs(expected[i]));
    expect(out[i] + residual[i] == expected[i], k.name, "selectLargest keeps the rest");
  }
  expect(left <= least, k.name, "selectLargest");
}

/// Folds three parts of eight blocks, and divides by lengths, compared with plain sums.
inline void testFoldPooled(const Kernels& k) {
  const int64_t samples = 1 + below(9), columns = 1 + below(100);
  Buffer a(samples * (columns + 3)), b(samples * columns), out(samples * (columns + 2));
  std::vector<int32_t> lengths;
  for (int64_t s = 0; s < samples; s++) lengths.push_back(static_cast<int32_t>(below(3)));
  const PooledPart parts[] = {{a.data() + 3, columns + 3, {0, 2}},
                              {nullptr, 0, {2, 2}},
                              {b.data(), columns, {4, 1}},
                              {b.data(), columns, {5, 1}},
                              {nullptr, 0, {6, 2}}};
  Buffer share(samples * columns);
  k.shareColumns({share.data(), columns}, {a.data() + 3, columns + 3}, samples, columns,
                 lengths.data());
  for (int precision = 0; precision < 6; precision++) {
    const double most = precision == 0 ? 1e-4 : precision < 4 ? 0.2 : 0.8;
    k.foldPooled({out.data() + 2, columns + 2}, parts, 5, samples, columns, lengths.data(),
                 static_cast<Precision>(precision), 4);
    for (int64_t s = 0; s < samples; s++) {
      const double length = lengths[s] > 0 ? lengths[s] : 1;
      for (int64_t c = 0; c < columns; c++) {
        const float left = a[s * (columns + 3) + 3 + c], right = b[s * columns + c];
        const double sum = (left + 2.0 * right) / length;
        const double actual = out[s * (columns + 2) + 2 + c];
        expect(std::abs(actual - sum) < most, k.name, "foldPooled");
        const double shared = lengths[s] > 0 ? left / length : 0;
        expect(near(share[s * columns + c], shared), k.name, "shareColumns");
      }
    }
  }
}

/// Packs into memory of exact size, and unpacks.
inline void testPacking(const Kernels& k) {
  const int64_t samples = 1 + below(9), columns = 1 + below(100);
  const int64_t width[] = {4, 2, 2, 1, 1, 1};
  const float most[] = {0, 1e-2f, 1e-2f, 1e-2f, 0.07f, 0.13f};
  for (int precision = 0; precision < 6; precision++) {
    const int64_t exponents = precision == 3 ? (columns + 31) / 32 : 0;
    std::vector<uint8_t> memory(samples * (columns * width[precision] + exponents));
    Buffer from(samples * columns), out(samples * (columns + 1));
    k.packColumns(memory.data(), {from.data(), columns}, samples, columns,
                  static_cast<Precision>(precision), 4);
    k.unpackColumns({out.data() + 1, columns + 1}, memory.data(), samples, columns,
                    static_cast<Precision>(precision), 4);
    for (int64_t s = 0; s < samples; s++) {
      for (int64_t c = 0; c < columns; c++) {
        const float before = from[s * columns + c], after = out[s * (columns + 1) + 1 + c];
        expect(std::abs(before - after) <= most[precision], k.name, "packColumns");
      }
    }
  }
}

/// A tile must be initialised like the same elements of its table: checks one row.
inline void testBorn(const Kernels& k) {
  const int64_t rows = 1 + below(9), dim = 1 + below(100), firstRow = below(1000);
  const int64_t firstColumn = 32 * below(3), tableDim = firstColumn + dim + 32 * below(2);
  const uint32_t key[2] = {1, 2};
  for (int precision = 0; precision < 4; precision++) {
    Buffer weights(precision == 0 ? rows * dim : 0), drawn(tableDim), out(dim);
    std::vector<uint8_t> codes(precision == 3 ? rows * dim : 2 * rows * dim);
    std::vector<int8_t> exponents(precision == 3 ? rows * ((dim + 31) / 32) : 0);
    std::vector<uint8_t> touched(rows);
    Table t{weights.data(), nullptr, touched.data(), rows, dim, 0, false, 1, 0, {},
            static_cast<Precision>(precision), codes.data(), exponents.data(), rows, firstRow,
            firstColumn, tableDim};
    k.born(t, key, 3, 0.5f);
    const int64_t row = below(rows);
    k.uniform(drawn.data(), tableDim, key, 3, (firstRow + row) * tableDim, 0.5f);
    const int32_t offsets[] = {0, 1}, ids[] = {static_cast<int32_t>(row)};
    k.pool(out.data(), &t, {1, 1, offsets, ids, nullptr}, 0, 1, dim);
    for (int64_t c = 0; c < dim; c++) {
      const float expected = drawn[firstColumn + c];
      const double most = precision == 0 ? 0 : 1e-2;
      expect(std::abs(out[c] - expected) <= most, k.name, "born");
    }
  }
}

}  // namespace osiris::test
