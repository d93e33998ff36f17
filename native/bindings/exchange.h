// Bindings of the kernels of the exchange.

#pragma once

#include "bindings/running.h"

namespace {

using namespace osiris;

// copyColumns(out, outFirst, outStride, from, fromFirst, fromStride, samples, columns)
void copyColumns(Call& call) {
  float *out = call.floats(0), *from = call.floats(3);
  const int64_t outFirst = call.integer(1), outStride = call.integer(2);
  const int64_t fromFirst = call.integer(4), fromStride = call.integer(5);
  const int64_t samples = call.integer(6), columns = call.integer(7);
  if (!call.valid()) return;
  running().copyColumns(out + outFirst, outStride, from + fromFirst, fromStride, samples, columns);
}

// expandColumns(out, outFirst, outStride, from, fromFirst, fromStride, columns, inverse, used)
void expandColumns(Call& call) {
  float *out = call.floats(0), *from = call.floats(3);
  const int64_t outFirst = call.integer(1), outStride = call.integer(2);
  const int64_t fromFirst = call.integer(4), fromStride = call.integer(5);
  const int64_t columns = call.integer(6), samples = call.length(7);
  const int32_t *inverse = call.ints(7), *used = call.missing(8) ? nullptr : call.ints(8);
  if (!call.valid()) return;
  running().expandColumns(out + outFirst, outStride, from + fromFirst, fromStride, inverse, used,
                          samples, columns);
}

// dExpandColumns(dFrom, fromFirst, fromStride, lists, dOut, outFirst, outStride, columns, inverse,
//                used)
void dExpandColumns(Call& call) {
  float *dFrom = call.floats(0), *dOut = call.floats(4);
  const int64_t fromFirst = call.integer(1), fromStride = call.integer(2);
  const int64_t lists = call.integer(3), outFirst = call.integer(5), outStride = call.integer(6);
  const int64_t columns = call.integer(7), samples = call.length(8);
  const int32_t *inverse = call.ints(8), *used = call.missing(9) ? nullptr : call.ints(9);
  if (!call.valid()) return;
  running().dExpandColumns(dFrom + fromFirst, fromStride, lists, dOut + outFirst, outStride,
                           inverse, used, samples, columns);
}

// foldSubtrees(out, parts[], trees): `trees` has first and count of each part
void foldSubtrees(Call& call) {
  float* out = call.floats(0);
  const int64_t n = call.length(0);
  const auto parts = call.floatsOf(1);
  const int32_t* numbers = call.ints(2);
  if (!call.valid()) return;
  std::vector<Subtree> trees;
  for (size_t p = 0; p < parts.size(); p++) {
    trees.push_back({numbers[2 * p], numbers[2 * p + 1]});
  }
  running().foldSubtrees(out, parts.data(), trees.data(), static_cast<int64_t>(parts.size()), n);
}

// foldPooled(out, outFirst, outColumns, froms[], numbers, samples, columns, lengths, precision):
// `numbers` has first column, columns, first block and blocks of each part; 0 columns: zeros
void foldPooled(Call& call) {
  float* out = call.floats(0);
  const int64_t outFirst = call.integer(1), outColumns = call.integer(2);
  const auto froms = call.floatsOf(3);
  const int32_t* numbers = call.ints(4);
  const int64_t samples = call.integer(5), columns = call.integer(6);
  const int32_t* lengths = call.missing(7) ? nullptr : call.ints(7);
  const auto precision = static_cast<Precision>(call.integer(8));
  if (!call.valid()) return;
  std::vector<PooledPart> parts;
  for (size_t p = 0; p < froms.size(); p++, numbers += 4) {
    const float* from = numbers[1] == 0 ? nullptr : froms[p] + numbers[0];
    parts.push_back({from, numbers[1], {numbers[2], numbers[3]}});
  }
  running().foldPooled(out + outFirst, outColumns, parts.data(),
                       static_cast<int64_t>(parts.size()), samples, columns, lengths, precision);
}

// shareColumns(out, outFirst, outColumns, from, fromFirst, fromColumns, columns, lengths)
void shareColumns(Call& call) {
  float *out = call.floats(0), *from = call.floats(3);
  const int64_t outFirst = call.integer(1), outColumns = call.integer(2);
  const int64_t fromFirst = call.integer(4), fromColumns = call.integer(5);
  const int64_t columns = call.integer(6), samples = call.length(7);
  const int32_t* lengths = call.ints(7);
  if (!call.valid()) return;
  running().shareColumns(out + outFirst, outColumns, from + fromFirst, fromColumns, samples,
                         columns, lengths);
}

// packColumns(to, from, fromFirst, fromColumns, samples, columns, precision)
void packColumns(Call& call) {
  uint8_t* to = call.bytes(0);
  const float* from = call.floats(1);
  const int64_t first = call.integer(2), fromColumns = call.integer(3);
  const int64_t samples = call.integer(4), columns = call.integer(5);
  const auto precision = static_cast<Precision>(call.integer(6));
  if (!call.valid()) return;
  running().packColumns(to, from + first, fromColumns, samples, columns, precision);
}

// unpackColumns(out, outFirst, outColumns, from, samples, columns, precision)
void unpackColumns(Call& call) {
  float* out = call.floats(0);
  const int64_t first = call.integer(1), outColumns = call.integer(2);
  const uint8_t* from = call.bytes(3);
  const int64_t samples = call.integer(4), columns = call.integer(5);
  const auto precision = static_cast<Precision>(call.integer(6));
  if (!call.valid()) return;
  running().unpackColumns(out + first, outColumns, from, samples, columns, precision);
}

}  // namespace
