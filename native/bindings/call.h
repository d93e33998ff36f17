// Converts the arguments of a call from JavaScript to pointers and numbers. It checks only element
// types: with a wrong type, a kernel would access memory out of bounds.
// src/kernels/checked/checked.ts has checked the shapes.

#pragma once

#include <node_api.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "bindings/ids.h"
#include "kernels.h"

namespace {

using namespace osiris;

constexpr size_t argumentsMax = 14;

/// The arguments of one call from JavaScript.
class Call {
 public:
  [[gnu::noinline]] Call(napi_env env, napi_callback_info info) : env_(env) {
    size_t count = argumentsMax;
    ok(napi_get_cb_info(env, info, &count, arguments_, nullptr, nullptr));
  }

  float* floats(size_t i) { return pointer<float>(arguments_[i], napi_float32_array); }
  int32_t* ints(size_t i) { return pointer<int32_t>(arguments_[i], napi_int32_array); }
  uint32_t* words(size_t i) { return pointer<uint32_t>(arguments_[i], napi_uint32_array); }
  double* doubles(size_t i) { return pointer<double>(arguments_[i], napi_float64_array); }
  uint8_t* bytes(size_t i) { return pointer<uint8_t>(arguments_[i], napi_uint8_array); }

  int64_t* longs(size_t i) { return pointer<int64_t>(arguments_[i], napi_bigint64_array); }
  [[gnu::noinline]] bool isLongs(size_t i) {
    napi_typedarray_type type = napi_int8_array;
    ok(napi_get_typedarray_info(env_, arguments_[i], &type, nullptr, nullptr, nullptr, nullptr));
    return type == napi_bigint64_array;
  }

  [[gnu::noinline]] int64_t length(size_t i) {
    size_t length = 0;
    ok(napi_get_typedarray_info(env_, arguments_[i], nullptr, &length, nullptr, nullptr, nullptr));
    return static_cast<int64_t>(length);
  }

  [[gnu::noinline]] double number(size_t i) {
    double value = 0;
    ok(napi_get_value_double(env_, arguments_[i], &value));
    return value;
  }
  int64_t integer(size_t i) { return static_cast<int64_t>(number(i)); }
  uint32_t word(size_t i) { return static_cast<uint32_t>(integer(i)); }
  [[gnu::noinline]] bool flag(size_t i) {
    bool value = false;
    ok(napi_get_value_bool(env_, arguments_[i], &value));
    return value;
  }
  [[gnu::noinline]] std::string text(size_t i) {
    char value[16] = {};
    ok(napi_get_value_string_utf8(env_, arguments_[i], value, sizeof value, nullptr));
    return value;
  }
  [[gnu::noinline]] bool missing(size_t i) {
    napi_valuetype type = napi_undefined;
    ok(napi_typeof(env_, arguments_[i], &type));
    return type == napi_undefined;
  }

  /// The pointers of an array of typed arrays, of one type each (`types`), or all of one type.
  /// `lengths`, if given, receives the lengths of the arrays.
  template <typename Element>
  [[gnu::noinline]] std::vector<Element*> list(size_t i, const std::vector<napi_typedarray_type>& types,
                             std::vector<int64_t>* lengths = nullptr) {
    uint32_t count = 0;
    ok(napi_get_array_length(env_, arguments_[i], &count));
    valid_ = valid_ && count == types.size();
    std::vector<Element*> pointers;
    for (uint32_t at = 0; valid_ && at < count; at++) {
      napi_value element = nullptr;
      ok(napi_get_element(env_, arguments_[i], at, &element));
      size_t length = 0;
      pointers.push_back(pointer<Element>(element, types[at], &length));
      if (lengths != nullptr) lengths->push_back(static_cast<int64_t>(length));
    }
    return pointers;
  }
  template <typename Element>
  [[gnu::noinline]] std::vector<Element*> list(size_t i, napi_typedarray_type type) {
    uint32_t count = 0;
    ok(napi_get_array_length(env_, arguments_[i], &count));
    return list<Element>(i, std::vector<napi_typedarray_type>(count, type));
  }
  std::vector<float*> floatsOf(size_t i) { return list<float>(i, napi_float32_array); }

