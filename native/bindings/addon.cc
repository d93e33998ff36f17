// The addon that Node loads: the functions that src/kernels/native/native.ts calls. They convert
// typed arrays to pointers and do no arithmetic. src/kernels/checked/checked.ts has checked the
// shapes. The bindings check only element types: with a wrong type, a kernel would access memory
// out of bounds.

#include "bindings/blocks.h"
#include "bindings/dense.h"
#include "bindings/embedding.h"
#include "bindings/exchange.h"
#include "bindings/ingest.h"
#include "bindings/memory.h"
#include "bindings/running.h"
#include "bindings/tiers.h"

namespace {

template <void (*kernel)(Call&)>
napi_value bound(napi_env env, napi_callback_info info) {
  try {
    Call call(env, info);
    kernel(call);
  } catch (const std::bad_alloc&) {
    napi_throw_error(env, nullptr, "There is no memory left for the scratch of a kernel");
  }
  return nullptr;
}

template <napi_value (*kernel)(Call&)>
napi_value answered(napi_env env, napi_callback_info info) {
  try {
    Call call(env, info);
    return kernel(call);
  } catch (const std::bad_alloc&) {
    napi_throw_error(env, nullptr, "There is no memory left for the scratch of a kernel");
  }
  return nullptr;
}

constexpr napi_property_descriptor method(const char* name, napi_callback callback) {
  return {name, nullptr, callback, nullptr, nullptr, nullptr, napi_enumerable, nullptr};
}

}  // namespace

NAPI_MODULE_INIT() {
  const napi_property_descriptor properties[] = {
      method("callForm", answered<callForm>),
      method("built", answered<built>),
      method("arithmetic", answered<arithmetic>),
      method("limitIsa", answered<limitIsa>),
      method("useLargePages", bound<useLargePages>),
      method("copyColumns", bound<copyColumns>),
      method("expandColumns", bound<expandColumns>),
      method("dExpandColumns", bound<dExpandColumns>),
      method("uniform", bound<uniform>),
      method("born", bound<born>),
      method("linear", bound<linear>),
      method("packLayer", bound<packLayer>),
      method("linearPacked", bound<linearPacked>),
      method("dRelu", bound<dRelu>),
      method("dLinearInput", bound<dLinearInput>),
      method("dLinearWeight", bound<dLinearWeight>),
      method("dropout", bound<dropout>),
      method("interact", bound<interact>),
      method("dInteract", bound<dInteract>),
      method("add", bound<add>),
      method("multiply", bound<multiply>),
      method("dMultiply", bound<dMultiply>),
      method("multiplyAdd", bound<multiplyAdd>),
      method("relu", bound<relu>),
      method("scale", bound<scale>),
      method("leakyRelu", bound<leakyRelu>),
      method("dLeakyRelu", bound<dLeakyRelu>),
      method("sigmoid", bound<sigmoid>),
      method("dSigmoid", bound<dSigmoid>),
      method("softmax", bound<softmax>),
      method("dSoftmax", bound<dSoftmax>),
      method("pairs", bound<pairs>),
      method("dPairsLeft", bound<dPairsLeft>),
      method("dPairsRight", bound<dPairsRight>),
      method("products", bound<products>),
      method("rankProducts", bound<rankProducts>),
      method("dRankProducts", bound<dRankProducts>),
      method("addBeside", bound<addBeside>),
      method("dShared", bound<dShared>),
      method("pairSum", bound<pairSum>),
      method("dPairSum", bound<dPairSum>),
      method("layerNorm", bound<layerNorm>),
      method("dLayerNorm", bound<dLayerNorm>),
      method("batchMoments", bound<batchMoments>),
      method("batchNorm", bound<batchNorm>),
      method("dBatchNormWeights", bound<dBatchNormWeights>),
      method("dBatchNorm", bound<dBatchNorm>),
      method("skewOf", answered<skewOf>),
      method("pool", bound<pool>),
      method("updateRows", answered<updateRows>),
      method("rowSquares", answered<rowSquares>),
      method("rowNorms", answered<rowNorms>),
      method("dRows", bound<dRows>),
      method("applyRows", answered<applyRows>),
      method("foldSubtrees", bound<foldSubtrees>),
      method("foldPooled", bound<foldPooled>),
      method("shareColumns", bound<shareColumns>),
      method("packColumns", bound<packColumns>),
      method("unpackColumns", bound<unpackColumns>),
      method("applyFlat", answered<applyFlat>),
      method("placeRows", answered<placeRows>),
      method("gatherRecords", bound<gatherRecords>),
      method("scatterRecords", bound<scatterRecords>),
      method("bornAt", bound<bornAt>),
      method("moveRecords", bound<moveRecords>),
      method("readRecords", bound<readRecords>),
      method("writeRecords", bound<writeRecords>),
      method("dropCached", answered<dropCached>),
      method("readFields", bound<readFields>),
      method("copyRecords", answered<copyRecords>),
      method("foldRecord", answered<foldRecord>),
      method("appendRecords", answered<appendRecords>),
      method("copyBatch", answered<copyBatch>),
      method("readHybrid", answered<readHybrid>),
      method("markRows", answered<markRows>),
      method("takeNumbers", bound<takeNumbers>),
      method("takePairs", bound<takePairs>),
      method("unpackSnappy", answered<unpackSnappy>),
      method("writeColumns", bound<writeColumns>),
      method("measureBags", answered<measureBags>),
      method("writeBags", bound<writeBags>),
      method("countDistinct", answered<countDistinct>),
      method("countRuns", bound<countRuns>),
      method("markSame", bound<markSame>),
      method("copyRows", bound<copyRows>),
      method("hashIds", bound<hashIds>),
      method("rowsOfIds", bound<rowsOfIds>),
      method("sigridHash", bound<sigridHash>),
      method("bucketize", bound<bucketize>),
      method("nGram", bound<nGram>),
  };
  napi_define_properties(env, exports, sizeof properties / sizeof properties[0], properties);
  return exports;
}
