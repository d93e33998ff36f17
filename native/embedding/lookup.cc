// The part that reads tables: pooling of bags. It also has initial weights and dropout, which draw
// random numbers.

#include "simd/isa.h"
#include "simd/target-begin.h"

namespace osiris::OSIRIS_ISA {

#include "simd/vector.h"
#include "simd/random.h"
#include "simd/precision.h"
#include "embedding/birth.h"
#include "embedding/pooling.h"

void addLookup(Kernels& kernels) {
#include "simd/set-kernels.h"
#include "embedding/lookup-table.h"
}

}  // namespace osiris::OSIRIS_ISA

#include "simd/target-end.h"
