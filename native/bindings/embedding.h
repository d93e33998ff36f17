// Bindings of the kernels of embedding tables.

#pragma once

#include "bindings/running.h"

namespace {

using namespace osiris;

// TABLES stands for five arguments: weights[], states[], touched[], exponents and names[], numbers.
// BAGS stands for three: offsets, ids, weights.

// born(TABLES, key0, key1, purpose, scale)
void born(Call& call) {
  const auto tables = tablesOf(call, 0, false);
  const Key key = keyOf(call, 5);
  const uint32_t purpose = call.word(7);
  const float scale = static_cast<float>(call.number(8));
  if (call.valid()) running().born(tables[0], key.words, purpose, scale);
}

// pool(out, TABLES, BAGS, first, count, decay, steps): with decay and steps, pools moving averages
void pool(Call& call) {
  float* out = call.floats(0);
  auto tables = tablesOf(call, 1, false);
  const Bags bags = bagsOf(call, 6, tables);
  const int64_t first = call.integer(9), count = call.integer(10);
  const bool averaged = !call.missing(11);
  const Average average = averaged ? Average{call.number(11), call.integer(12)} : Average{};
  for (Table& table : tables) {
    table.averaged = averaged;
    table.rule.average = average;
  }
  if (!call.valid()) return;
  running().pool(out, tables.data(), bags, first, count, columnsOf(tables));
}

/// Arguments i, i+1: for each table, the completed means and trust ratios of its rows, or an empty
/// array.
std::vector<Completed> completedOf(Call& call, size_t i, const std::vector<Table>& tables) {
  const auto means = call.floatsOf(i), trusts = call.floatsOf(i + 1);
  std::vector<Completed> completed;
  for (size_t t = 0; t < tables.size() && call.valid(); t++) {
    completed.push_back({means[t], trusts[t]});
  }
  return completed;
}

// updateRows(TABLES, rules, BAGS, dPooled, firstSlice, bounds, means[], trusts[]): returns the
// first table with a row that is no longer finite, or -1
napi_value updateRows(Call& call) {
  const auto tables = tablesOf(call, 0, true);
  const Bags bags = bagsOf(call, 6, tables);
  float* dPooled = call.floats(9);
  const Slices slices = slicesOf(call, 10);
  std::vector<Completed> completed;
  if (!call.missing(12)) completed = completedOf(call, 12, tables);
  if (!call.valid()) return nullptr;
  const Completed* known = completed.empty() ? nullptr : completed.data();
  return call.answer(
      running().updateRows(tables.data(), bags, dPooled, columnsOf(tables), slices, known));
}

// rowSquares(TABLES, rules, BAGS, dPooled, firstSlice, bounds, table): Float32Array
napi_value rowSquares(Call& call) {
  const auto tables = tablesOf(call, 0, true);
  const Bags bags = bagsOf(call, 6, tables);
  float* dPooled = call.floats(9);
  const Slices slices = slicesOf(call, 10);
  const int64_t index = call.integer(12);
  if (!call.valid()) return nullptr;
  float* squares = nullptr;
  const int64_t count = running().rowSquares(&squares, tables.data(), index, bags, dPooled,
                                             columnsOf(tables), slices);
  return call.answer(squares, count);
}

// rowNorms(TABLES, rules, BAGS, dPooled, firstSlice, bounds, table, means): Float64Array
napi_value rowNorms(Call& call) {
  const auto tables = tablesOf(call, 0, true);
  const Bags bags = bagsOf(call, 6, tables);
  float* dPooled = call.floats(9);
  const Slices slices = slicesOf(call, 10);
  const int64_t index = call.integer(12);
  const float* means = call.missing(13) ? nullptr : call.floats(13);
  if (!call.valid()) return nullptr;
  double* norms = nullptr;
  const int64_t count = running().rowNorms(&norms, tables.data(), index, bags, dPooled,
                                           columnsOf(tables), slices, means);
  return call.answer(norms, count);
}

// dRows(TABLES, BAGS, dPooled, firstSlice, bounds, table, dRows[], counts[])
void dRows(Call& call) {
  const auto tables = tablesOf(call, 0, false);
  const Bags bags = bagsOf(call, 5, tables);
  float* dPooled = call.floats(8);
  const Slices slices = slicesOf(call, 9);
  const int64_t index = call.integer(11);
  const auto d = call.floatsOf(12), counts = call.floatsOf(13);
  if (!call.valid()) return;
  running().dRows(d.data(), counts.data(), tables.data(), index, bags, dPooled, columnsOf(tables),
                  slices);
}

// applyRows(TABLES, rules, dRows, counts, whole): returns -1 if all rows are finite, else 0
napi_value applyRows(Call& call) {
  const auto tables = tablesOf(call, 0, true);
  float *d = call.floats(6), *counts = call.floats(7);
  const bool whole = call.flag(8);
  if (!call.valid()) return nullptr;
  return call.answer(running().applyRows(tables[0], d, counts, whole) ? -1 : 0);
}

}  // namespace
