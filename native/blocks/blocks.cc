// The part with the kernels of model blocks, besides dense layers and interactions.

#include "simd/isa.h"
#include "simd/target-begin.h"

namespace osiris::OSIRIS_ISA {

#include "simd/vector.h"
#include "simd/slice-plan.h"
#include "simd/coming.h"
#include "simd/tile-step.h"
#include "blocks/elements.h"
#include "blocks/products.h"
#include "blocks/rank-products.h"
#include "blocks/layer-norm.h"
#include "blocks/pair-sum.h"
#include "blocks/batch-norm.h"
#include "blocks/exponentials.h"

void addBlocks(Kernels& kernels) {
#include "simd/set-kernels.h"
#include "blocks/table.h"
}

}  // namespace osiris::OSIRIS_ISA

#include "simd/target-end.h"
