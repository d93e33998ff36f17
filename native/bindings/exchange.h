// Bindings of the kernels that take lists of tensors with more than their memory.

#pragma once

#include "bindings/arguments.h"
#include "bindings/running.h"

namespace osiris::binding {

/// runs: first column of out, first column of from, and columns of each range.
inline void copyRuns(float* out, int64_t outWidth, const float* from, int64_t fromWidth,
                     int64_t samples, const Array<const int32_t>& runs) {
  running().copyRuns({out, outWidth}, {const_cast<float*>(from), fromWidth}, samples, runs.data,
                     runs.length / 3);
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
                       int64_t samples, int64_t columns, Optional<const int32_t> lengths,
                       Precision precision, float scale) {
  std::vector<PooledPart> parts;
  for (const float* from : froms.of) {
    parts.push_back({numbers[1] == 0 ? nullptr : from + numbers[0], numbers[1],
                     {numbers[2], numbers[3]}});
    numbers += 4;
  }
  running().foldPooled(out, parts.data(), froms.count(), samples, columns, lengths, precision,
                       scale);
}

}  // namespace osiris::binding