  /// Returns false, with an exception pending, if an argument has a wrong type.
  [[gnu::noinline]] bool valid() {
    if (valid_) return true;
    napi_throw_type_error(env_, nullptr, "Expected the typed arrays that this kernel takes");
    return false;
  }

  /// Ends the call with a RangeError. A later exception does not replace it.
  [[gnu::noinline]] void refuse(const std::string& message) {
    napi_throw_range_error(env_, nullptr, message.c_str());
    valid_ = false;
  }

  [[gnu::noinline]] napi_value answer(int64_t number) {
    napi_value result = nullptr;
    napi_create_int64(env_, number, &result);
    return result;
  }
  napi_value answer(const float* values, int64_t count) {
    return copied(values, count, napi_float32_array);
  }
  napi_value answer(const double* values, int64_t count) {
    return copied(values, count, napi_float64_array);
  }

  napi_env env() const { return env_; }

 private:
  template <typename Element>
  napi_value copied(const Element* values, int64_t count, napi_typedarray_type type) {
    napi_value buffer = nullptr, result = nullptr;
    void* data = nullptr;
    const size_t bytes = static_cast<size_t>(count) * sizeof(Element);
    if (napi_create_arraybuffer(env_, bytes, &data, &buffer) != napi_ok) return nullptr;
    if (bytes > 0) std::memcpy(data, values, bytes);
    napi_create_typedarray(env_, type, static_cast<size_t>(count), buffer, 0, &result);
    return result;
  }

  void ok(napi_status status) { valid_ = valid_ && status == napi_ok; }

  template <typename Element>
  Element* pointer(napi_value value, napi_typedarray_type expected, size_t* count = nullptr) {
    return static_cast<Element*>(memory(value, expected, count));
  }

  /// The memory of a typed array; nullptr if it has no elements.
  [[gnu::noinline]] void* memory(napi_value value, napi_typedarray_type expected, size_t* count) {
    napi_typedarray_type type = napi_int8_array;
    void* data = nullptr;
    size_t length = 0;
    ok(napi_get_typedarray_info(env_, value, &type, &length, &data, nullptr, nullptr));
    valid_ = valid_ && type == expected;
    if (count != nullptr) *count = length;
    return length == 0 ? nullptr : data;
  }

