// Runs every kernel of every instruction set of this processor with random shapes, under the
// sanitizers. Arguments are in buffers of exact size between guard words.

#include <cstdio>

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
#include "test/record-file-test.h"
#include "threads/threads.h"

using namespace osiris;
using namespace osiris::test;

int main() {
  for (int round = 0; round < 50; round++) testNarrow();
  for (int round = 0; round < 50; round++) testRecordFile();
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
  for (const char* isa : {"avx512bf16", "avx512", "avx2", "portable"}) {
    if (kernelsOf(isa) == nullptr) continue;
    testLarge(*kernelsOf(isa));
    for (int round = 0; round < 12; round++) {
      // Every third round runs in parts, however small they are.
      useThreads(round % 3 == 2 ? 3 : 1, 1e-9);
      const Kernels* kernels = &kernelsInParts(*kernelsOf(isa));
      testRankProducts(*kernels);
      testColumns(*kernels);
      testDistinctLists(*kernels);
      testLayer(*kernels);
      testBfloat16(*kernels);
      testInteraction(*kernels);
      testElements(*kernels);
      testExponentials(*kernels);
      for (int i = 0; i < 6; i++) testProducts(*kernels);
      testPairs(*kernels);
      testPairSum(*kernels);
      testBatchNorm(*kernels);
      testLayerNorm(*kernels);
      testFold(*kernels);
      testFoldPooled(*kernels);
      testPacking(*kernels);
      testBorn(*kernels);
      for (int i = 0; i < 10; i++) testCache(*kernels);
      for (int i = 0; i < 10; i++) testUndo(*kernels);
      for (int kind = 0; kind < 4; kind++) testRecords(*kernels, static_cast<Precision>(kind));
      for (int kind = 1; kind < 4; kind++) testCodes(*kernels, static_cast<Precision>(kind));
      for (int kind = 0; kind < 9; kind++) testEmbedding(*kernels, static_cast<RuleKind>(kind));
    }
    std::printf("osiris: the %s kernels are clean\n", isa);
  }
  return failures == 0 ? 0 : 1;
}
