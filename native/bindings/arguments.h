// The structures that kernels take as parameters, from arguments of a call (call.h).

#pragma once

#include <optional>

#include "bindings/call.h"
#include "bindings/ids.h"
#include "kernels.h"

namespace osiris {

/// A typed array, or undefined.
template <typename Element>
struct Argument<Optional<Element>> {
  static constexpr size_t count = 1;
  Optional<Element> value;
  Argument(Call& call, size_t i) : value(call.optionalArray<Element>(i)) {}
  Optional<Element> get() const { return value; }
};

/// A key: two words.
template <>
struct Argument<const uint32_t*> {
  static constexpr size_t count = 2;
  uint32_t words[2];
  Argument(Call& call, size_t i)
      : words{static_cast<uint32_t>(call.integer(i)), static_cast<uint32_t>(call.integer(i + 1))} {}
  const uint32_t* get() const { return words; }
};

/// Index of the first slice, bounds, most slices of a subtree.
template <>
struct Argument<Slices> {
  static constexpr size_t count = 3;
  Slices value;
  Argument(Call& call, size_t i) {
    const auto bounds = Argument<Array<const int32_t>>(call, i + 1).value;
    value = {call.integer(i), bounds.length - 1, bounds.data, call.integer(i + 2)};
  }
  const Slices& get() const { return value; }
};

template <>
struct Argument<Addends> {
  static constexpr size_t count = 1;
  Argument<FloatLists> list;
  Argument(Call& call, size_t i) : list(call, i) {}
  Addends get() const { return {list.value.of.data(), list.value.count()}; }
};

template <>
struct Argument<BatchNormColumns> {
  static constexpr size_t count = 4;
  BatchNormColumns value;
  Argument(Call& call, size_t i)
      : value{call.array<float>(i), call.array<float>(i + 1), call.array<float>(i + 2),
              call.array<float>(i + 3)} {}
  const BatchNormColumns& get() const { return value; }
};

template <>
struct Argument<RankShape> {
  static constexpr size_t count = 4;
  RankShape value;
  Argument(Call& call, size_t i)
      : value{call.integer(i), call.integer(i + 1), call.integer(i + 2), call.integer(i + 3)} {}
  const RankShape& get() const { return value; }
};

/// A tensor (B, ·), the first column, the width of a row.
template <>
struct Argument<Columns> {
  static constexpr size_t count = 3;
  Columns value;
  Argument(Call& call, size_t i)
      : value{call.array<float>(i) + call.integer(i + 1), call.integer(i + 2)} {}
  const Columns& get() const { return value; }
};

/// Decay and steps, or undefined.
template <>
struct Argument<std::optional<Average>> {
  static constexpr size_t count = 2;
  std::optional<Average> value;
  Argument(Call& call, size_t i) {
    if (!call.missing(i)) value = Average{call.number(i), call.integer(i + 1)};
  }
  const std::optional<Average>& get() const { return value; }
};

template <>
struct Argument<Rule> {
  static constexpr size_t count = 1;
  Rule value{};
  Argument(Call& call, size_t i) {
    if (const auto numbers = call.array<double>(i); numbers != nullptr) value = ruleOf(numbers);
  }
  const Rule& get() const { return value; }
};

/// Numbers per table, in the order of `listTables` in src/kernels/table/lists.ts.
constexpr int64_t tableNumbers = 12;

/// Tables: lists of weights or codes, states, touched, exponents and names, then numbers.
template <>
struct Argument<std::vector<Table>> {
  static constexpr size_t count = 5;
  std::vector<Table> value;
  [[gnu::noinline]] Argument(Call& call, size_t i) {
    const Array<const int32_t> all = Argument<Array<const int32_t>>(call, i + 4).value;
    const int32_t* numbers = all.data;
    const size_t tables = call.valid() ? static_cast<size_t>(all.length / tableNumbers) : 0;
    std::vector<napi_typedarray_type> types, rest;
    for (size_t t = 0; t < tables; t++) {
      switch (static_cast<Precision>(numbers[tableNumbers * t + 5])) {
        case Precision::float32: types.push_back(napi_float32_array); break;
        case Precision::int8: types.push_back(napi_int8_array); break;
        default: types.push_back(napi_uint16_array);
      }
      rest.insert(rest.end(), {napi_int8_array, napi_int32_array});
    }
    const auto weights = call.list(i, types);
    const auto states = call.list(i + 1, {tables, napi_float32_array});
    const auto touched = call.list(i + 2, {tables, napi_uint8_array});
    const auto exponentsAndNames = call.list(i + 3, rest);
    int64_t column = 0;
    for (size_t t = 0; call.valid() && t < tables; t++, numbers += tableNumbers) {
      const auto precision = static_cast<Precision>(numbers[5]);
      const bool wide = precision == Precision::float32;
      value.push_back({wide ? static_cast<float*>(weights[t]) : nullptr,
                       static_cast<float*>(states[t]), static_cast<uint8_t*>(touched[t]),
                       numbers[0], numbers[1], numbers[2], numbers[3] != 0, numbers[4], column,
                       Rule{}, precision, wide ? nullptr : weights[t],
                       static_cast<int8_t*>(exponentsAndNames[2 * t]), numbers[6], numbers[7],
                       numbers[8], numbers[9],
                       static_cast<const int32_t*>(exponentsAndNames[2 * t + 1]), numbers[10],
                       numbers[11] != 0});
      column += numbers[1];
    }
  }
};

/// A list of one table.
template <>
struct Argument<Table> {
  static constexpr size_t count = 5;
  Argument<std::vector<Table>> tables;
  Argument(Call& call, size_t i) : tables(call, i) {}
  const Table& get() const { return tables.value[0]; }
};

/// Narrows 64-bit ids to rows, in this thread's scratch. Refuses the call if an id is not a row.
[[gnu::noinline]] inline const int32_t* narrowedIds(Call& call, const int64_t* ids,
                                                    const int32_t* offsets, int64_t samples,
                                                    const std::vector<Table>& tables) {
  const int64_t count = static_cast<int64_t>(tables.size());
  int32_t* rows = scratches().narrowed.take<int32_t>(offsets[count * samples]);
  int64_t table = 0;
  const int64_t at = narrowIds(rows, ids, offsets, samples, tables.data(), count, table);
  if (at < 0) return rows;
  call.refuse("Expected id " + std::to_string(at) + " of the bags, of table " +
              std::to_string(table) + ", to lie in 0.." + std::to_string(tables[table].rows - 1) +
              ", got " + std::to_string(ids[at]));
  return nullptr;
}

/// Tables, and the bags of lookups in them: the tables; rules, or undefined; offsets, ids of 32 or
/// 64 bits, weights or undefined.
struct Lookups {
  std::vector<Table> tables;
  Bags bags;
  int64_t columns = 0;  // of all tables
};
template <>
struct Argument<Lookups> {
  static constexpr size_t count = 9;
  Lookups value;
  [[gnu::noinline]] Argument(Call& call, size_t i) {
    value.tables = std::move(Argument<std::vector<Table>>(call, i).value);
    auto& tables = value.tables;
    if (const double* rules = call.optionalArray<double>(i + 5); rules != nullptr && call.valid()) {
      for (Table& table : tables) {
        table.rule = ruleOf(rules);
        rules += ruleNumbers;
      }
    }
    if (!tables.empty()) value.columns = tables.back().column + tables.back().dim;
    const auto offsets = Argument<Array<const int32_t>>(call, i + 6).value;
    const int64_t count = static_cast<int64_t>(tables.size());
    const int64_t samples = count == 0 ? 0 : (offsets.length - 1) / count;
    const float* weights = call.optionalArray<float>(i + 8);
    const int32_t* rows = nullptr;
    if (!call.isLongs(i + 7)) {
      rows = call.array<int32_t>(i + 7);
    } else if (const auto ids = call.array<int64_t>(i + 7); call.valid()) {
      rows = narrowedIds(call, ids, offsets.data, samples, tables);
    }
    value.bags = {count, samples, offsets.data, rows, weights};
  }
  Lookups& get() { return value; }
};

template <> inline constexpr bool copies<Rule> = true;
template <> inline constexpr bool copies<Table> = true;
template <> inline constexpr bool copies<std::vector<Table>> = true;
template <> inline constexpr bool copies<Lookups> = true;

}  // namespace osiris
