// The part that updates float32 rows by SGD and row-wise Adagrad: embedding/update.cc calls it for the
// tables whose rows it holds in registers. Half of all code that changes tables, so a part of its own.

#include "simd/isa.h"
#include "simd/target-begin.h"

namespace osiris::OSIRIS_ISA {

#include "simd/vector.h"
#include "simd/random.h"
#include "simd/precision.h"
#include "embedding/rules.h"
#include "embedding/row-gradients.h"
#include "embedding/held-rows.h"
#include "embedding/held-update.h"

}  // namespace osiris::OSIRIS_ISA

#include "simd/target-end.h"
