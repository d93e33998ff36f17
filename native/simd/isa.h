// The first include of every part: standard headers, and the macros of the instruction set that the
// part is compiled for. The build compiles a part once per set, with the name of the set:
//
//   c++ -DOSIRIS_ISA=avx512 -c dense/dense.cc        or avx512bf16, avx2, neon, portable
//
// Standard headers come before target-begin.h. The linker keeps one copy of each of their inline
// functions, and this copy must run on every processor.

#pragma once

#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels.h"

// The name as a number, because #if cannot compare names.
#define OSIRIS_NUMBER_portable 1
#define OSIRIS_NUMBER_avx2 2
#define OSIRIS_NUMBER_avx512 3
#define OSIRIS_NUMBER_avx512bf16 4
#define OSIRIS_NUMBER_neon 5
#define OSIRIS_NUMBER_OF(isa) OSIRIS_NUMBER_##isa
#define OSIRIS_NUMBER(isa) OSIRIS_NUMBER_OF(isa)

#if OSIRIS_NUMBER(OSIRIS_ISA) == 2
#define OSIRIS_AVX2
#elif OSIRIS_NUMBER(OSIRIS_ISA) == 3 || OSIRIS_NUMBER(OSIRIS_ISA) == 4
#define OSIRIS_AVX512
#elif OSIRIS_NUMBER(OSIRIS_ISA) == 5
#define OSIRIS_NEON
#elif OSIRIS_NUMBER(OSIRIS_ISA) != 1
#error "Expected OSIRIS_ISA to be portable, avx2, avx512, avx512bf16 or neon"
#endif
#if OSIRIS_NUMBER(OSIRIS_ISA) == 4
#define OSIRIS_PAIRS  // VDPBF16PS multiplies pairs of bfloat16
#endif

#if defined(OSIRIS_AVX2) && defined(__GNUC__) && !defined(__clang__)
// The headers of GCC's <immintrin.h> without AVX-512, which takes the compiler a second in every
// part. They refuse to be included unless the macro of <immintrin.h> is defined.
#define _IMMINTRIN_H_INCLUDED
#include <smmintrin.h>

#include <avxintrin.h>

#include <avx2intrin.h>
#include <f16cintrin.h>
#include <fmaintrin.h>
#elif defined(OSIRIS_AVX2) || defined(OSIRIS_AVX512)
#include <immintrin.h>
#elif defined(OSIRIS_NEON)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define INLINE_LAMBDA __attribute__((always_inline))
/// For large functions: inlined, except in portable code, where the cost of a call is not
/// measurable, and every inlined copy costs more compile time than in the other sets.
#if defined(OSIRIS_AVX2) || defined(OSIRIS_AVX512) || defined(OSIRIS_NEON)
#define INLINE_LARGE INLINE
#else
#define INLINE_LARGE inline __attribute__((noinline))
#endif
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define UNROLL _Pragma("GCC unroll 32")
#define SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, SHUFFLE_MASK{i, j, k, l})
typedef int SHUFFLE_MASK __attribute__((vector_size(16)));
#endif
