// The native kernels: the arithmetic of src/kernels/reference/reference.ts at the machine's speed. Three
// parts: kernels (plain C++ on pointers), bindings (typed arrays to pointers), exports.
//
// One source for every instruction set: the headers below are included once for each, and the best
// set of this processor is chosen at load time. AVX-512 and AVX2 give the same bits.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Kernels ----------------------------------------------------------------------------------------

#define INLINE static inline __attribute__((always_inline))
#define INLINE_LAMBDA __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define UNROLL _Pragma("GCC unroll 32")
#define SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, SHUFFLE_MASK{i, j, k, l})
typedef int SHUFFLE_MASK __attribute__((vector_size(16)));
#endif

#define OSIRIS_KERNELS(isa, bits)                                                                 \
  const osiris::Kernels kernels = {                                                               \
      isa,       bits,         copyColumns, uniform,     born,       linear,                       \
      dRelu,     dLinearInput, dLinearWeight,           linearBfloat16,                           \
      dLinearInputBfloat16,    dLinearWeightBfloat16,   dropout,   interact,                      \
      dInteract, pool,         updateRows, rowSquares,  rowNorms,  dRows,                         \
      applyRows, foldSubtrees, foldPooled, shareColumns, packColumns, unpackColumns,              \
      applyFlat, placeRows, gatherRecords, scatterRecords, bornAt, moveRecords};

#if defined(__x86_64__)

#define OSIRIS_AVX512
#if defined(__clang__)
#pragma clang attribute push(                                                                     \
    __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")
#endif
namespace osiris::avx512 {
#include "simd/vector.h"
#include "dense/product.h"
#include "dense/dense.h"
#include "dense/bfloat16.h"
#include "dense/interaction.h"
#include "simd/random.h"
#include "simd/precision.h"
#include "embedding/birth.h"
#include "embedding/rules.h"
#include "embedding/pooling.h"
#include "embedding/row-gradients.h"
#include "embedding/row-update.h"
#include "exchange/exchange.h"
#include "tiers/row-cache.h"
#include "tiers/records.h"
OSIRIS_KERNELS("avx512", "native-3")
}  // namespace osiris::avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

// The same set with VDPBF16PS: only products differ.
#if defined(__clang__) || __GNUC__ >= 11
#define OSIRIS_BF16
#define OSIRIS_PAIRS
#if defined(__clang__)
#pragma clang attribute push(                                                                     \
    __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,avx2,fma"))),            \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,avx2,fma")
#endif
namespace osiris::avx512bf16 {
#include "simd/vector.h"
#include "dense/product.h"
#include "dense/dense.h"
#include "dense/bfloat16.h"
}  // namespace osiris::avx512bf16
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef OSIRIS_PAIRS
#endif
#undef OSIRIS_AVX512

#define OSIRIS_AVX2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
namespace osiris::avx2 {
#include "simd/vector.h"
#include "dense/product.h"
#include "dense/dense.h"
#include "dense/bfloat16.h"
#include "dense/interaction.h"
#include "simd/random.h"
#include "simd/precision.h"
#include "embedding/birth.h"
#include "embedding/rules.h"
#include "embedding/pooling.h"
#include "embedding/row-gradients.h"
#include "embedding/row-update.h"
#include "exchange/exchange.h"
#include "tiers/row-cache.h"
#include "tiers/records.h"
OSIRIS_KERNELS("avx2", "native-3")
}  // namespace osiris::avx2
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef OSIRIS_AVX2

#endif

namespace osiris::portable {
#include "simd/vector.h"
#include "dense/product.h"
#include "dense/dense.h"
#include "dense/bfloat16.h"
#include "dense/interaction.h"
#include "simd/random.h"
#include "simd/precision.h"
#include "embedding/birth.h"
#include "embedding/rules.h"
#include "embedding/pooling.h"
#include "embedding/row-gradients.h"
#include "embedding/row-update.h"
#include "exchange/exchange.h"
#include "tiers/row-cache.h"
#include "tiers/records.h"
#if defined(__FP_FAST_FMAF)
OSIRIS_KERNELS("portable", "native-3-portable-fma")
#else
OSIRIS_KERNELS("portable", "native-3-portable")
#endif
}  // namespace osiris::portable

namespace osiris {

#if defined(OSIRIS_BF16)

/// Whether VDPBF16PS gives the bits of bfloat16.h here, numbers around the smallest ones included.
inline bool pairsRoundAsDefined() {
  constexpr int64_t samples = 32, inputs = 65, outputs = 32;
  static float x[samples * inputs], w[outputs * inputs], b[outputs];
  static float expected[samples * outputs], actual[samples * outputs];
  uint32_t word = 727;
  const auto fill = [&word](float* values, int64_t count, uint32_t exponents) {
    for (int64_t i = 0; i < count; i++) {
      word = word * 1664525 + 1013904223;
      // Exponents from 0 on, so that some are too small, or around 1.
      const uint32_t exponent = (word >> 8) % exponents + (i % 3 == 0 ? 0 : 64 - exponents / 2);
      const uint32_t bits = (word & 0x80000000u) | (exponent << 23) | (word * 2654435761u >> 9);
      std::memcpy(values + i, &bits, sizeof bits);
    }
  };
  fill(x, samples * inputs, 12);
  fill(w, outputs * inputs, 120);
  fill(b, outputs, 30);
  avx512::linearBfloat16(expected, x, w, b, samples, inputs, outputs, false);
  avx512bf16::linearBfloat16(actual, x, w, b, samples, inputs, outputs, false);
  return std::memcmp(expected, actual, sizeof expected) == 0;
}

inline const Kernels* bf16Kernels() {
  static const Kernels kernels = [] {
    Kernels with = avx512::kernels;
    with.name = "avx512bf16";
    with.linearBfloat16 = avx512bf16::linearBfloat16;
    with.dLinearInputBfloat16 = avx512bf16::dLinearInputBfloat16;
    with.dLinearWeightBfloat16 = avx512bf16::dLinearWeightBfloat16;
    return with;
  }();
  static const bool has = __builtin_cpu_supports("avx512bf16") && pairsRoundAsDefined();
  return has ? &kernels : nullptr;
}

#endif

/// The kernels of an instruction set by name, or nullptr where the processor does not have it.
inline const Kernels* kernelsOf(const char* isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool hasAvx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#if defined(OSIRIS_BF16)
  if (std::strcmp(isa, "avx512bf16") == 0) return hasAvx512 ? bf16Kernels() : nullptr;
#endif
  if (std::strcmp(isa, "avx512") == 0) return hasAvx512 ? &avx512::kernels : nullptr;
  if (std::strcmp(isa, "avx2") == 0) {
    const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                     __builtin_cpu_supports("f16c");
    return has ? &avx2::kernels : nullptr;
  }
#endif
  return std::strcmp(isa, "portable") == 0 ? &portable::kernels : nullptr;
}

/// The fastest kernels that this processor can run.
inline const Kernels* bestKernels() {
  for (const char* isa : {"avx512bf16", "avx512", "avx2"}) {
    if (const Kernels* kernels = kernelsOf(isa)) return kernels;
  }
  return &portable::kernels;
}

}  // namespace osiris

#if !defined(OSIRIS_KERNELS_ONLY)
#include "bindings/bindings.h"
#endif
