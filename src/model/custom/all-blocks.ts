// The blocks that custom models compose, under their public names. Each block adds its node to the
// graph and returns its output; shapes are per sample. It throws a RangeError where the shapes of
// its inputs do not fit together.

export { attention, softmax, weightedSums } from "../blocks/attention.ts";
export { batchNorm } from "../blocks/batch-norm.ts";
export { bias } from "../blocks/bias.ts";
export {
  concatColumns,
  repeat,
  repeatColumns,
  slice,
  sumOfColumns,
  sumOfVectors,
} from "../blocks/columns.ts";
export { compressedInteraction } from "../blocks/compressed-interaction.ts";
export { concat } from "../blocks/concat.ts";
export { crossLayers } from "../blocks/cross.ts";
export { dice } from "../blocks/dice.ts";
export { dotProducts } from "../blocks/dot-products.ts";
export {
  leakyRelu,
  mean,
  mul,
  relu,
  scaled,
  sigmoid,
  sub,
  sum,
} from "../blocks/elements.ts";
export { factorisationMachine } from "../blocks/factorisation-machine.ts";
export { fieldLinear } from "../blocks/field-linear.ts";
export { interaction } from "../blocks/interaction.ts";
export { layerNorm } from "../blocks/layer-norm.ts";
export { linear } from "../blocks/linear.ts";
export { mlp } from "../blocks/mlp.ts";
export { parameter } from "../blocks/parameter.ts";
export { behaviorTransformer } from "../blocks/sequences/behavior-transformer.ts";
export { sequenceMask } from "../blocks/sequences/sequence-mask.ts";
export { targetAttention } from "../blocks/sequences/target-attention.ts";
export { reshape } from "../graph/graph.ts";
