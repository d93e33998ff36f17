// The part that updates float32 rows by SGD and row-wise Adagrad in registers. embedding/update.cc
// calls it for tables with such rows. It is a part of its own, compiled in parallel, as it has half
// of the code that updates tables.

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
