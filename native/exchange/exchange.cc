// The part with the kernels of the exchange, which copy, fold and pack columns.

#include "simd/isa.h"
#include "simd/target-begin.h"

namespace osiris::OSIRIS_ISA {

#include "simd/vector.h"
#include "simd/random.h"
#include "simd/precision.h"
#include "exchange/exchange.h"
#include "exchange/largest.h"

void addExchange(Kernels& kernels) {
#include "simd/set-kernels.h"
#include "exchange/table.h"
}

}  // namespace osiris::OSIRIS_ISA

#include "simd/target-end.h"
