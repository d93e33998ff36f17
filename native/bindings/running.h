// The kernels that a thread runs: the best for this processor, or those of a selected instruction
// set.

#pragma once

#include <vector>

#include "bindings/call.h"
#include "kernels.h"
#include "threads/threads.h"

namespace osiris {

inline const Kernels* const best = bestKernels();
inline thread_local const Kernels* limited = nullptr;

/// The kernels that this thread runs. If there are none, src/ports/addon.ts calls only `built`.
inline const Kernels& running() { return kernelsInParts(limited != nullptr ? *limited : *best); }

/// The name and version of the compiler.
#if defined(__clang__)
constexpr const char* compiledBy = __VERSION__;
#else
constexpr const char* compiledBy = "g++ " __VERSION__;
#endif

namespace binding {

/// Returns the instruction set that this thread runs, or undefined if this addon has none for this
/// processor; all sets that it was compiled for, separated by blanks; and the compiler.
inline std::vector<const char*> built() {
  const Kernels* const mine = limited != nullptr ? limited : best;
  return {mine == nullptr ? nullptr : mine->name, compiledSets(), compiledBy};
}

inline const char* arithmetic() { return running().arithmetic; }

/// For tests and benches: selects the kernels of one instruction set in this thread. Returns false
/// if there are none.
inline bool limitIsa(const std::string& name) {
  const Kernels* kernels = kernelsOf(name.c_str());
  if (kernels != nullptr) limited = kernels;
  return kernels != nullptr;
}

/// Lets this thread's kernels use several threads (threads/threads.h), until the thread's
/// environment ends. Returns their number, which is lower where the system refuses threads.
inline int64_t useThreads(napi_env env, int64_t threads, double partNs) {
  static thread_local bool ends = false;
  if (!ends) {
    ends = napi_add_env_cleanup_hook(env, [](void*) { osiris::useThreads(1, 0); }, nullptr) ==
           napi_ok;
  }
  return ends ? osiris::useThreads(threads, partNs) : 1;
}

/// The version of the calling convention. It changes when arguments of a function change.
/// src/ports/addon.ts has the same number, and does not use an addon with another one.
inline int64_t callForm() { return 17; }

}  // namespace binding

}  // namespace osiris
