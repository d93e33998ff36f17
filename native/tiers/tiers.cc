// The part with the kernels of memory tiers: they assign slots of a cache to rows, and move rows as
// records between the cache and the other tiers, or to an undo log.

#include <algorithm>

#include "simd/isa.h"
#include "simd/target-begin.h"

namespace osiris::OSIRIS_ISA {

#include "simd/vector.h"
#include "simd/random.h"
#include "simd/precision.h"
#include "tiers/row-cache.h"
#include "tiers/records.h"
#include "tiers/undo.h"

void addTiers(Kernels& kernels) {
#include "simd/set-kernels.h"
#include "tiers/table.h"
}

}  // namespace osiris::OSIRIS_ISA

#include "simd/target-end.h"
