// Runs every kernel of every instruction set of this processor with random shapes, under the
// sanitizers. Arguments are in buffers of exact size between guard words.
//
//   kernels-test [PART]     PART: an instruction set, or `input`, the readers of files

#include <cstdio>
#include <string>

#include "kernels.h"
#include "test/batches-test.h"
#include "test/blocks-test.h"
#include "test/cache-test.h"
#include "test/columns-test.h"
#include "test/dense-test.h"
#include "test/distinct-test.h"
#include "test/embedding-test.h"
#include "test/exchange-test.h"
#include "test/ingest-test.h"
#include "test/links-test.h"
#include "test/record-file-test.h"
#include "threads/threads.h"

using namespace osiris;
using namespace osiris::test;

static void testInput() {
  for (int round = 0; round < 50; round++) testNarrow();
  for (int round = 0; round < 50; round++) testRecordFile();
  for (int round = 0; round < 100; round++) testChecksum();
  for (int round = 0; round < 2000; round++) testIntake();
  for (int round = 0; round < 50; round++) testLinkThreads();
  for (int round = 0; round < 200; round++) testFields();
  for (int round = 0; round < 200; round++) testHashedIds();
  for (int round = 0; round < 200; round++) testTransforms();
  for (int round = 0; round < 200; round++) testBatches();
  for (int round = 0; round < 400; round++) testFoldedRecords();
  for (int round = 0; round < 200; round++) testRecordBags();
  for (int round = 0; round < 200; round++) testSameRows();
  for (int round = 0; round < 200; round++) testDistinct();
  for (int round = 0; round < 200; round++) testHybrid();
  for (int round = 0; round < 1000; round++) testDamagedPages();
  for (int round = 0; round < 200; round++) testSnappy();
  for (int round = 0; round < 200; round++) testRecordColumns();
}

static void testSet(const Kernels& set) {
  // The set avx512bf16 is avx512 with other products of bfloat16, so only these are run for it.
  const bool isWhole = std::string(set.name) != "avx512bf16";
  if (isWhole) testLarge(set);
  // One more than whole blocks of a sum, and than the rows and columns of whole tiles.
  for (const int64_t depth : {257, 513}) {
    testLayer(set, 85, depth, 33);
    testLayer(set, 7, 17, depth);
  }
  for (int round = 0; round < 12; round++) {
    // Every third round runs in parts, however small they are.
    useThreads(round % 3 == 2 ? 3 : 1, 1e-9);
    const Kernels& kernels = kernelsInParts(set);
    testWeights(kernels, true);
    testBfloat16(kernels);
    testLeastNormal(kernels);
    if (!isWhole) continue;
    testWeights(kernels, false);
    testRankProducts(kernels);
    testColumns(kernels);
    testDistinctLists(kernels);
    testLayer(kernels, 1 + below(90), someInputs(), 1 + below(100));
    testInteraction(kernels);
    testElements(kernels);
    testExponentials(kernels);
    for (int i = 0; i < 6; i++) testProducts(kernels);
    testPairs(kernels);
    testPairSum(kernels);
    testBatchNorm(kernels);
    testLayerNorm(kernels);
    testFold(kernels);
    testLargest(kernels);
    testFoldPooled(kernels);
    testPacking(kernels);
    testBorn(kernels);
    for (int i = 0; i < 10; i++) testCache(kernels);
    for (int i = 0; i < 10; i++) testUndo(kernels);
    for (int kind = 0; kind < 4; kind++) testRecords(kernels, static_cast<Precision>(kind));
    for (int kind = 1; kind < 4; kind++) testCodes(kernels, static_cast<Precision>(kind));
    for (int kind = 0; kind < 9; kind++) testEmbedding(kernels, static_cast<RuleKind>(kind));
    testOrderOfLookups(kernels);
  }
}

int main(int count, char** arguments) {
  const std::string only = count > 1 ? arguments[1] : "";
  bool isFound = only.empty() || only == "input";
  if (isFound) testInput();
  for (const char* isa : {"avx512bf16", "avx512", "avx2", "neon", "portable"}) {
    if (kernelsOf(isa) == nullptr || !(only.empty() || only == isa)) continue;
    isFound = true;
    testSet(*kernelsOf(isa));
  }
  expect(isFound, only.c_str(), "the name of a part");
  if (failures == 0) std::printf("osiris: clean: %s\n", only.empty() ? "all" : only.c_str());
  return failures == 0 ? 0 : 1;
}
