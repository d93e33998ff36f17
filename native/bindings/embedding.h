// Bindings of the kernels of embedding tables, and of sums over devices, that take lists.

#pragma once

#include "bindings/arguments.h"
#include "bindings/running.h"
#include "embedding/colliding.h"

namespace osiris::binding {

/// With an average, pools moving averages.
inline void pool(float* out, Lookups& of, int64_t first, int64_t count,
                 const std::optional<Average>& average) {
  for (Table& table : of.tables) {
    table.averaged = average.has_value();
    table.rule.average = average.value_or(Average{});
  }
  running().pool(out, of.tables.data(), of.bags, first, count, of.columns);
}

/// Pools some samples: their bags are copied side by side first.
inline void poolAt(float* out, Lookups& of, const Array<const int32_t>& places) {
  static thread_local std::vector<int32_t> offsets, ids;
  static thread_local std::vector<float> weights;
  const Bags& bags = of.bags;
  offsets.assign(1, 0);
  ids.clear();
  weights.clear();
  for (int64_t table = 0; table < bags.tables; table++) {
    for (int64_t i = 0; i < places.length; i++) {
      const int32_t* bag = bags.offsets + table * bags.samples + places.data[i];
      ids.insert(ids.end(), bags.ids + bag[0], bags.ids + bag[1]);
      if (bags.weights != nullptr) {
        weights.insert(weights.end(), bags.weights + bag[0], bags.weights + bag[1]);
      }
      offsets.push_back(static_cast<int32_t>(ids.size()));
    }
  }
  for (Table& table : of.tables) table.averaged = false;
  const float* weighted = bags.weights == nullptr ? nullptr : weights.data();
  const Bags some{bags.tables, places.length, offsets.data(), ids.data(), weighted};
  running().pool(out, of.tables.data(), some, 0, places.length, of.columns);
}

/// offsets, ids, weights: the bags of the current batch.
inline int64_t collidingBags(const Array<int32_t>& out, const Lookups& next,
                             const Array<const int32_t>& offsets, const int32_t* ids,
                             Optional<float>) {
  const int64_t tables = next.bags.tables;
  const int64_t samples = tables == 0 ? 0 : (offsets.length - 1) / tables;
  const Bags current{tables, samples, offsets.data, ids, nullptr};
  return osiris::collidingBags(out.data, out.length, next.tables.data(), next.bags, current);
}

/// The memory of an order of lookups (src/kernels/contract/tables.ts), as the kernels use it.
inline uint64_t* wordsOf(Optional<double> order) {
  return reinterpret_cast<uint64_t*>(static_cast<double*>(order));
}

inline std::string wrongSums(const WrongSums& of) {
  return "Expected a sum for each of " + std::to_string(of.rows) + " distinct rows, got " +
         std::to_string(of.sums);
}

/// means, trusts: for each table, the completed means and trust ratios of its rows, or an empty
/// array; no lists where the rows are whole. Returns the first table with a row that is no longer
/// finite, or -1. Refuses another number of sums than of distinct rows.
inline Refusable<int64_t> updateRows(const Lookups& of, const float* dPooled,
                                     const Slices& slices,
                                     const FloatLists& means, const FloatLists& trusts,
                                     Optional<double> order) {
  std::vector<Completed> completed;
  for (size_t t = 0; t < means.of.size(); t++) {
    const int64_t mean = means.lengths[t], trust = trusts.lengths[t];
    if (mean > 0 && trust > 0 && mean != trust) return {-1, wrongSums({mean, trust})};
    const int64_t rows = mean + trust == 0 ? -1 : mean > 0 ? mean : trust;
    completed.push_back({means.of[t], trusts.of[t], rows});
  }
  const Completed* known = completed.empty() ? nullptr : completed.data();
  WrongSums wrong;
  const int64_t bad = running().updateRows(of.tables.data(), of.bags, dPooled, of.columns, slices,
                                           known, wordsOf(order), &wrong);
  return {bad, wrong.rows == wrong.sums ? std::string() : wrongSums(wrong)};
}

/// Concatenates the sums of all tables in `all`. sumsOf(&sums, index) returns the number of sums of
/// the table at an index, and sets their address; `counts` receives the number of each table.
template <typename Sum, typename SumsOf>
inline Copied<Sum> joined(std::vector<Sum>& all, const Lookups& of, Optional<int32_t> counts,
                          const SumsOf& sumsOf) {
  all.clear();
  const int64_t tables = static_cast<int64_t>(of.tables.size());
  for (int64_t index = 0; index < tables; index += of.tables[index].lookups) {
    Sum* sums = nullptr;
    const int64_t count = sumsOf(&sums, index);
    all.insert(all.end(), sums, sums + count);
    if (counts != nullptr) counts[index] = static_cast<int32_t>(count);
  }
  return {all.data(), static_cast<int64_t>(all.size())};
}

/// dPooled: the columns of the tables that are looked up.
inline Copied<float> rowSquares(const Lookups& of, Columns dPooled, const Slices& slices,
                                Optional<int32_t> counts, Optional<double> order) {
  static thread_local std::vector<float> all;
  return joined(all, of, counts, [&](float** squares, int64_t index) {
    return running().rowSquares(squares, of.tables.data(), index, of.bags, dPooled.at,
                                dPooled.stride, slices, wordsOf(order));
  });
}

inline void rowMeans(float* out, const FloatLists& squares, const int32_t* quanta, int64_t rows,
                     int64_t dim) {
  running().rowMeans(out, squares.of.data(), quanta, squares.count(), rows, dim);
}

/// means: of the rows of all tables, one table after the other.
inline Copied<double> rowNorms(const Lookups& of, Columns dPooled, const Slices& slices,
                               Optional<const float> means, Optional<int32_t> counts) {
  static thread_local std::vector<double> all;
  const float* next = means;
  return joined(all, of, counts, [&](double** norms, int64_t index) {
    const int64_t count = running().rowNorms(norms, of.tables.data(), index, of.bags, dPooled.at,
                                             dPooled.stride, slices, next);
    if (next != nullptr) next += count / (2 * ((of.tables[index].dim + 31) / 32));
    return count;
  });
}

inline void dRows(float* const* dRows, float* const* counts, const Lookups& of, Columns dPooled,
                  const Slices& slices) {
  running().dRows(dRows, counts, of.tables.data(), 0, of.bags, dPooled.at, dPooled.stride, slices);
}

/// Returns whether all rows are finite.
inline bool applyRows(Table rows, const Rule& rule, const float* dRows, const float* counts,
                      bool whole) {
  rows.rule = rule;
  return running().applyRows(rows, dRows, counts, whole);
}

}  // namespace osiris::binding
