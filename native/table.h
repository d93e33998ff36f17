// The table of all kernels, in C++: one row each, with its result, name and parameters. Whoever
// includes it defines what becomes of a row: a member of `Kernels` (kernels.h), a function of the
// addon (bindings/addon.cc), or, by one file alone, the setting of a part's members (dense.cc ...).
//
//   KERNEL(result, name, parameters...)     JavaScript's arguments are the parameters
//   ADAPTED(result, name, parameters...)    native/bindings has a function of this name between
//
// src/kernels/table describes the same kernels to JavaScript.

#include "dense/table.h"
#include "dense/bfloat16-table.h"
#include "blocks/table.h"
#include "embedding/lookup-table.h"
#include "embedding/update-table.h"
#include "exchange/table.h"
#include "tiers/table.h"
