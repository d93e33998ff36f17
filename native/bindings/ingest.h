// Bindings of the functions that parse and transform training data.

#pragma once

#include "bindings/call.h"
#include "ingest/batches.h"
#include "ingest/distinct.h"
#include "ingest/ids.h"
#include "ingest/pages.h"
#include "ingest/record-bags.h"
#include "ingest/records.h"
#include "ingest/same-rows.h"
#include "ingest/transforms.h"

namespace {

using namespace osiris;

// readFields(begins, numbers, ids, bytes, starts, ends, fields, delimiter, quote, dense, features)
void readFields(Call& call) {
  const FieldValues out{call.ints(0), call.doubles(1), call.ints(2)};
  const uint8_t* bytes = call.bytes(3);
  const int32_t *starts = call.ints(4), *ends = call.ints(5);
  const FieldPlan plan{call.integer(6),     static_cast<uint8_t>(call.integer(7)),
                       static_cast<int>(call.integer(8)),
                       call.length(9) / 2,  call.doubles(9),
                       call.length(10) / 6, call.doubles(10)};
  if (!call.valid()) return;
  osiris::readFields(out, bytes, starts, ends, call.length(5), plan);
}

// copyRecords(out, starts, words, froms, headWords, kinds): returns whether all are records.
napi_value copyRecords(Call& call) {
  int32_t *out = call.ints(0), *starts = call.ints(1), *words = call.ints(2), *froms = call.ints(3);
  const RecordLayout layout{call.integer(4), call.length(5), call.bytes(5)};
  if (!call.valid()) return nullptr;
  return call.answer(
      osiris::copyRecords(out, starts, words, call.length(2), froms, call.length(3), layout));
}

// foldRecord(words, last, start, end, headWords, kinds): returns the record's end, or ~end if it
// was folded.
napi_value foldRecord(Call& call) {
  int32_t *words = call.ints(0), *last = call.ints(1);
  const int64_t start = call.integer(2), end = call.integer(3);
  const RecordLayout layout{call.integer(4), call.length(5), call.bytes(5)};
  if (!call.valid()) return nullptr;
  return call.answer(osiris::foldRecord(words, last, start, end, layout));
}

// appendRecords(words, last, samples, used, records, starts, headWords, kinds): returns the end of
// the records.
napi_value appendRecords(Call& call) {
  int32_t *words = call.ints(0), *last = call.ints(1), *records = call.ints(4), *starts = call.ints(5);
  const int64_t samples = call.integer(2), used = call.integer(3);
  const RecordLayout layout{call.integer(6), call.length(7), call.bytes(7)};
  if (!call.valid()) return nullptr;
  return call.answer(osiris::appendRecords(words, last, samples, used, records, starts,
                                           call.length(5) - 1, layout));
}

// copyBatch(labels, dense, lengths, ids, highs, weights, room, words, starts, kinds,
// labelsOfSample, denseAt, denseOfSample, headWords): returns the number of ids.
napi_value copyBatch(Call& call) {
  int32_t* highs = call.missing(4) ? nullptr : call.ints(4);
  float* weights = call.missing(5) ? nullptr : call.floats(5);
  const BatchMemory out{call.floats(0), call.floats(1), call.ints(2),   call.ints(3),
                        highs,          weights,        call.integer(6)};
  const int32_t *words = call.ints(7), *starts = call.ints(8);
  const RecordShape shape{call.integer(10), call.integer(11), call.integer(12), call.integer(13),
                          call.length(9),   call.bytes(9)};
  if (!call.valid()) return nullptr;
  return call.answer(osiris::copyBatch(out, words, starts, call.length(8) - 1, shape));
}

// readHybrid(out, from, count, bytes, end, width, state): returns the largest value, or a negative
// code of the error.
napi_value readHybrid(Call& call) {
  int32_t* out = call.ints(0);
  const int64_t from = call.integer(1), count = call.integer(2);
  const HybridBytes bytes{call.bytes(3), call.length(3), call.integer(4),
                          static_cast<int>(call.integer(5))};
  double* state = call.doubles(6);
  if (!call.valid()) return nullptr;
  HybridPlace place{static_cast<int64_t>(state[0]), static_cast<int64_t>(state[1]), state[2] == 1,
                    static_cast<uint32_t>(static_cast<int64_t>(state[3]))};
  const int64_t most = osiris::readHybrid(out + from, count, place, bytes);
  state[0] = static_cast<double>(place.at);
  state[1] = static_cast<double>(place.left);
  state[2] = place.packed ? 1 : 0;
  state[3] = static_cast<int32_t>(place.value);
  return call.answer(most);
}

// markRows(offsets, row, rows, value, repetition, at, end): returns 8192 rows + levels.
napi_value markRows(Call& call) {
  int32_t *offsets = call.ints(0), *repetition = call.ints(4);
  const int64_t row = call.integer(1), rows = call.integer(2), value = call.integer(3);
  const int64_t at = call.integer(5), end = call.integer(6);
  if (!call.valid()) return nullptr;
  return call.answer(osiris::markRows(offsets, row, rows, value, repetition, at, end));
}

// takeNumbers(out, at, values, places, count)
void takeNumbers(Call& call) {
  double *out = call.doubles(0), *values = call.doubles(2);
  const int64_t at = call.integer(1), count = call.integer(4);
  const int32_t* places = call.ints(3);
  if (!call.valid()) return;
  osiris::takeValues(out + at, values, places, count);
}

// takePairs(out, at, values, places, count)
void takePairs(Call& call) {
  struct Pair {
    int32_t low, high;
  };
  Pair* out = reinterpret_cast<Pair*>(call.ints(0));
  const Pair* values = reinterpret_cast<const Pair*>(call.ints(2));
  const int64_t at = call.integer(1), count = call.integer(4);
  const int32_t* places = call.ints(3);
  if (!call.valid()) return;
  osiris::takeValues(out + at, values, places, count);
}

// unpackSnappy(body, packed): returns whether `packed` is valid and fills `body`.
napi_value unpackSnappy(Call& call) {
  uint8_t *body = call.bytes(0), *packed = call.bytes(1);
  if (!call.valid()) return nullptr;
  return call.answer(osiris::unpackSnappy(body, call.length(0), packed, call.length(1)));
}

/// The columns of a plan, in the layout of src/data/columnar/record-columns.ts: four numbers each,
/// with one array for a column of numbers, or three arrays for a column of ids.
std::vector<RecordColumn> recordColumnsOf(Call& call, size_t plan, size_t arrays) {
  const int32_t* numbers = call.ints(plan);
  std::vector<RecordColumn> columns;
  std::vector<napi_typedarray_type> types;
  for (int64_t i = 0; call.valid() && i < call.length(plan) / 4; i++, numbers += 4) {
    const auto kind = static_cast<RecordColumn::Kind>(numbers[0]);
    columns.push_back({kind, numbers[1]});
    RecordColumn& column = columns.back();
    if (kind == RecordColumn::same) column.value = numbers[2];
    if (kind == RecordColumn::numbers) {
      column.absent = static_cast<RecordColumn::Absent>(numbers[2]);
      column.indicator = numbers[3] == 1;
      types.push_back(napi_float64_array);
    } else if (kind == RecordColumn::ids) {
      column.own = numbers[2] == 1;
      column.coded = numbers[3] == 1;
      types.insert(types.end(), 3, napi_int32_array);
    }
  }
  std::vector<int64_t> lengths;
  const auto found = call.list<void>(arrays, types, &lengths);
  if (!call.valid()) return {};
  size_t next = 0;
  for (RecordColumn& column : columns) {
    if (column.kind == RecordColumn::numbers) {
      column.values = static_cast<const double*>(found[next++]);
    } else if (column.kind == RecordColumn::ids) {
      column.offsets = static_cast<const int32_t*>(found[next]);
      column.rowOf = static_cast<const int32_t*>(found[next + 1]);
      column.rowCount = lengths[next + 1];
      column.codes = static_cast<const int32_t*>(found[next + 2]);
      column.codeCount = lengths[next + 2];
      next += 3;
    }
  }
  return columns;
}

// writeColumns(words, width, plain, rows, plan, arrays)
void writeColumns(Call& call) {
  const RecordMemory out{call.ints(0), call.integer(1), call.bytes(2)};
  const int64_t rows = call.integer(3);
  const std::vector<RecordColumn> columns = recordColumnsOf(call, 4, 5);
  if (!call.valid()) return;
  osiris::writeColumns(out, rows, columns);
}

/// The bags of a plan, in the layout of src/data/columnar/record-bags.ts: three numbers each, with
/// four arrays.
std::vector<RecordBags> recordBagsOf(Call& call, size_t plan, size_t arrays) {
  const int32_t* numbers = call.ints(plan);
  const int64_t count = call.length(plan) / 3;
  const std::vector<napi_typedarray_type> types(static_cast<size_t>(4 * count), napi_int32_array);
  std::vector<int64_t> lengths;
  const auto found = call.list<int32_t>(arrays, types, &lengths);
  if (!call.valid()) return {};
  std::vector<RecordBags> bags;
  for (size_t i = 0; i < static_cast<size_t>(count); i++, numbers += 3) {
    bags.push_back({static_cast<RecordBags::Absent>(numbers[0]), found[4 * i], lengths[4 * i],
                    numbers[1] == 1 ? found[4 * i + 1] : nullptr, found[4 * i + 2],
                    lengths[4 * i + 2], numbers[2] == 1 ? found[4 * i + 3] : nullptr,
                    lengths[4 * i + 3]});
  }
  return bags;
}

// measureBags(starts, plain, rows, headWords, plan, arrays): returns the words of all records.
napi_value measureBags(Call& call) {
  int32_t* starts = call.ints(0);
  uint8_t* plain = call.bytes(1);
  const int64_t rows = call.integer(2), headWords = call.integer(3);
  const std::vector<RecordBags> bags = recordBagsOf(call, 4, 5);
  if (!call.valid()) return nullptr;
  return call.answer(osiris::measureBags(starts, plain, rows, headWords, bags));
}

// writeBags(words, starts, plain, rows, heads, headWords, plan, arrays)
void writeBags(Call& call) {
  int32_t *words = call.ints(0), *starts = call.ints(1);
  const uint8_t* plain = call.bytes(2);
  const int64_t rows = call.integer(3), headWords = call.integer(5);
  const int32_t* heads = call.ints(4);
  const std::vector<RecordBags> bags = recordBagsOf(call, 6, 7);
  if (!call.valid()) return;
  osiris::writeBags(words, starts, plain, rows, heads, headWords, bags);
}

/// Arguments i .. i+2: words, words per entry, and offsets of the rows; empty if rows are not
/// lists.
RowWords rowWordsOf(Call& call, size_t i) {
  const int32_t* offsets = call.length(i + 2) == 0 ? nullptr : call.ints(i + 2);
  return {call.ints(i), call.integer(i + 1), offsets};
}

// markSame(same, first, end, words, perEntry, offsets)
void markSame(Call& call) {
  uint8_t* same = call.bytes(0);
  const int64_t first = call.integer(1), end = call.integer(2);
  const RowWords entries = rowWordsOf(call, 3);
  if (!call.valid()) return;
  osiris::markSame(same, first, end, entries);
}

// copyRows(out, outOffsets, rows, words, perEntry, offsets)
void copyRows(Call& call) {
  int32_t *out = call.ints(0), *outOffsets = call.ints(1), *rows = call.ints(2);
  const RowWords entries = rowWordsOf(call, 3);
  if (!call.valid()) return;
  osiris::copyRows(out, outOffsets, rows, call.length(2), entries);
}

// countDistinct(slots, sampled, mask, timesMax, counted, ids, first, end, areHashes): returns the
// index of the first id that was not counted.
napi_value countDistinct(Call& call) {
  const DistinctSlots slots{call.ints(0), call.word(1), call.word(2),
                            static_cast<int32_t>(call.integer(3))};
  int32_t* counted = call.ints(4);
  const int32_t* ids = call.ints(5);
  const int64_t first = call.integer(6), end = call.integer(7);
  const bool areHashes = call.flag(8);
  if (!call.valid()) return nullptr;
  return call.answer(
      first + osiris::countDistinct(slots, counted[0], ids + first, end - first, areHashes));
}

// countRuns(runs, ids, first, end, perRow)
void countRuns(Call& call) {
  double* runs = call.doubles(0);
  const int32_t* ids = call.ints(1);
  const int64_t first = call.integer(2), end = call.integer(3);
  const double perRow = call.number(4);
  if (!call.valid()) return;
  osiris::countRuns(runs, call.length(0), ids + first, end - first, perRow);
}

// hashIds(rows, ids, isUnsigned, seed, tableRows)
void hashIds(Call& call) {
  int32_t* rows = call.ints(0);
  const int64_t count = call.length(0);
  const int64_t* ids = call.longs(1);
  const bool isUnsigned = call.flag(2);
  const uint32_t seed = call.word(3), tableRows = call.word(4);
  if (!call.valid()) return;
  osiris::hashIds(rows, ids, count, isUnsigned, seed, tableRows);
}

// rowsOfIds(rows, ids, offset, tableRows)
void rowsOfIds(Call& call) {
  int32_t* rows = call.ints(0);
  const int64_t* ids = call.longs(1);
  const int64_t offset = call.integer(2), tableRows = call.integer(3);
  if (!call.valid()) return;
  osiris::rowsOfIds(rows, ids, call.length(0), offset, tableRows);
}

// Arguments i .. i+2: lower and upper half of the salt, and max.
HashArguments hashOf(Call& call, size_t i) {
  const uint64_t low = call.word(i), high = call.word(i + 1);
  return {high << 32 | low, call.integer(i + 2)};
}

// sigridHash(out, ids, saltLow, saltHigh, max)
void sigridHash(Call& call) {
  int64_t* out = call.longs(0);
  const int64_t* ids = call.longs(1);
  const HashArguments hash = hashOf(call, 2);
  if (!call.valid()) return;
  osiris::sigridHash(out, ids, call.length(0), hash);
}

// bucketize(out, values, borders)
void bucketize(Call& call) {
  int64_t* out = call.longs(0);
  const double *values = call.doubles(1), *borders = call.doubles(2);
  if (!call.valid()) return;
  osiris::bucketize(out, values, call.length(0), borders, call.length(2));
}

// nGram(out, outOffsets, ids, offsets, n, saltLow, saltHigh, max)
void nGram(Call& call) {
  int64_t* out = call.longs(0);
  const int32_t* outOffsets = call.ints(1);
  const int64_t* ids = call.longs(2);
  const int32_t* offsets = call.ints(3);
  const int64_t n = call.integer(4);
  const HashArguments hash = hashOf(call, 5);
  if (!call.valid()) return;
  uint64_t* mixed = scratches().mixed.take<uint64_t>(call.length(2));
  osiris::nGram(out, outOffsets, ids, offsets, call.length(3) - 1, n, mixed, hash);
}

}  // namespace
