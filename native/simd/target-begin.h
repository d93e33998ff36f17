// Between target-begin.h and target-end.h, functions are compiled for the part's instruction set.

#if defined(OSIRIS_AVX2) || defined(OSIRIS_AVX512)
#if defined(__clang__)
#if defined(OSIRIS_PAIRS)
#pragma clang attribute push(                                                                     \
    __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,avx2,fma"))),            \
    apply_to = function)
#elif defined(OSIRIS_AVX512)
#pragma clang attribute push(                                                                     \
    __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#endif
#else
#pragma GCC push_options
#if defined(OSIRIS_PAIRS)
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,avx2,fma")
#elif defined(OSIRIS_AVX512)
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")
#else
#pragma GCC target("avx2,fma,f16c")
#endif
#endif
#endif
