// One call from JavaScript: its arguments become the parameters of a C++ function, and the result
// of the function becomes JavaScript's. The types of the parameters decide how an argument is read,
// so no function unpacks its arguments by hand. Only element types are checked: with a wrong type,
// a kernel would access memory out of bounds. src/kernels/table has checked the shapes.

#pragma once

#include <node_api.h>

#include <cstring>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace osiris {

constexpr size_t argumentsMax = 20;

/// The type of the typed arrays that hold elements of a C++ type. Bytes may hold anything.
template <typename Element>
constexpr napi_typedarray_type arrayOf = napi_uint8_array;
template <>
inline constexpr napi_typedarray_type arrayOf<float> = napi_float32_array;
template <>
inline constexpr napi_typedarray_type arrayOf<double> = napi_float64_array;
template <>
inline constexpr napi_typedarray_type arrayOf<int32_t> = napi_int32_array;
template <>
inline constexpr napi_typedarray_type arrayOf<uint32_t> = napi_uint32_array;
template <>
inline constexpr napi_typedarray_type arrayOf<uint16_t> = napi_uint16_array;
template <>
inline constexpr napi_typedarray_type arrayOf<int64_t> = napi_bigint64_array;

/// The arguments of one call from JavaScript.
class Call {
 public:
  /// Refuses the call unless it has `expected` arguments; undefined is one.
  [[gnu::noinline]] Call(napi_env env, napi_callback_info info, size_t expected) : env_(env) {
    size_t count = argumentsMax;
    ok(napi_get_cb_info(env, info, &count, arguments_, nullptr, nullptr));
    if (count == expected) return;
    const std::string message =
        "Expected " + std::to_string(expected) + " arguments, got " + std::to_string(count);
    napi_throw_type_error(env, nullptr, message.c_str());
    valid_ = false;
  }
  /// The same for arguments in a list.
  Call(napi_env env, napi_value list, size_t expected) : env_(env) {
    for (uint32_t i = 0; i < expected; i++) ok(napi_get_element(env, list, i, &arguments_[i]));
  }

  /// The elements of a typed array; nullptr if it has none. `length`, if given, receives their
  /// number.
  template <typename Element>
  Element* array(size_t i, int64_t* length = nullptr) {
    using Plain = std::remove_const_t<Element>;
    return static_cast<Element*>(memory(arguments_[i], arrayOf<Plain>, length));
  }
  /// The same for an argument that may be undefined, which is nullptr then.
  template <typename Element>
  Element* optionalArray(size_t i) {
    return missing(i) ? nullptr : array<Element>(i);
  }

  [[gnu::noinline]] bool isLongs(size_t i) {
    napi_typedarray_type type = napi_int8_array;
    ok(napi_get_typedarray_info(env_, arguments_[i], &type, nullptr, nullptr, nullptr, nullptr));
    return type == napi_bigint64_array;
  }

