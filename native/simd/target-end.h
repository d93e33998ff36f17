// Ends the section that target-begin.h begins.

#if defined(OSIRIS_AVX2) || defined(OSIRIS_AVX512)
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
