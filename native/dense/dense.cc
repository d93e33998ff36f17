// The part with dense layers: products in float32 and bfloat16, and the interaction of features.

#include "simd/isa.h"
#include "simd/target-begin.h"

namespace osiris::OSIRIS_ISA {

#include "simd/vector.h"
#include "simd/slice-plan.h"
#include "simd/parts.h"
#include "simd/coming.h"
#include "simd/tile-step.h"
#include "dense/packing.h"
#include "dense/product.h"
#include "dense/dense.h"
#include "dense/packed.h"
#include "dense/bfloat16.h"
#if !defined(OSIRIS_PAIRS)
#include "dense/interaction.h"
#endif

void addDense(Kernels& kernels) {
#include "simd/set-kernels.h"
#if !defined(OSIRIS_PAIRS)  // avx512bf16 differs from avx512 only in products of bfloat16.
#include "dense/table.h"
#endif
#include "dense/bfloat16-table.h"
}

}  // namespace osiris::OSIRIS_ISA

#include "simd/target-end.h"
