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

import { weightedSums } from "../blocks/attention.ts";
import { concatAdd } from "../blocks/concat.ts";
import { dotProducts, rankProducts } from "../blocks/dot-products.ts";
import { fieldLinear } from "../blocks/field-linear.ts";
import { layerNorm } from "../blocks/layer-norm.ts";
import { mlp } from "../blocks/mlp.ts";
import { type GraphBuilder, reshape, sizeOf, type Value } from "../graph/graph.ts";
import { vectors } from "../vectors.ts";
import type { WukongSpec } from "./wukong-options.ts";

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
