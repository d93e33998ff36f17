// The blocks that a model of the user's own composes, under the names that it has them by. Each
// adds itself to the graph and returns its output; shapes are those of one sample.

export { reshaped } from "../graph/graph.ts";
export { attention } from "./attention.ts";
export { batchNorm } from "./batch-norm.ts";
export { bias } from "./bias.ts";
export {
  columnsOf,
  repeated,
  repeatedColumns,
  sumOfColumns,
  sumOfVectors,
  vectorsBeside,
} from "./columns.ts";
export { compressedInteraction } from "./compressed-interaction.ts";
export { crossLayers } from "./cross.ts";
export { dotProducts } from "./dot-products.ts";
export {
  difference,
  leakyRelu,
  mean,
  product,
  relu,
  scaled,
  sigmoid,
  sum,
} from "./elements.ts";
export { factorisationMachine } from "./factorisation-machine.ts";
export { interaction } from "./interaction.ts";
export { layerNorm } from "./layer-norm.ts";
export { learnedVector } from "./learned-vector.ts";
export { linear } from "./linear.ts";
export { mlp } from "./mlp.ts";
export { sharedProduct } from "./shared-product.ts";
export { behindEachOther } from "./side-by-side.ts";
