// The table of all kernels: a row for each, with its result, name and parameters. A file defines
// KERNEL and ADAPTED before it includes rows: as members of `Kernels` (kernels.h), as functions of
// the addon (bindings/addon.cc), or as assignments to these members (simd/set-kernels.h).
//
//   KERNEL(result, name, parameters...)     JavaScript's arguments are the parameters
//   ADAPTED(result, name, parameters...)    native/bindings has a function that converts them
//
// src/kernels/table describes the same kernels to JavaScript.

#include "dense/table.h"
#include "dense/bfloat16-table.h"
#include "blocks/table.h"
#include "embedding/lookup-table.h"
#include "embedding/update-table.h"
#include "exchange/table.h"
#include "tiers/table.h"
