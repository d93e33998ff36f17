// Prints the instruction sets that a build for this processor compiles: the best set, and the set
// that it extends, if any (parts.sh).

#include <cstdio>

#include "simd/processor.h"

int main() {
  if (osiris::hasAvx512Bf16()) std::puts("avx512 avx512bf16");
  else if (osiris::hasAvx512()) std::puts("avx512");
  else if (osiris::hasAvx2()) std::puts("avx2");
  else if (osiris::hasNeon()) std::puts("neon");
  else std::puts("portable");
}
