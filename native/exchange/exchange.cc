// The part with the kernels of the exchange, which copy, fold and pack columns.

#include "simd/isa.h"
#include "simd/target-begin.h"

namespace osiris::OSIRIS_ISA {

#include "simd/vector.h"
#include "simd/random.h"
#include "simd/precision.h"
#include "exchange/exchange.h"

void addExchange(Kernels& kernels) {
  kernels.copyColumns = copyColumns;
  kernels.expandColumns = expandColumns;
  kernels.dExpandColumns = dExpandColumns;
  kernels.foldSubtrees = foldSubtrees;
  kernels.foldPooled = foldPooled;
  kernels.shareColumns = shareColumns;
  kernels.packColumns = packColumns;
  kernels.unpackColumns = unpackColumns;
}

}  // namespace osiris::OSIRIS_ISA

#include "simd/target-end.h"
