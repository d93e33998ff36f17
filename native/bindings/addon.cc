// The addon that Node loads: the functions that src/kernels, src/data, src/exchange/links and
// storage/tiers call. They convert typed arrays to pointers and do no arithmetic.

#include <memory>

#include "bindings/arguments.h"
#include "bindings/digest.h"
#include "bindings/embedding.h"
#include "bindings/exchange.h"
#include "bindings/ingest.h"
#include "bindings/links.h"
#include "bindings/memory.h"
#include "bindings/running.h"
#include "bindings/tiers.h"

namespace osiris {

/// A function, or the kernel of the running table that a member of `Kernels` points to.
template <auto of>
auto functionOf() {
  if constexpr (std::is_member_object_pointer_v<decltype(of)>) return running().*of;
  else return of;
}

template <auto of>
napi_value callOf(napi_env env, napi_callback_info info) {
  try {
    return decltype(bindingOf(functionOf<of>()))::run(env, info, functionOf<of>());
  } catch (const std::bad_alloc&) {
    napi_throw_error(env, nullptr, "There is no memory left for the scratch of a kernel");
    return nullptr;
  }
}

/// A call that repeats while the memory of its arguments stays in its place.
struct Repeat {
  virtual ~Repeat() = default;
  virtual void run() = 0;
};

template <auto of>
struct RepeatOf final : Repeat {
  using Own = decltype(bindingOf(functionOf<of>()));
  explicit RepeatOf(Call& call) : taken(Own::take(call)) {}
  void run() override {
    std::apply([](auto&... each) { functionOf<of>()(each.get()...); }, taken);
  }
  typename Own::Taken taken;
};

/// Null: the call cannot be repeated.
template <auto of>
std::unique_ptr<Repeat> repeatOf([[maybe_unused]] Call& call) {
  if constexpr (RepeatOf<of>::Own::repeats) return std::make_unique<RepeatOf<of>>(call);
  return nullptr;
}

/// A function of the addon: its name, and the number of its arguments.
struct Entry {
  const char* name;
  napi_callback callback;
  size_t arguments;
  std::unique_ptr<Repeat> (*repeat)(Call&);
};

template <auto of>
constexpr Entry entry(const char* name) {
  return {name, callOf<of>, decltype(bindingOf(functionOf<of>()))::arguments, repeatOf<of>};
}

napi_value keepCalls(napi_env env, const Array<const int32_t>& functions, napi_value lists);
void runCalls(napi_env env, napi_value kept, napi_value lists);

constexpr Entry entries[] = {
#define KERNEL(result, name, ...) entry<&Kernels::name>(#name),
#define ADAPTED(result, name, ...) entry<binding::name>(#name),
#include "table.h"
#undef KERNEL
#undef ADAPTED
    entry<binding::poolAt>("poolAt"),
    entry<binding::collidingBags>("collidingBags"),
    entry<binding::callForm>("callForm"),
    entry<keepCalls>("keepCalls"),
    entry<runCalls>("runCalls"),
    entry<binding::built>("built"),
    entry<binding::arithmetic>("arithmetic"),
    entry<binding::limitIsa>("limitIsa"),
    entry<binding::useThreads>("useThreads"),
    entry<binding::useLargePages>("useLargePages"),
    entry<binding::skewOf>("skewOf"),
    entry<binding::clearPages>("clearPages"),
    entry<binding::hashRows>("hashRows"),
    entry<binding::readRecords>("readRecords"),
    entry<binding::writeRecords>("writeRecords"),
    entry<binding::dropCached>("dropCached"),
    entry<binding::readFields>("readFields"),
    entry<binding::copyRecords>("copyRecords"),
    entry<foldRecord>("foldRecord"),
    entry<binding::appendRecords>("appendRecords"),
    entry<binding::copyBatch>("copyBatch"),
    entry<binding::readHybrid>("readHybrid"),
    entry<markRows>("markRows"),
    entry<binding::takeNumbers>("takeNumbers"),
    entry<binding::takePairs>("takePairs"),
    entry<binding::unpackSnappy>("unpackSnappy"),
    entry<binding::writeColumns>("writeColumns"),
    entry<measureBags>("measureBags"),
    entry<writeBags>("writeBags"),
    entry<binding::countDistinct>("countDistinct"),
    entry<binding::countRuns>("countRuns"),
    entry<markSame>("markSame"),
    entry<binding::copyRows>("copyRows"),
    entry<binding::hashIds>("hashIds"),
    entry<binding::rowsOfIds>("rowsOfIds"),
    entry<binding::sigridHash>("sigridHash"),
    entry<binding::bucketize>("bucketize"),
    entry<binding::nGram>("nGram"),
    entry<binding::checksum>("crc32c"),
    entry<binding::hasTls>("hasTls"),
    entry<binding::openLinks>("openLinks"),
    entry<binding::startSender>("startSender"),
    entry<binding::startReceiver>("startReceiver"),
    entry<binding::sendFrame>("sendFrame"),
    entry<binding::drainLinks>("drainLinks"),
    entry<binding::stopLink>("stopLink"),
    entry<binding::closeLinks>("closeLinks"),
};

/// Calls, with the names of their functions.
using KeptCalls = std::vector<std::pair<const char*, std::unique_ptr<Repeat>>>;

/// keepCalls(functions, lists): returns the calls of functions, given by their index in `entries`,
/// for `runCalls`. `lists` has the arguments of each call; JavaScript keeps them as long as the
/// result. Returns undefined if one of the calls cannot be repeated.
napi_value keepCalls(napi_env env, const Array<const int32_t>& functions, napi_value lists) {
  auto kept = std::make_unique<KeptCalls>();
  for (int64_t i = 0; i < functions.length; i++) {
    const Entry& of = entries[functions.data[i]];
    napi_value list = nullptr;
    napi_get_element(env, lists, static_cast<uint32_t>(i), &list);
    Call call(env, list, of.arguments);
    kept->emplace_back(of.name, of.repeat(call));
    if (!call.valid() || !kept->back().second) return nullptr;
  }
  const auto drop = [](napi_env, void* calls, void*) { delete static_cast<KeptCalls*>(calls); };
  napi_value result = nullptr;
  napi_create_external(env, kept.release(), drop, nullptr, &result);
  return result;
}

/// runCalls(kept, lists): repeats the calls that `keepCalls` kept, in their order. `lists` is not
/// read: JavaScript passes it so that the arrays of the arguments live as long as `kept`.
void runCalls(napi_env env, napi_value kept, napi_value) {
  void* calls = nullptr;
  if (napi_get_value_external(env, kept, &calls) != napi_ok) {
    napi_throw_type_error(env, nullptr, "Expected calls that `keepCalls` has kept");
    return;
  }
  for (const auto& [name, repeat] : *static_cast<KeptCalls*>(calls)) {
    try {
      repeat->run();
    } catch (const std::bad_alloc&) {
      const auto message = std::string("There is no memory left for the scratch of ") + name;
      napi_throw_error(env, nullptr, message.c_str());
      return;
    }
  }
}

/// argumentCounts(): the number of arguments of each function, by name.
napi_value argumentCounts(napi_env env, napi_callback_info) {
  napi_value counts = nullptr;
  napi_create_object(env, &counts);
  for (const Entry& of : entries) {
    napi_set_named_property(env, counts, of.name, answer(env, static_cast<int64_t>(of.arguments)));
  }
  return counts;
}

}  // namespace osiris

NAPI_MODULE_INIT() {
  const auto add = [&](const char* name, napi_callback callback) {
    const napi_property_descriptor property = {name,    nullptr, callback,        nullptr,
                                               nullptr, nullptr, napi_enumerable, nullptr};
    napi_define_properties(env, exports, 1, &property);
  };
  for (const osiris::Entry& of : osiris::entries) add(of.name, of.callback);
  add("argumentCounts", osiris::argumentCounts);
  return exports;
}
