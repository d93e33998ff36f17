// The part of blocks that models are composed of, besides dense layers and interactions.

#include "simd/isa.h"
#include "simd/target-begin.h"

namespace osiris::OSIRIS_ISA {

#include "simd/vector.h"
#include "blocks/elements.h"

void addBlocks(Kernels& kernels) {
  kernels.add = addElements;
}

}  // namespace osiris::OSIRIS_ISA

#include "simd/target-end.h"
