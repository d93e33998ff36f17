// Tests the counting of ids: slots of exact size, compared with a count of each id in a map.

#pragma once

#include <map>
#include <vector>

#include "ingest/distinct.h"
#include "test/test-support.h"

namespace osiris::test {

/// Counts ids from a small range, some of them negative, until the table is half full.
inline void testDistinct() {
  const uint32_t mask = 63;
  std::vector<int32_t> slots(2 * (mask + 1)), ids(static_cast<size_t>(below(300)));
  for (int32_t& id : ids) id = static_cast<int32_t>(below(below(2) == 0 ? 20 : 200) - 5);
  const bool areHashes = below(2) == 0;
  const int64_t count = static_cast<int64_t>(ids.size());
  int32_t counted = 0;
  const DistinctSlots of{slots.data(), 0, mask, 9};
  const int64_t done = countDistinct(of, counted, ids.data(), count, areHashes);
  std::map<uint32_t, int32_t> times;
  for (int64_t i = 0; i < done; i++) {
    const uint32_t id = static_cast<uint32_t>(ids[static_cast<size_t>(i)]);
    int32_t& own = times[areHashes ? id : mix32(id)];
    own = std::min(own + 1, 9);
  }
  bool good = counted == static_cast<int32_t>(times.size());
  good = good && (done == count || 2 * counted > static_cast<int32_t>(mask));
  int32_t taken = 0;
  for (size_t at = 0; at < slots.size(); at += 2) {
    if (slots[at + 1] == 0) continue;
    taken++;
    good = good && times[static_cast<uint32_t>(slots[at])] == slots[at + 1];
  }
  expect(good && taken == counted, "any", "countDistinct");
  std::vector<double> runs(4);
  countRuns(runs.data(), 4, ids.data(), count, 0.25);
  double inside = 0, wanted = 0;
  for (double run : runs) inside += run;
  for (int32_t id : ids) wanted += id >= 0 && id < 16;
  expect(inside == wanted, "any", "countRuns");
}

}  // namespace osiris::test
