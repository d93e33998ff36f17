// Bindings for the memory of typed arrays: its alignment and its pages.

#pragma once

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "bindings/call.h"

namespace {

using namespace osiris;

// skewOf(t): the number of elements of t before the first element on a boundary of 64 bytes.
napi_value skewOf(Call& call) {
  const uintptr_t past = reinterpret_cast<uintptr_t>(call.floats(0)) / sizeof(float) % 16;
  return call.answer(past == 0 ? 0 : 16 - static_cast<int64_t>(past));
}

// useLargePages(t): requests pages of 2 MiB, before the memory is first used. With small pages,
// lookups of random rows of a large table spend their time on address translation. The system may
// refuse.
void useLargePages(Call& call) {
  const uintptr_t page = 2 << 20;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(call.floats(0));
  const uintptr_t end = begin + static_cast<uintptr_t>(call.length(0)) * sizeof(float);
  const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  if (!call.valid() || first >= last) return;
#if defined(__linux__)
  madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

}  // namespace
