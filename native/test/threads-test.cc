// Runs kernels in parts on random shapes, the pool itself, and the threads of direct links, under
// the thread sanitizer: every part runs exactly once, and without a race.

#include <atomic>
#include <cstdio>
#include <thread>

#include "kernels.h"
#include "test/blocks-test.h"
#include "test/dense-test.h"
#include "test/embedding-test.h"
#include "test/exchange-test.h"
#include "test/links-test.h"
#include "threads/pool.h"
#include "threads/threads.h"

using namespace osiris;
using namespace osiris::test;

/// Calls of 1 to 9 parts, in quick succession and after pauses, so that helpers sleep and wake.
static void testPool() {
  Pool pool(3);
  for (int call = 0; call < 3000; call++) {
    const int64_t parts = 1 + below(9);
    std::vector<int> runs(static_cast<size_t>(parts));
    pool.run(
        parts, [](void* of, int64_t part) { (*static_cast<std::vector<int>*>(of))[part]++; },
        &runs);
    for (const int count : runs) expect(count == 1, "any", "the number of runs of a part");
    if (call % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  bool isThrown = false;
  try {
    pool.run(4, [](void*, int64_t part) { if (part == 3) throw std::bad_alloc(); }, nullptr);
  } catch (const std::bad_alloc&) {
    isThrown = true;
  }
  expect(isThrown, "any", "the failure of a part");
}

int main() {
  testPool();
  for (int round = 0; round < 100; round++) testLinkThreads();
  useThreads(3, 1e-9);
  const Kernels& kernels = kernelsInParts(*kernelsOf("portable"));
  for (int round = 0; round < 4; round++) {
    testLayer(kernels, 1 + below(90), someInputs(), 1 + below(100));
    for (const bool rounded : {false, true}) testWeights(kernels, rounded);
    testBfloat16(kernels);
    testInteraction(kernels);
    testElements(kernels);
    testProducts(kernels);
    testPairSum(kernels);
    testBatchNorm(kernels);
    testLayerNorm(kernels);
    testFold(kernels);
    testLargest(kernels);
    testFoldPooled(kernels);
    testPacking(kernels);
    testBorn(kernels);
    for (int kind = 0; kind < 9; kind++) testEmbedding(kernels, static_cast<RuleKind>(kind));
  }
  useThreads(1, 0);
  if (failures == 0) std::printf("osiris: kernels in parts are clean\n");
  return failures == 0 ? 0 : 1;
}
