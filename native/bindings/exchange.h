// Bindings of the kernels that take some columns of tensors, or lists of them.

#pragma once

#include "bindings/arguments.h"
#include "bindings/running.h"

namespace osiris::binding {

inline void copyColumns(Columns out, Columns from, int64_t samples, int64_t columns) {
  running().copyColumns(out.at, out.stride, from.at, from.stride, samples, columns);
}

inline void expandColumns(Columns out, Columns from, const int32_t* inverse, const int32_t* used,
                          int64_t samples, int64_t columns) {
  running().expandColumns(out.at, out.stride, from.at, from.stride, inverse, used, samples,
                          columns);
}

inline void dExpandColumns(Columns dFrom, int64_t lists, Columns dOut, const int32_t* inverse,
                           const int32_t* used, int64_t samples, int64_t columns) {
  running().dExpandColumns(dFrom.at, dFrom.stride, lists, dOut.at, dOut.stride, inverse, used,
                           samples, columns);
}

/// The columns of each value are its elements / rows.
inline void addBeside(float* out, const FloatLists& values, const float* other, int64_t rows) {
  std::vector<int32_t> widths;
  for (int64_t n : values.lengths) widths.push_back(rows == 0 ? 0 : static_cast<int32_t>(n / rows));
  running().addBeside(out, values.of.data(), widths.data(), values.count(), other, rows);
}

/// trees: first and count of each part.
inline void foldSubtrees(float* out, const FloatLists& parts, const int32_t* trees, int64_t n) {
  std::vector<Subtree> all;
  for (int64_t p = 0; p < parts.count(); p++) all.push_back({trees[2 * p], trees[2 * p + 1]});
  running().foldSubtrees(out, parts.of.data(), all.data(), parts.count(), n);
}

/// numbers: first column, columns, first block and blocks of each part; 0 columns: zeros.
inline void foldPooled(Columns out, const FloatLists& froms, const int32_t* numbers,
                       int64_t samples, int64_t columns, const int32_t* lengths,
                       Precision precision) {
  std::vector<PooledPart> parts;
  for (const float* from : froms.of) {
    parts.push_back({numbers[1] == 0 ? nullptr : from + numbers[0], numbers[1],
                     {numbers[2], numbers[3]}});
    numbers += 4;
  }
  running().foldPooled(out.at, out.stride, parts.data(), froms.count(), samples, columns, lengths,
                       precision);
}

inline void shareColumns(Columns out, Columns from, int64_t samples, int64_t columns,
                         const int32_t* lengths) {
  running().shareColumns(out.at, out.stride, from.at, from.stride, samples, columns, lengths);
}

inline void packColumns(uint8_t* to, Columns from, int64_t samples, int64_t columns,
                        Precision precision) {
  running().packColumns(to, from.at, from.stride, samples, columns, precision);
}

inline void unpackColumns(Columns out, const uint8_t* from, int64_t samples, int64_t columns,
                          Precision precision) {
  running().unpackColumns(out.at, out.stride, from, samples, columns, precision);
}

}  // namespace osiris::binding