  [[gnu::noinline]] double number(size_t i) {
    double value = 0;
    ok(napi_get_value_double(env_, arguments_[i], &value));
    return value;
  }
  int64_t integer(size_t i) { return static_cast<int64_t>(number(i)); }
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
    napi_valuetype type = napi_object;
    ok(napi_typeof(env_, arguments_[i], &type));
    return type == napi_undefined;
  }

  /// The number of elements of a list.
  [[gnu::noinline]] size_t count(size_t i) {
    uint32_t count = 0;
    ok(napi_get_array_length(env_, arguments_[i], &count));
    return count;
  }
  /// The elements of the typed array at index `at` of a list.
  [[gnu::noinline]] void* element(size_t i, size_t at, napi_typedarray_type type,
                                  int64_t* length = nullptr) {
    napi_value element = nullptr;
    ok(napi_get_element(env_, arguments_[i], static_cast<uint32_t>(at), &element));
    return memory(element, type, length);
  }
  /// The elements of a list with a typed array of each of `types`. `lengths`, if given, receives
  /// the lengths of the arrays.
  [[gnu::noinline]] std::vector<void*> list(size_t i,
                                            const std::vector<napi_typedarray_type>& types,
                                            std::vector<int64_t>* lengths = nullptr) {
    const bool isWhole = count(i) == types.size();
    valid_ = valid_ && isWhole;
    std::vector<void*> pointers;
    for (size_t at = 0; valid_ && at < types.size(); at++) {
      int64_t length = 0;
      pointers.push_back(element(i, at, types[at], &length));
      if (lengths != nullptr) lengths->push_back(length);
    }
    return pointers;
  }

  /// Returns false, with an exception pending, if an argument has a wrong type.
  [[gnu::noinline]] bool valid() {
    if (valid_) return true;
    napi_throw_type_error(env_, nullptr, "Expected the typed arrays that this kernel takes");
    return false;
  }

  napi_env environment() const { return env_; }
  napi_value value(size_t i) const { return arguments_[i]; }

  /// Ends the call with a RangeError. A later exception does not replace it.
  [[gnu::noinline]] void refuse(const std::string& message) {
    napi_throw_range_error(env_, nullptr, message.c_str());
    valid_ = false;
  }

 private:
  void ok(napi_status status) { valid_ = valid_ && status == napi_ok; }

  [[gnu::noinline]] void* memory(napi_value value, napi_typedarray_type expected, int64_t* length) {
    napi_typedarray_type type = expected;
    void* data = nullptr;
    size_t count = 0;
    ok(napi_get_typedarray_info(env_, value, &type, &count, &data, nullptr, nullptr));
    valid_ = valid_ && type == expected;
    if (length != nullptr) *length = static_cast<int64_t>(count);
    return count == 0 ? nullptr : data;
  }

  napi_env env_;
  napi_value arguments_[argumentsMax] = {};
  bool valid_ = true;
};

/// Converts arguments of a call to one parameter: `count` arguments from index i on. It keeps the
/// memory that the parameter points to until the call ends. arguments.h has the structures.
template <typename Parameter, typename = void>
struct Argument {
  static constexpr size_t count = 1;
  Parameter value;
  Argument(Call& call, size_t i) : value(of(call, i)) {}
  Parameter get() const { return value; }

 private:
  static Parameter of(Call& call, size_t i) {
    if constexpr (std::is_same_v<Parameter, bool>) return call.flag(i);
    if constexpr (std::is_floating_point_v<Parameter>) {
      return static_cast<Parameter>(call.number(i));
    }
    return static_cast<Parameter>(call.integer(i));
  }
};

/// The environment of the call, which is no argument in JavaScript.
template <>
struct Argument<napi_env> {
  static constexpr size_t count = 0;
  napi_env value;
  Argument(Call& call, size_t) : value(call.environment()) {}
  napi_env get() const { return value; }
};

/// An object that the function itself reads.
template <>
struct Argument<napi_value> {
  static constexpr size_t count = 1;
  napi_value value;
  Argument(Call& call, size_t i) : value(call.value(i)) {}
  napi_value get() const { return value; }
};

template <>
struct Argument<std::string> {
  static constexpr size_t count = 1;
  std::string value;
  Argument(Call& call, size_t i) : value(call.text(i)) {}
  const std::string& get() const { return value; }
};

/// A typed array.
template <typename Element>
struct Argument<Element*> {
  static constexpr size_t count = 1;
  Element* value;
  Argument(Call& call, size_t i) : value(call.array<Element>(i)) {}
  Element* get() const { return value; }
};

/// A typed array with its length.
template <typename Element>
struct Array {
  Element* data;
  int64_t length;
};
template <typename Element>
struct Argument<Array<Element>> {
  static constexpr size_t count = 1;
  Array<Element> value;
  Argument(Call& call, size_t i) { value.data = call.array<Element>(i, &value.length); }
  const Array<Element>& get() const { return value; }
};

/// A list of float arrays with their lengths.
struct FloatLists {
  std::vector<float*> of;
  std::vector<int64_t> lengths;
  int64_t count() const { return static_cast<int64_t>(of.size()); }
};
template <>
struct Argument<FloatLists> {
  static constexpr size_t count = 1;
  FloatLists value;
  [[gnu::noinline]] Argument(Call& call, size_t i) {
    value.of.resize(call.count(i));
    value.lengths.resize(value.of.size());
    for (size_t at = 0; at < value.of.size(); at++) {
      const auto element = call.element(i, at, napi_float32_array, &value.lengths[at]);
      value.of[at] = static_cast<float*>(element);
    }
  }
  const FloatLists& get() const { return value; }
};