  napi_env env_;
  napi_value arguments_[argumentsMax] = {};
  bool valid_ = true;
};

/// Reads a rule from its numbers, in the order of `listRules` in src/kernels/native/native.ts.
constexpr size_t ruleNumbers = 20;
Rule ruleOf(const double* numbers) {
  const double *n = numbers + 1, rate = n[0], decay = n[2], beta1 = n[5], beta2 = n[6];
  Rule rule{};
  rule.kind = static_cast<RuleKind>(static_cast<int>(numbers[0]));
  const bool adam = rule.kind == RuleKind::adam || rule.kind == RuleKind::partialRowWiseAdam;
  rule.rate = static_cast<float>(adam ? rate / n[7] : rate);
  rule.unit = static_cast<float>(1 / n[7]);
  rule.l2 = static_cast<float>(n[1]);
  rule.decay = static_cast<float>(decay);
  rule.kept = rule.isLamb() ? 1 : static_cast<float>(1 - rate * decay);
  rule.epsilon = static_cast<float>(n[3]);
  rule.momentum = static_cast<float>(n[4]);
  rule.beta1 = static_cast<float>(beta1);
  rule.beta2 = static_cast<float>(beta2);
  rule.rest1 = static_cast<float>(1 - beta1);
  rule.rest2 = static_cast<float>(1 - beta2);
  rule.root2 = static_cast<float>(std::sqrt(n[8]));
  rule.beta = static_cast<float>(n[9]);
  rule.lambda1 = static_cast<float>(n[10]);
  rule.lambda2 = static_cast<float>(n[11]);
  rule.clip = static_cast<float>(n[12]);
  rule.average = {n[13], static_cast<int64_t>(n[14])};
  for (int i = 0; i < 2; i++) rule.key[i] = static_cast<uint32_t>(n[15 + i]);
  rule.purpose = static_cast<uint32_t>(n[17]);
  rule.step = static_cast<uint32_t>(n[18]);
  return rule;
}

/// Numbers per table, in the order of `listTables` in src/kernels/native/tables.ts.
constexpr int64_t tableNumbers = 12;

/// Tables from arguments i .. i+4: lists of weights or codes, states, touched, exponents and names,
/// then numbers; with `rules`, from argument i+5, too.
[[gnu::noinline]] std::vector<Table> tablesOf(Call& call, size_t i, bool rules) {
  const int32_t* numbers = call.ints(i + 4);
  std::vector<napi_typedarray_type> types;
  for (int64_t t = 0; call.valid() && t < call.length(i + 4) / tableNumbers; t++) {
    switch (static_cast<Precision>(numbers[tableNumbers * t + 5])) {
      case Precision::float32: types.push_back(napi_float32_array); break;
      case Precision::int8: types.push_back(napi_int8_array); break;
      default: types.push_back(napi_uint16_array);
    }
  }
  const auto weights = call.list<void>(i, types);
  const auto states = call.floatsOf(i + 1);
  const auto touched = call.list<uint8_t>(i + 2, napi_uint8_array);
  std::vector<napi_typedarray_type> rest;
  for (size_t t = 0; t < types.size(); t++) {
    rest.insert(rest.end(), {napi_int8_array, napi_int32_array});
  }
  const auto exponentsAndNames = call.list<void>(i + 3, rest);
  const double* rulesAt = rules ? call.doubles(i + 5) : nullptr;
  std::vector<Table> tables;
  int64_t column = 0;
  for (size_t t = 0; call.valid() && t < weights.size(); t++, numbers += tableNumbers) {
    Rule rule{};
    if (rules) rule = ruleOf(rulesAt + ruleNumbers * t);
    const auto precision = static_cast<Precision>(numbers[5]);
    const bool wide = precision == Precision::float32;
    tables.push_back({wide ? static_cast<float*>(weights[t]) : nullptr, states[t], touched[t],
                      numbers[0], numbers[1], numbers[2], numbers[3] != 0, numbers[4], column,
                      rule, precision, wide ? nullptr : weights[t],
                      static_cast<int8_t*>(exponentsAndNames[2 * t]), numbers[6], numbers[7],
                      numbers[8], numbers[9],
                      static_cast<const int32_t*>(exponentsAndNames[2 * t + 1]), numbers[10], numbers[11] != 0});
    column += numbers[1];
  }
  return tables;
}

/// Narrows 64-bit ids to rows, in this thread's scratch. Refuses the call if an id is not a row.
[[gnu::noinline]] const int32_t* narrowedIds(Call& call, const int64_t* ids, const int32_t* offsets,
                           int64_t samples, const std::vector<Table>& tables) {
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

/// Bags from arguments i .. i+2: offsets, ids of 32 or 64 bits, weights or undefined.
[[gnu::noinline]] Bags bagsOf(Call& call, size_t i, const std::vector<Table>& tables) {
  const int64_t count = static_cast<int64_t>(tables.size());
  const int64_t samples = count == 0 ? 0 : (call.length(i) - 1) / count;
  const int32_t* offsets = call.ints(i);
  const float* weights = call.missing(i + 2) ? nullptr : call.floats(i + 2);
  if (!call.isLongs(i + 1)) return {count, samples, offsets, call.ints(i + 1), weights};
  const int64_t* ids = call.longs(i + 1);
  const int32_t* rows =
      call.valid() ? narrowedIds(call, ids, offsets, samples, tables) : nullptr;
  return {count, samples, offsets, rows, weights};
}

int64_t columnsOf(const std::vector<Table>& tables) {
  return tables.empty() ? 0 : tables.back().column + tables.back().dim;
}

/// Converts a list of tensors that a kernel adds to its output.
Addends addendsOf(const std::vector<float*>& list) {
  return {list.data(), static_cast<int64_t>(list.size())};
}

/// Arguments i, i+1: index of the first slice, bounds.
[[gnu::noinline]] Slices slicesOf(Call& call, size_t i) {
  return {call.integer(i), call.length(i + 1) - 1, call.ints(i + 1)};
}

/// Arguments i, i+1: the two words of a key.
struct Key {
  uint32_t words[2];
};
Key keyOf(Call& call, size_t i) { return {{call.word(i), call.word(i + 1)}}; }

}  // namespace
