// The threads of a device: how the kernels of one thread are split into parts, and which threads
// run these. A part is a range of samples, elements, outputs or rows whose results depend on no
// other part, so the number of threads changes no bit.

#pragma once

#include <cstdint>

#include "kernels.h"

namespace osiris {

/// Most threads of a device.
constexpr int64_t threadsMax = 256;

/// Lets this thread's kernels use `threads` threads from now on: the first call starts helpers, and
/// a later call replaces them; 1 ends them. `partNs`: least estimated time of a part; 0: the usual
/// one. It returns the number of threads that the system allowed.
int64_t useThreads(int64_t threads, double partNs);

/// The kernels of `base` in parts, for a thread that has helpers; else `base`. Valid until the next
/// call of this function or of `useThreads` in this thread.
const Kernels& kernelsInParts(const Kernels& base);

}  // namespace osiris
