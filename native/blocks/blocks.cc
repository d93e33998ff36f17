// The part with the kernels of model blocks, besides dense layers and interactions.

#include "simd/isa.h"
#include "simd/target-begin.h"

namespace osiris::OSIRIS_ISA {

#include "simd/vector.h"
#include "simd/slice-plan.h"
#include "simd/coming.h"
#include "blocks/elements.h"
#include "blocks/products.h"
#include "blocks/rank-products.h"
#include "blocks/layer-norm.h"
#include "blocks/pair-sum.h"
#include "blocks/batch-norm.h"
#include "blocks/exponentials.h"

void addBlocks(Kernels& kernels) {
  kernels.add = addElements;
  kernels.multiply = multiplyElements;
  kernels.dMultiply = dMultiply;
  kernels.multiplyAdd = multiplyAdd;
  kernels.addBeside = addBeside;
  kernels.relu = relu;
  kernels.scale = scale;
  kernels.leakyRelu = leakyRelu;
  kernels.dLeakyRelu = dLeakyRelu;
  kernels.sigmoid = sigmoid;
  kernels.dSigmoid = dSigmoid;
  kernels.softmax = softmax;
  kernels.dSoftmax = dSoftmax;
  kernels.pairs = pairs;
  kernels.dPairsLeft = dPairsLeft;
  kernels.dPairsRight = dPairsRight;
  kernels.products = products;
  kernels.dShared = dShared;
  kernels.rankProducts = rankProducts;
  kernels.dRankProducts = dRankProducts;
  kernels.pairSum = pairSum;
  kernels.dPairSum = dPairSum;
  kernels.layerNorm = layerNorm;
  kernels.dLayerNorm = dLayerNorm;
  kernels.batchMoments = batchMoments;
  kernels.batchNorm = batchNorm;
  kernels.dBatchNormWeights = dBatchNormWeights;
  kernels.dBatchNorm = dBatchNorm;
}

}  // namespace osiris::OSIRIS_ISA

#include "simd/target-end.h"
