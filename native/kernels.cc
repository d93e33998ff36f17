// Selects the kernels for this processor. The parts (dense/dense.cc, embedding/lookup.cc ...) are
// compiled once for each instruction set, each time into a namespace with the name of the set. This
// file collects their kernels in one table per set, and chooses the best set of this processor when
// the addon is loaded. AVX-512, AVX2 and NEON give the same bits.
//
// The build (parts.sh) defines OSIRIS_HAS_avx2 for the set avx2, and so on. A clone compiles the
// sets of its processor, a package compiles all sets.

#include "kernels.h"
#include "simd/processor.h"

#include <cstring>
#include <initializer_list>

/// The table of an instruction set, from the parts that were compiled for it.
#define OSIRIS_INSTRUCTION_SET(isa, bits)                                                         \
  namespace isa {                                                                                 \
  void addDense(Kernels& kernels);                                                                \
  void addBlocks(Kernels& kernels);                                                               \
  void addLookup(Kernels& kernels);                                                               \
  void addUpdate(Kernels& kernels);                                                               \
  void addExchange(Kernels& kernels);                                                             \
  void addTiers(Kernels& kernels);                                                                \
                                                                                                  \
  static const Kernels& kernels() {                                                               \
    static const Kernels table = [] {                                                             \
      Kernels all{};                                                                              \
      all.name = #isa;                                                                            \
      all.arithmetic = bits;                                                                      \
      addDense(all);                                                                              \
      addBlocks(all);                                                                             \
      addLookup(all);                                                                             \
      addUpdate(all);                                                                             \
      addExchange(all);                                                                           \
      addTiers(all);                                                                              \
      return all;                                                                                 \
    }();                                                                                          \
    return table;                                                                                 \
  }                                                                                               \
  }

namespace osiris {

#if defined(OSIRIS_HAS_portable)
#if defined(__FP_FAST_FMAF)
OSIRIS_INSTRUCTION_SET(portable, "native-3-portable-fma")
#else
OSIRIS_INSTRUCTION_SET(portable, "native-3-portable")
#endif
#endif
#if defined(OSIRIS_HAS_avx2)
OSIRIS_INSTRUCTION_SET(avx2, "native-3")
#endif
#if defined(OSIRIS_HAS_avx512)
OSIRIS_INSTRUCTION_SET(avx512, "native-3")
#endif
#if defined(OSIRIS_HAS_neon)
OSIRIS_INSTRUCTION_SET(neon, "native-3")
#endif

#if defined(OSIRIS_HAS_avx512bf16)

namespace avx512bf16 {
void addDense(Kernels& kernels);
}

/// Whether VDPBF16PS of this processor gives the bits of bfloat16.h, also for very small numbers.
bool pairsRoundAsDefined(const Kernels& defined, const Kernels& pairs) {
  constexpr int64_t samples = 32, inputs = 65, outputs = 32;
  static float x[samples * inputs], w[outputs * inputs], b[outputs];
  static float expected[samples * outputs], actual[samples * outputs];
  uint32_t word = 727;
  const auto fill = [&word](float* values, int64_t count, uint32_t exponents) {
    for (int64_t i = 0; i < count; i++) {
      word = word * 1664525 + 1013904223;
      // Exponents from 0 on, so that some numbers are subnormal, or exponents around that of 1.
      const uint32_t exponent = (word >> 8) % exponents + (i % 3 == 0 ? 0 : 64 - exponents / 2);
      const uint32_t bits = (word & 0x80000000u) | (exponent << 23) | (word * 2654435761u >> 9);
      std::memcpy(values + i, &bits, sizeof bits);
    }
  };
  fill(x, samples * inputs, 12);
  fill(w, outputs * inputs, 120);
  fill(b, outputs, 30);
  defined.linearBfloat16(expected, x, w, b, samples, inputs, outputs, false);
  pairs.linearBfloat16(actual, x, w, b, samples, inputs, outputs, false);
  return std::memcmp(expected, actual, sizeof expected) == 0;
}

/// The kernels of AVX-512 with products of pairs of bfloat16; nullptr if these round in another
/// way. It must be called only on a processor with the set, as the functions of a part, even
/// `addDense`, are compiled for its set.
static const Kernels* pairKernels() {
  static const Kernels pairs = [] {
    Kernels all = avx512::kernels();
    all.name = "avx512bf16";
    avx512bf16::addDense(all);
    return all;
  }();
  static const bool has = pairsRoundAsDefined(avx512::kernels(), pairs);
  return has ? &pairs : nullptr;
}

#endif

const Kernels* kernelsOf(const char* isa) {
  const auto asked = [isa](const char* name) { return std::strcmp(isa, name) == 0; };
#if defined(OSIRIS_HAS_avx512bf16)
  if (asked("avx512bf16")) return hasAvx512Bf16() ? pairKernels() : nullptr;
#endif
#if defined(OSIRIS_HAS_avx512)
  if (asked("avx512")) return hasAvx512() ? &avx512::kernels() : nullptr;
#endif
#if defined(OSIRIS_HAS_avx2)
  if (asked("avx2")) return hasAvx2() ? &avx2::kernels() : nullptr;
#endif
#if defined(OSIRIS_HAS_neon)
  if (asked("neon")) return hasNeon() ? &neon::kernels() : nullptr;
#endif
#if defined(OSIRIS_HAS_portable)
  if (asked("portable")) return &portable::kernels();
#endif
  return nullptr;
}

const char* compiledSets() {
  return ""
#if defined(OSIRIS_HAS_portable)
         "portable "
#endif
#if defined(OSIRIS_HAS_avx2)
         "avx2 "
#endif
#if defined(OSIRIS_HAS_avx512)
         "avx512 "
#endif
#if defined(OSIRIS_HAS_avx512bf16)
         "avx512bf16 "
#endif
#if defined(OSIRIS_HAS_neon)
         "neon "
#endif
      ;
}

const Kernels* bestKernels() {
  for (const char* isa : {"avx512bf16", "avx512", "avx2", "neon", "portable"}) {
    if (const Kernels* kernels = kernelsOf(isa)) return kernels;
  }
  return nullptr;
}

}  // namespace osiris
