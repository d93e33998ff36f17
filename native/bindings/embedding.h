// Bindings of the kernels of embedding tables, and of sums over devices, that take lists.

#pragma once

#include "bindings/arguments.h"
#include "bindings/running.h"

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

/// means, trusts: for each table, the completed means and trust ratios of its rows, or an empty
/// array; no lists where the rows are whole. Returns the first table with a row that is no longer
/// finite, or -1.
inline int64_t updateRows(const Lookups& of, const float* dPooled, const Slices& slices,
                          const FloatLists& means, const FloatLists& trusts) {
  std::vector<Completed> completed;
  for (size_t t = 0; t < means.of.size(); t++) completed.push_back({means.of[t], trusts.of[t]});
  const Completed* known = completed.empty() ? nullptr : completed.data();
  return running().updateRows(of.tables.data(), of.bags, dPooled, of.columns, slices, known);
}

/// dPooled: the columns of the one table that is looked up.
inline Copied<float> rowSquares(const Lookups& of, Columns dPooled, const Slices& slices) {
  float* squares = nullptr;
  const int64_t count = running().rowSquares(&squares, of.tables.data(), 0, of.bags, dPooled.at,
                                             dPooled.stride, slices);
  return {squares, count};
}

inline Copied<double> rowNorms(const Lookups& of, Columns dPooled, const Slices& slices,
                               Optional<const float> means) {
  double* norms = nullptr;
  const int64_t count = running().rowNorms(&norms, of.tables.data(), 0, of.bags, dPooled.at,
                                           dPooled.stride, slices, means);
  return {norms, count};
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
