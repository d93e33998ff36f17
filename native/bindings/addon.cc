// The addon that Node loads: the functions that src/kernels, src/data, src/exchange/links and
// storage/tiers call. They convert typed arrays to pointers and do no arithmetic.

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

/// A function of the addon: its name, and the number of its arguments.
struct Entry {
  const char* name;
  napi_callback callback;
  size_t arguments;
};

template <auto of>
constexpr Entry entry(const char* name) {
  return {name, callOf<of>, decltype(bindingOf(functionOf<of>()))::arguments};
}

constexpr Entry entries[] = {
#define KERNEL(result, name, ...) entry<&Kernels::name>(#name),
#define ADAPTED(result, name, ...) entry<binding::name>(#name),
#include "table.h"
#undef KERNEL
#undef ADAPTED
    entry<binding::poolAt>("poolAt"),
    entry<binding::collidingBags>("collidingBags"),
    entry<binding::callForm>("callForm"),
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
