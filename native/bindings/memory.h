// Bindings for the memory of typed arrays: its alignment and its pages.

#pragma once

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "bindings/call.h"

namespace osiris::binding {

/// The number of elements of t before the first element on a boundary of 64 bytes.
inline int64_t skewOf(const float* t) {
  const uintptr_t past = reinterpret_cast<uintptr_t>(t) / sizeof(float) % 16;
  return past == 0 ? 0 : 16 - static_cast<int64_t>(past);
}

/// Requests pages of 2 MiB, before the memory is first used. With small pages, lookups of random
/// rows of a large table spend their time on address translation. The system may refuse.
inline void useLargePages(Array<float> t) {
  const uintptr_t page = 2 << 20;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(t.data);
  const uintptr_t end = begin + static_cast<uintptr_t>(t.length) * sizeof(float);
  const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  if (first >= last) return;
#if defined(__linux__)
  madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

/// Pages that a thread of Node's pool clears. `array` keeps their memory.
struct PagesToClear {
  char* first;
  size_t bytes;
  napi_ref array;
  napi_async_work work;
};

/// Has the pages of `bytes` bytes from `first` on cleared beside this thread, before their first
/// use would interrupt it. Their content stays. The system may not be able to.
inline void clearPages(napi_env env, napi_value array, int64_t first, int64_t bytes) {
#if defined(__linux__)
  void* data = nullptr;
  size_t length = 0;
  napi_get_typedarray_info(env, array, nullptr, &length, &data, nullptr, nullptr);
  constexpr uintptr_t page = 4096;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(first);
  const uintptr_t own = begin / page * page;
  const size_t whole = (begin + static_cast<uintptr_t>(bytes) - own) / page * page;
  if (first < 0 || first + bytes > static_cast<int64_t>(length) || whole == 0) return;
  auto* pages = new PagesToClear{reinterpret_cast<char*>(own), whole, nullptr, nullptr};
  const auto clear = [](napi_env, void* of) {
    constexpr int populateWrite = 23;  // MADV_POPULATE_WRITE, of Linux 5.14.
    const auto* own = static_cast<PagesToClear*>(of);
    madvise(own->first, own->bytes, populateWrite);
  };
  const auto end = [](napi_env env, napi_status, void* of) {
    auto* own = static_cast<PagesToClear*>(of);
    napi_delete_reference(env, own->array);
    napi_delete_async_work(env, own->work);
    delete own;
  };
  napi_value name = nullptr;
  napi_create_string_utf8(env, "osiris: pages", NAPI_AUTO_LENGTH, &name);
  napi_create_reference(env, array, 1, &pages->array);
  napi_create_async_work(env, nullptr, name, clear, end, pages, &pages->work);
  napi_queue_async_work(env, pages->work);
#endif
}

}  // namespace osiris::binding
