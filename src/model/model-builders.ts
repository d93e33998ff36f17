// One function for each kind of model: the options of the kind go in, and `model` of a job comes
// out, with its `kind`. index.ts exports all of them.

import type { ModelOptions } from "./options.ts";

type Of<Kind extends ModelOptions["kind"]> = Extract<ModelOptions, { kind: Kind }>;

function kindOf<Kind extends ModelOptions["kind"]>(kind: Kind) {
  return (options: Omit<Of<Kind>, "kind">) => ({ kind, ...options }) as Of<Kind>;
}

/** DLRM: bottom MLP over the dense features, interaction of vectors, top MLP to one logit. */
export const dlrm = kindOf("dlrm");
/** Logistic regression: a weight for each id and each dense feature. Tables have the dim 1. */
export const lr = kindOf("lr");
/** A factorisation machine: logistic regression, and the dot products of all pairs of vectors. */
export const fm = kindOf("fm");
/** Wide & Deep: logistic regression, and an MLP over vectors and dense features side by side. */
export const wideAndDeep = kindOf("wideAndDeep");
/** DeepFM: a factorisation machine, and an MLP over the same vectors. */
export const deepFm = kindOf("deepFm");
/** DCN v2: cross layers over all vectors side by side, and an MLP. */
export const dcnV2 = kindOf("dcnV2");
/** GDCN: DCN v2 with a gate for each column of each cross layer. */
export const gdcn = kindOf("gdcn");
/** AutoInt: layers of self-attention over the vectors; with `top`, AutoInt+. */
export const autoInt = kindOf("autoInt");
/** xDeepFM: a compressed interaction network, with `top` an MLP beside it. */
export const xDeepFm = kindOf("xDeepFm");
/** MaskNet: layers that are masked by what an MLP makes of all vectors. */
export const maskNet = kindOf("maskNet");
/** FinalMLP: two MLPs, each over vectors with gates of its own, and a product of what both give. */
export const finalMlp = kindOf("finalMlp");
/** FinalNet: layers that multiply their own outputs, in one block or two. */
export const finalNet = kindOf("finalNet");
/** DIN: sequences pooled by target attention, and an MLP. */
export const din = kindOf("din");
/** BST: sequences that transformer blocks mix with a target each, and an MLP. */
export const bst = kindOf("bst");
/** Wukong: bottom MLP over the dense features, layers of interactions, top MLP to one logit. */
export const wukong = kindOf("wukong");
/** Several tasks: one MLP for all, with a tower for each task behind it. */
export const sharedBottom = kindOf("sharedBottom");
/** MMoE: several tasks, each of which mixes the experts of all by a gate of its own. */
export const mmoe = kindOf("mmoe");
/** PLE: several tasks, and levels of experts: some of all tasks, some of each. */
export const ple = kindOf("ple");
/** ESMM: a click and what follows it, whose probabilities multiply, over tables of both. */
export const esmm = kindOf("esmm");
/** A model of your own, in the module at `path` (`defineModel`). */
export const custom = kindOf("custom");