/// A list of float arrays.
template <typename Element>
struct Argument<Element* const*> {
  static constexpr size_t count = 1;
  Argument<FloatLists> value;
  Argument(Call& call, size_t i) : value(call, i) {}
  Element* const* get() const { return value.value.of.data(); }
};

/// A result; or, with a text, a refusal of the call.
template <typename Value>
struct Refusable {
  Value value;
  std::string refusal;
};

/// Values that are copied into a new typed array.
template <typename Element>
struct Copied {
  const Element* values;
  int64_t count;
};

inline napi_value answer(napi_env, napi_value value) { return value; }
inline napi_value answer(napi_env env, bool value) {
  napi_value result = nullptr;
  napi_get_boolean(env, value, &result);
  return result;
}
inline napi_value answer(napi_env env, int64_t value) {
  napi_value result = nullptr;
  napi_create_int64(env, value, &result);
  return result;
}
/// nullptr: undefined.
inline napi_value answer(napi_env env, const char* text) {
  napi_value result = nullptr;
  if (text != nullptr) napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &result);
  return result;
}
inline napi_value answer(napi_env env, const std::vector<const char*>& texts) {
  napi_value result = nullptr;
  napi_create_array(env, &result);
  for (uint32_t i = 0; i < texts.size(); i++) {
    if (texts[i] != nullptr) napi_set_element(env, result, i, answer(env, texts[i]));
  }
  return result;
}
template <typename Element>
napi_value answer(napi_env env, const Copied<Element>& of) {
  napi_value buffer = nullptr, result = nullptr;
  void* data = nullptr;
  const size_t count = static_cast<size_t>(of.count), bytes = count * sizeof(Element);
  if (napi_create_arraybuffer(env, bytes, &data, &buffer) != napi_ok) return nullptr;
  if (bytes > 0) std::memcpy(data, of.values, bytes);
  napi_create_typedarray(env, arrayOf<Element>, count, buffer, 0, &result);
  return result;
}

template <typename Value>
napi_value answer(napi_env env, const Refusable<Value>& of) {
  if (of.refusal.empty()) return answer(env, of.value);
  napi_throw_range_error(env, nullptr, of.refusal.c_str());
  return nullptr;
}

/// Whether a parameter copies numbers from typed arrays, which another call would read anew.
template <typename Parameter>
constexpr bool copies = false;

/// Calls a function with parameters of these types. `arguments`: their number in JavaScript.
template <typename Result, typename... Parameters>
struct Binding {
  using Function = Result (*)(Parameters...);
  using Taken = std::tuple<Argument<std::decay_t<Parameters>>...>;
  static constexpr size_t arguments = (size_t{0} + ... + Argument<std::decay_t<Parameters>>::count);
  static_assert(arguments <= argumentsMax);
  /// Whether a call may be repeated with the arguments that were taken for the first.
  static constexpr bool repeats =
      std::is_void_v<Result> && !(false || ... || copies<std::decay_t<Parameters>>);

  static Taken take(Call& call) {
    [[maybe_unused]] size_t at = 0;
    // The braces keep the order: arguments are taken from left to right.
    return Taken{Argument<std::decay_t<Parameters>>(call, next<Parameters>(at))...};
  }

  static napi_value run(napi_env env, napi_callback_info info, Function function) {
    Call call(env, info, arguments);
    Taken taken = take(call);
    if (!call.valid()) return nullptr;
    return std::apply(
        [&](auto&... each) -> napi_value {
          if constexpr (std::is_void_v<Result>) {
            function(each.get()...);
            return nullptr;
          } else {
            return answer(env, function(each.get()...));
          }
        },
        taken);
  }

 private:
  template <typename Parameter>
  static size_t next(size_t& at) {
    const size_t i = at;
    at += Argument<std::decay_t<Parameter>>::count;
    return i;
  }
};

template <typename Result, typename... Parameters>
Binding<Result, Parameters...> bindingOf(Result (*)(Parameters...));

}  // namespace osiris
