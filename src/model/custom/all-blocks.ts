// The blocks that custom models compose, under their public names. Each block adds its node to the
// graph and returns its output; shapes are per sample.

export { attention, softmax, weightedSums } from "../blocks/attention.ts";
export { batchNorm } from "../blocks/batch-norm.ts";
export { bias } from "../blocks/bias.ts";
export {
  columnsOf,
  repeated,
  repeatedColumns,
  sumOfColumns,
  sumOfVectors,
  vectorsBeside,
} from "../blocks/columns.ts";
export { compressedInteraction } from "../blocks/compressed-interaction.ts";
export { crossLayers } from "../blocks/cross.ts";
export { dice } from "../blocks/dice.ts";
export { dotProducts } from "../blocks/dot-products.ts";
export {
  difference,
  leakyRelu,
  mean,
  product,
  relu,
  scaled,
  sigmoid,
  sum,
} from "../blocks/elements.ts";
export { factorisationMachine } from "../blocks/factorisation-machine.ts";
export { interaction } from "../blocks/interaction.ts";
export { layerNorm } from "../blocks/layer-norm.ts";
export { learnedVector } from "../blocks/learned-vector.ts";
export { linear } from "../blocks/linear.ts";
export { mlp } from "../blocks/mlp.ts";
export { behaviorTransformer } from "../blocks/sequences/behavior-transformer.ts";
export { sequenceMask } from "../blocks/sequences/sequence-mask.ts";
export { targetAttention } from "../blocks/sequences/target-attention.ts";
export { sharedProduct } from "../blocks/shared-product.ts";
export { behindEachOther } from "../blocks/side-by-side.ts";
export { reshaped } from "../graph/graph.ts";
