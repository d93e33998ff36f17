// DLRM (Naumov et al., arXiv 1906.00091): a bottom MLP over the dense features, the interaction of
// its output with the vectors of the lookups, and a top MLP.
//
// W = columns of all interacting vectors, concatenated. For dot products, these are F vectors of D
// columns: W = F*D.

import { interaction } from "../blocks/interaction.ts";
import { mlp } from "../blocks/mlp.ts";
import type { GraphBuilder, Value } from "../graph/graph.ts";
import { vectors } from "../vectors.ts";
import type { DlrmSpec } from "./dlrm-options.ts";

/** Builds a DLRM. Returns the logit (1). */
export function dlrmBlocks(graph: GraphBuilder, spec: DlrmSpec): Value {
  const { bottom, top, dropout, batchNorm } = spec;
  const first =
    graph.dense && mlp(graph, graph.dense, { name: "bottom", widths: bottom, reluLast: true });
  const dim = spec.dim ?? bottom.at(-1) ?? spec.tables[0]?.dim ?? 0;
  const keepsWidths = spec.interaction === "cat";
  const x = vectors(graph, spec, { ...(first && { first }), dim, keepsWidths });
  return mlp(graph, interacting(graph, x, spec, dim), {
    name: "top",
    widths: top,
    dropout,
    hasBatchNorm: batchNorm,
  });
}

/** The input of the top MLP, from x (W). */
function interacting(graph: GraphBuilder, x: Value, spec: DlrmSpec, dim: number): Value {
  const count = Math.floor((x.shape[0] ?? 0) / dim);
  // A single vector has no pairs: the top MLP takes the vector itself, or it would have no input.
  if (spec.interaction === "cat" || count <= 1) return x;
  const ofBottom = graph.dense === undefined ? 0 : 1;
  const copied = spec.interaction === "dot" ? ofBottom : count;
  return interaction(graph, x, { vectors: count, dim, copied });
}
