// Bindings of the functions that parse and transform training data, where the arguments are not the
// function's own parameters. addon.cc binds the others directly.

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

namespace osiris {

/// Words of a head, kinds of the bags.
template <>
struct Argument<RecordLayout> {
  static constexpr size_t count = 2;
  RecordLayout value;
  Argument(Call& call, size_t i) {
    value.headWords = call.integer(i);
    value.kinds = call.array<uint8_t>(i + 1, &value.features);
  }
  const RecordLayout& get() const { return value; }
};

/// Words, words per entry, and offsets of the rows; empty if rows are not lists.
template <>
struct Argument<RowWords> {
  static constexpr size_t count = 3;
  RowWords value;
  Argument(Call& call, size_t i)
      : value{call.array<int32_t>(i), call.integer(i + 1), call.array<int32_t>(i + 2)} {}
  const RowWords& get() const { return value; }
};

/// Lower and upper half of the salt, and max.
template <>
struct Argument<HashArguments> {
  static constexpr size_t count = 3;
  HashArguments value;
  Argument(Call& call, size_t i) {
    const auto half = [&](size_t at) { return static_cast<uint32_t>(call.integer(at)); };
    value = {static_cast<uint64_t>(half(i + 1)) << 32 | half(i), call.integer(i + 2)};
  }
  const HashArguments& get() const { return value; }
};

/// A plan of columns, in the layout of src/data/columnar/record-columns.ts: four numbers each, with
/// one array for a column of numbers, or three arrays for a column of ids.
template <>
struct Argument<std::vector<RecordColumn>> {
  static constexpr size_t count = 2;
  std::vector<RecordColumn> value;
  Argument(Call& call, size_t i) {
    int64_t length = 0;
    const int32_t* numbers = call.array<int32_t>(i, &length);
    std::vector<napi_typedarray_type> types;
    for (int64_t at = 0; call.valid() && at < length / 4; at++, numbers += 4) {
      const auto kind = static_cast<RecordColumn::Kind>(numbers[0]);
      value.push_back({kind, numbers[1]});
      RecordColumn& column = value.back();
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
    const auto found = call.list(i + 1, types, &lengths);
    size_t next = 0;
    for (RecordColumn& column : value) {
      if (!call.valid()) return;
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
  }
  const std::vector<RecordColumn>& get() const { return value; }
};

/// A plan of bags, in the layout of src/data/columnar/record-columns.ts: three numbers each, with four
/// arrays.
template <>
struct Argument<std::vector<RecordBags>> {
  static constexpr size_t count = 2;
  std::vector<RecordBags> value;
  Argument(Call& call, size_t i) {
    int64_t length = 0;
    const int32_t* numbers = call.array<int32_t>(i, &length);
    const size_t bags = static_cast<size_t>(length / 3);
    std::vector<int64_t> lengths;
    const auto found = call.list(i + 1, {4 * bags, napi_int32_array}, &lengths);
    const auto ints = [&](size_t at) { return static_cast<const int32_t*>(found[at]); };
    for (size_t at = 0; call.valid() && at < 4 * bags; at += 4, numbers += 3) {
      value.push_back({static_cast<RecordBags::Absent>(numbers[0]), ints(at), lengths[at],
                       numbers[1] == 1 ? ints(at + 1) : nullptr, ints(at + 2), lengths[at + 2],
                       numbers[2] == 1 ? ints(at + 3) : nullptr, lengths[at + 3]});
    }
  }
  const std::vector<RecordBags>& get() const { return value; }
};

namespace binding {

using Ints = Array<const int32_t>;
using Longs = Array<const int64_t>;

inline void readFields(int32_t* begins, double* numbers, int32_t* ids, const uint8_t* bytes,
                       const int32_t* starts, Ints ends, int64_t fields, uint8_t delimiter,
                       int64_t quote, Array<double> dense, Array<double> features) {
  osiris::readFields({begins, numbers, ids}, bytes, starts, ends.data, ends.length,
                     {fields, delimiter, static_cast<int>(quote), dense.length / 2, dense.data,
                      features.length / 6, features.data});
}

/// Returns 1 if all are records, else 0.
inline int64_t copyRecords(int32_t* out, const int32_t* starts, Ints words, Ints froms,
                           const RecordLayout& layout) {
  return osiris::copyRecords(out, starts, words.data, words.length, froms.data, froms.length,
                             layout);
}

/// Returns the end of the records.
inline int64_t appendRecords(int32_t* words, int32_t* last, int64_t samples, int64_t used,
                             const int32_t* records, Ints starts, const RecordLayout& layout) {
  return osiris::appendRecords(words, last, samples, used, records, starts.data,
                               starts.length - 1, layout);
}

/// Returns the number of ids.
inline int64_t copyBatch(float* labels, float* dense, int32_t* lengths, int32_t* ids,
                         Optional<int32_t> highs, Optional<float> weights, int64_t room,
                         const int32_t* words,
                         Ints starts, Array<const uint8_t> kinds, int64_t labelsOfSample,
                         int64_t denseAt, int64_t denseOfSample, int64_t headWords) {
  return osiris::copyBatch(
      {labels, dense, lengths, ids, highs, weights, room}, words, starts.data, starts.length - 1,
      {labelsOfSample, denseAt, denseOfSample, headWords, kinds.length, kinds.data});
}

/// Returns the largest value, or a negative code of the error.
inline int64_t readHybrid(int32_t* out, int64_t from, int64_t count, Array<const uint8_t> bytes,
                          int64_t end, int64_t width, double* state) {
  HybridPlace place{static_cast<int64_t>(state[0]), static_cast<int64_t>(state[1]), state[2] == 1,
                    static_cast<uint32_t>(static_cast<int64_t>(state[3]))};
  const int64_t most = osiris::readHybrid(out + from, count, place,
                                          {bytes.data, bytes.length, end, static_cast<int>(width)});
  state[0] = static_cast<double>(place.at);
  state[1] = static_cast<double>(place.left);
  state[2] = place.packed ? 1 : 0;
  state[3] = static_cast<int32_t>(place.value);
  return most;
}

inline void takeNumbers(double* out, int64_t at, const double* values, const int32_t* places,
                        int64_t count) {
  osiris::takeValues(out + at, values, places, count);
}

inline void takePairs(int32_t* out, int64_t at, const int32_t* values, const int32_t* places,
                      int64_t count) {
  struct Pair {
    int32_t low, high;
  };
  osiris::takeValues(reinterpret_cast<Pair*>(out) + at, reinterpret_cast<const Pair*>(values),
                     places, count);
}

/// Returns 1 if `packed` is valid and fills `body`, else 0.
inline int64_t unpackSnappy(Array<uint8_t> body, Array<const uint8_t> packed) {
  return osiris::unpackSnappy(body.data, body.length, packed.data, packed.length);
}

inline void writeColumns(int32_t* words, int64_t width, uint8_t* plain, int64_t rows,
                         const std::vector<RecordColumn>& columns) {
  osiris::writeColumns({words, width, plain}, rows, columns);
}

inline void copyRows(int32_t* out, const int32_t* outOffsets, Ints rows, const RowWords& entries) {
  osiris::copyRows(out, outOffsets, rows.data, rows.length, entries);
}

/// Returns the index of the first id that was not counted.
inline int64_t countDistinct(int32_t* slots, uint32_t sampled, uint32_t mask, int32_t countMax,
                             int32_t* counted, const int32_t* ids, int64_t first, int64_t end,
                             bool areHashes) {
  return first + osiris::countDistinct({slots, sampled, mask, countMax}, counted[0], ids + first,
                                       end - first, areHashes);
}

inline void countRuns(Array<double> runs, const int32_t* ids, int64_t first, int64_t end,
                      double perRow) {
  osiris::countRuns(runs.data, runs.length, ids + first, end - first, perRow);
}

inline void hashIds(Array<int32_t> rows, const int64_t* ids, bool isUnsigned, uint32_t seed,
                    uint32_t tableRows) {
  osiris::hashIds(rows.data, ids, rows.length, isUnsigned, seed, tableRows);
}

inline void rowsOfIds(Array<int32_t> rows, const int64_t* ids, int64_t offset, int64_t tableRows) {
  osiris::rowsOfIds(rows.data, ids, rows.length, offset, tableRows);
}

inline void sigridHash(Array<int64_t> out, const int64_t* ids, const HashArguments& hash) {
  osiris::sigridHash(out.data, ids, out.length, hash);
}

inline void bucketize(Array<int64_t> out, const double* values, Array<const double> borders) {
  osiris::bucketize(out.data, values, out.length, borders.data, borders.length);
}

inline void nGram(int64_t* out, const int32_t* outOffsets, Longs ids, Ints offsets, int64_t n,
                  const HashArguments& hash) {
  uint64_t* mixed = scratches().mixed.take<uint64_t>(ids.length);
  osiris::nGram(out, outOffsets, ids.data, offsets.data, offsets.length - 1, n, mixed, hash);
}

}  // namespace binding

}  // namespace osiris
