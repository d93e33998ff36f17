// The part of memory tiers: finds slots of a cache for rows, and moves rows to and from it as
// records.

#include <algorithm>

#include "simd/isa.h"
#include "simd/target-begin.h"

namespace osiris::OSIRIS_ISA {

#include "simd/vector.h"
#include "simd/random.h"
#include "simd/precision.h"
#include "tiers/row-cache.h"
#include "tiers/records.h"

void addTiers(Kernels& kernels) {
  kernels.placeRows = placeRows;
  kernels.gatherRecords = gatherRecords;
  kernels.scatterRecords = scatterRecords;
  kernels.moveRecords = moveRecords;
}

}  // namespace osiris::OSIRIS_ISA

#include "simd/target-end.h"
