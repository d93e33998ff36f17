// Detects the instruction sets of this processor: for kernels.cc when the addon is loaded, for
// probe.cc when it is built.

#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace osiris {

#if defined(__x86_64__)

inline bool hasAvx2() {
  __builtin_cpu_init();
  unsigned a, b, c, d;  // Leaf 1 of cpuid, because Clang's __builtin_cpu_supports has no F16C.
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

inline bool hasAvx512() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

/// AVX-512 with products of pairs of bfloat16.
inline bool hasAvx512Bf16() {
#if defined(__clang__) || __GNUC__ >= 11
  return hasAvx512() && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

inline bool hasNeon() { return false; }

#else

/// Every processor of 64-bit ARM has NEON.
inline bool hasNeon() {
#if defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

inline bool hasAvx2() { return false; }
inline bool hasAvx512() { return false; }
inline bool hasAvx512Bf16() { return false; }

#endif

}  // namespace osiris
