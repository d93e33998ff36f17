// Cross networks: DCN v2 (Wang et al., arXiv 2008.13535; with low rank: MLPerf's DLRM-DCNv2) and
// GDCN (Wang et al., arXiv 2311.04635). Their input is the dense features, or the output of the
// bottom MLP, followed by the vectors of all features.

import { concat } from "../blocks/concat.ts";
import { crossLayers } from "../blocks/cross.ts";
import { linear } from "../blocks/linear.ts";
import { mlp } from "../blocks/mlp.ts";
import type { GraphBuilder, Value } from "../graph/graph.ts";
import { vectors } from "../vectors.ts";
import type { CrossSpec } from "./cross-network-options.ts";

/** Builds a cross network, stacked or parallel. Returns the logit (1). */
export function crossBlocks(graph: GraphBuilder, spec: CrossSpec): Value {
  const { bottom, rank, top, dropout, batchNorm } = spec;
  const first =
    graph.dense && mlp(graph, graph.dense, { name: "bottom", widths: bottom, reluLast: true });
  const dim = spec.dim ?? spec.tables[0]?.dim ?? 0;
  const keepsWidths = spec.dim === undefined;
  const x0 = vectors(graph, spec, { ...(first && { first }), dim, keepsWidths });
  const options = { name: "cross", layers: spec.crossLayers, rank, hasGates: spec.kind === "gdcn" };
  const crossed = crossLayers(graph, x0, options);
  if (spec.structure === "stacked") {
    return mlp(graph, crossed, { name: "top", widths: top, dropout, hasBatchNorm: batchNorm });
  }
  const hidden = top.slice(0, -1);
  const deep = mlp(graph, x0, {
    name: "top",
    widths: hidden,
    reluLast: true,
    dropout,
    hasBatchNorm: batchNorm,
  });
  const both = concat(graph, [crossed, deep]);
  return linear(graph, both, { name: `top.${hidden.length}`, outputs: 1 });
}
