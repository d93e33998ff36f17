// Wukong (Zhang et al., arXiv 2403.02545): a stack of layers, each of which doubles the order of
// the interactions between vectors.
//
// N = input vectors of a layer, D = columns of each, F = output vectors of the factorisation
// machine block (FMB), L = output vectors of the linear compression block (LCB), K = rank of the
// FMB.
//
//   X' = layerNorm(concat(FMB(X), LCB(X)) + R(X))        (F+L, D)
//   FMB(X) = MLP(layerNorm(flat(X (X^T Y))))             (F, D), Y (N,K)
//   Y      = a parameter; attentive: MLP(flat(W_c X)), another one for each sample
//   LCB(X) = W X                                         (L, D)
//   R(X)   = X where N = F+L, else its linear compression to F+L vectors

import { z } from "zod";
import { weightedSums } from "../blocks/attention.ts";
import { concatAdd } from "../blocks/concat.ts";
import { dotProducts, rankProducts } from "../blocks/dot-products.ts";
import { fieldLinear } from "../blocks/field-linear.ts";
import { layerNorm } from "../blocks/layer-norm.ts";
import { mlp } from "../blocks/mlp.ts";
import { type GraphBuilder, reshape, sizeOf, type Value } from "../graph/graph.ts";
import { vectors } from "../vectors.ts";
import {
  bottomProblems,
  commonOptions,
  commonProblems,
  dimProblems,
  type Problem,
  topProblems,
  widths,
} from "./common.ts";

const layerOptions = z.strictObject({
  interacted: z
    .int()
    .min(1)
    .max(4096)
    .describe("`wukong`: vectors that the factorisation machine block gives (n_F)."),
  compressed: z
    .int()
    .min(1)
    .max(4096)
    .describe("`wukong`: vectors that the linear compression block gives (n_L)."),
  rank: z
    .union([z.int().min(1).max(4096), z.literal("full")])
    .default(24)
    .describe(
      '`wukong`: columns that the dot products of all pairs are compressed to (k); `"full"`: they are not.',
    ),
  hidden: widths
    .default([])
    .describe("`wukong`: widths of the hidden layers of the MLP over those products."),
  attentive: z
    .strictObject({
      vectors: z
        .int()
        .min(1)
        .max(4096)
        .default(8)
        .describe(
          "`wukong`: with `attentive`, even `{}`, the products are compressed by what an MLP makes of the sample (attentive Y): weighted sums of its vectors that the MLP takes; left out, by a parameter.",
        ),
      hidden: widths.default([64]).describe("`wukong`: widths of the hidden layers of that MLP."),
    })
    .optional()
    .describe(
      "Makes what the products are compressed by (Y) of each sample's own vectors: some sums of them, and an MLP. Left out: it is a parameter.",
    ),
});

/** Wukong: bottom MLP over the dense features, layers of interactions, top MLP to one logit. */
export const wukongOptions = z.strictObject({
  kind: z.literal("wukong"),
  ...commonOptions,
  bottom: widths
    .default([])
    .describe(
      "Widths of the bottom MLP's layers; for `dlrm` and `wukong` the last is the width of the vectors that interact; ReLU after every layer.",
    ),
  layers: z
    .array(layerOptions)
    .min(1)
    .max(32)
    .describe("`wukong`: the layers of interactions, first to last."),
  top: widths
    .min(1)
    .describe(
      "Widths of the top MLP's layers; the last is 1. ReLU after every layer but the last.",
    ),
});

/** A validated Wukong. */
export type WukongSpec = z.output<typeof wukongOptions>;

/** Options of a Wukong that contradict each other. */
export function wukongProblems(model: WukongSpec): Problem[] {
  return [
    ...commonProblems(model),
    ...bottomProblems(model.dense, model.bottom),
    ...dimProblems(model, model.bottom),
    ...topProblems(model.top),
    ...model.layers.flatMap(({ rank, attentive }, i) => {
      if (attentive === undefined || rank !== "full") return [];
      const message = 'left out where `rank` is "full": the products are not compressed';
      return { path: ["layers", i, "attentive"], message };
    }),
  ];
}

/** A layer's options, and the options that all layers share. */
type NamedLayer = WukongSpec["layers"][number] &
  Pick<WukongSpec, "dropout" | "batchNorm"> & { readonly name: string };

/** Builds a Wukong. Returns the logit (1). */
export function wukongBlocks(graph: GraphBuilder, spec: WukongSpec): Value {
  const { bottom, layers, top, dropout, batchNorm } = spec;
  const first =
    graph.dense && mlp(graph, graph.dense, { name: "bottom", widths: bottom, reluLast: true });
  const dim = spec.dim ?? bottom.at(-1) ?? spec.tables[0]?.dim ?? 0;
  const all = vectors(graph, spec, { ...(first && { first }), dim });
  let x = reshape(all, [sizeOf(all) / dim, dim]);
  for (const [index, layer] of layers.entries()) {
    x = wukongLayer(graph, x, { ...layer, name: `layers.${index}`, dropout, batchNorm });
  }
  return mlp(graph, reshape(x, [sizeOf(x)]), {
    name: "top",
    widths: top,
    dropout,
    hasBatchNorm: batchNorm,
  });
}

/** One layer: from x (N,D) to (F+L, D). */
function wukongLayer(graph: GraphBuilder, x: Value, layer: NamedLayer): Value {
  const { name, interacted, compressed } = layer;
  const [inputs = 0] = x.shape;
  const outputs = interacted + compressed;
  const made = [
    factorisationMachine(graph, x, layer),
    fieldLinear(graph, x, { name: `${name}.compress`, vectors: compressed }),
  ];
  const residual =
    inputs === outputs ? x : fieldLinear(graph, x, { name: `${name}.residual`, vectors: outputs });
  const total = concatAdd(graph, made, residual);
  return layerNorm(graph, total, { name: `${name}.norm` });
}

/** The factorisation machine block: from x (N,D) to (F*D). */
function factorisationMachine(graph: GraphBuilder, x: Value, layer: NamedLayer): Value {
  const { name, hidden, interacted, dropout, batchNorm } = layer;
  const [, dim = 0] = x.shape;
  const products = interactions(graph, x, layer);
  const flat = layerNorm(graph, reshape(products, [sizeOf(products)]), {
    name: `${name}.interact.norm`,
  });
  const widths = [...hidden, interacted * dim];
  return mlp(graph, flat, { name: `${name}.interact`, widths, dropout, hasBatchNorm: batchNorm });
}

/**
 * Dot products of the vectors with Y^T X (K,D), where Y is a parameter or computed from the sample;
 * with full rank, dot products of all pairs.
 */
function interactions(graph: GraphBuilder, x: Value, layer: NamedLayer): Value {
  const { name, rank, attentive } = layer;
  if (rank === "full") return dotProducts(graph, x, x);
  if (attentive === undefined) return rankProducts(graph, x, { name: `${name}.rank`, rank });
  const [inputs = 0] = x.shape;
  const own = `${name}.attentive`;
  const { vectors: count, hidden } = attentive;
  const sums = fieldLinear(graph, x, { name: `${own}.compress`, vectors: count });
  const widths = [...hidden, rank * inputs];
  const made = mlp(graph, reshape(sums, [sizeOf(sums)]), { name: own, widths });
  return dotProducts(graph, x, weightedSums(graph, reshape(made, [rank, inputs]), x));
}
