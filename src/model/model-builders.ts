// A builder for each kind of model: takes the options of the kind, and returns the `model` of a
// job, with its `kind`. index.ts exports all builders.

import type { ModelOptions } from "./options.ts";

type Of<Kind extends ModelOptions["kind"]> = Extract<ModelOptions, { kind: Kind }>;

function kindOf<Kind extends ModelOptions["kind"]>(kind: Kind) {
  return (options: Omit<Of<Kind>, "kind">) => ({ kind, ...options }) as Of<Kind>;
}

/**
 * DLRM (Naumov et al. 2019): bottom MLP over the dense features, interaction of vectors, top MLP to
 * one logit.
 */
export const dlrm = kindOf("dlrm");
/** Logistic regression: a weight for each id and each dense feature. Tables must have dim 1. */
export const lr = kindOf("lr");
/**
 * Factorisation machine (Rendle 2010): logistic regression plus the dot products of all pairs of
 * vectors.
 */
export const fm = kindOf("fm");
/**
 * Wide & Deep (Cheng et al. 2016): logistic regression plus an MLP over vectors and dense features.
 */
export const wideAndDeep = kindOf("wideAndDeep");
/** DeepFM (Guo et al. 2017): a factorisation machine plus an MLP over the same vectors. */
export const deepFm = kindOf("deepFm");
/** DCN v2 (Wang et al. 2020): cross layers over all vectors, concatenated, and an MLP. */
export const dcnV2 = kindOf("dcnV2");
/** GDCN (Wang et al. 2023): DCN v2 with a gate for each column of each cross layer. */
export const gdcn = kindOf("gdcn");
/** AutoInt (Song et al. 2018): layers of self-attention over the vectors; with `top`, AutoInt+. */
export const autoInt = kindOf("autoInt");
/** xDeepFM (Lian et al. 2018): a compressed interaction network; with `top`, plus an MLP. */
export const xDeepFm = kindOf("xDeepFm");
/** MaskNet (Wang et al. 2021): layers with masks that an MLP computes from all vectors. */
export const maskNet = kindOf("maskNet");
/**
 * FinalMLP (Mao et al. 2023): two MLPs over vectors with gates of their own, and a bilinear fusion
 * of their outputs.
 */
export const finalMlp = kindOf("finalMlp");
/** FinalNet (Zhu et al. 2023): layers that multiply halves of their outputs, in 1 or 2 blocks. */
export const finalNet = kindOf("finalNet");
/** DIN (Zhou et al. 2017): sequences pooled by target attention, and an MLP. */
export const din = kindOf("din");
/** BST (Chen et al. 2019): transformer blocks over each sequence and its target, and an MLP. */
export const bst = kindOf("bst");
/**
 * Wukong (Zhang et al. 2024): bottom MLP over the dense features, layers of interactions, top MLP
 * to one logit.
 */
export const wukong = kindOf("wukong");
/** Shared bottom (Caruana 1997): several tasks with one common MLP, and a tower for each task. */
export const sharedBottom = kindOf("sharedBottom");
/** MMoE (Ma et al. 2018): several tasks share experts; each task mixes them by its own gate. */
export const mmoe = kindOf("mmoe");
/**
 * PLE (Tang et al. 2020): several tasks and levels of experts, some of all tasks, some of one task.
 */
export const ple = kindOf("ple");
/**
 * ESMM (Ma et al. 2018): a click and the event after it, e.g. a conversion; their probabilities
 * multiply, and both towers share the tables.
 */
export const esmm = kindOf("esmm");
/** A custom model, defined in the module at `path` (`defineModel`). */
export const custom = kindOf("custom");
