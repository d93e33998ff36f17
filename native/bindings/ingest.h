// Calls of what reads data.

#pragma once

#include "bindings/call.h"
#include "ingest/ids.h"

namespace {

using namespace osiris;

// readFields(begins, numbers, ids, bytes, starts, ends, fields, delimiter, quote, dense, features)
void readFields(Call& call) {
  const FieldValues out{call.ints(0), call.doubles(1), call.ints(2)};
  const uint8_t* bytes = call.bytes(3);
  const int32_t *starts = call.ints(4), *ends = call.ints(5);
  const FieldPlan plan{call.integer(6),     static_cast<uint8_t>(call.integer(7)),
                       static_cast<int>(call.integer(8)),
                       call.length(9) / 2,  call.doubles(9),
                       call.length(10) / 5, call.doubles(10)};
  if (!call.valid()) return;
  osiris::readFields(out, bytes, starts, ends, call.length(5), plan);
}

// hashIds(rows, ids, isUnsigned, seed, tableRows)
void hashIds(Call& call) {
  int32_t* rows = call.ints(0);
  const int64_t count = call.length(0);
  const int64_t* ids = call.longs(1);
  const bool isUnsigned = call.flag(2);
  const uint32_t seed = call.word(3), tableRows = call.word(4);
  if (!call.valid()) return;
  osiris::hashIds(rows, ids, count, isUnsigned, seed, tableRows);
}

}  // namespace
