// Checks 64-bit ids against their tables and narrows them to rows, once, before a kernel runs.

#pragma once

#include "kernels.h"

namespace osiris {

/// rows[k] = ids[k] for the ids of all tables. Returns the position of the first id that is not a
/// row of its table, and sets `table` to the table; or -1.
inline int64_t narrowIds(int32_t* rows, const int64_t* ids, const int32_t* offsets,
                         int64_t samples, const Table* tables, int64_t count, int64_t& table) {
  for (table = 0; table < count; table++) {
    const uint64_t limit = static_cast<uint64_t>(tables[table].rows);
    const int64_t end = offsets[(table + 1) * samples];
    for (int64_t k = offsets[table * samples]; k < end; k++) {
      // As an unsigned number, a negative id is above the limit, too.
      if (static_cast<uint64_t>(ids[k]) >= limit) return k;
      rows[k] = static_cast<int32_t>(ids[k]);
    }
  }
  return -1;
}

}  // namespace osiris
