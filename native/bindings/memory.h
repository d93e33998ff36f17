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

}  // namespace osiris::binding
