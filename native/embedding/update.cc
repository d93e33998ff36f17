// The part that updates tables: it sums the gradients of rows and updates the rows. Dense tensors
// are updated by the same rules.

#include "simd/isa.h"
#include "simd/target-begin.h"

namespace osiris::OSIRIS_ISA {

#include "simd/vector.h"
#include "simd/random.h"
#include "simd/precision.h"
#include "simd/slice-plan.h"
#include "simd/parts.h"
#include "embedding/rules.h"
#include "embedding/row-gradients.h"
#include "embedding/held-rows.h"
#include "embedding/row-update.h"

void addUpdate(Kernels& kernels) {
#include "simd/set-kernels.h"
#include "embedding/update-table.h"
}

}  // namespace osiris::OSIRIS_ISA

#include "simd/target-end.h"
