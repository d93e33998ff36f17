// Models with layers over the vectors of fields, in parallel with an MLP over the same vectors:
// AutoInt (Song et al., arXiv 1810.11921) uses attention, xDeepFM (Lian et al., arXiv 1803.05170)
// compressed interactions.
//
// F = vectors, D = columns of each.

import { attention } from "../blocks/attention.ts";
import { sumOfColumns } from "../blocks/columns.ts";
import { compressedInteraction } from "../blocks/compressed-interaction.ts";
import { concat } from "../blocks/concat.ts";
import { relu, sum } from "../blocks/elements.ts";
import { layerNorm } from "../blocks/layer-norm.ts";
import { linear } from "../blocks/linear.ts";
import { mlp } from "../blocks/mlp.ts";
import { type GraphBuilder, reshape, sizeOf, type Value } from "../graph/graph.ts";
import { vectors } from "../vectors.ts";
import type { FieldSpec } from "./field-layers-options.ts";

/** Builds an AutoInt or xDeepFM. Returns the logit (1). */
export function fieldBlocks(graph: GraphBuilder, spec: FieldSpec): Value {
  const { bottom, top, dropout, batchNorm } = spec;
  const first =
    graph.dense && mlp(graph, graph.dense, { name: "bottom", widths: bottom, reluLast: true });
  const dim = spec.dim ?? bottom.at(-1) ?? spec.tables[0]?.dim ?? 0;
  const all = vectors(graph, spec, { ...(first && { first }), dim });
  const fields = reshape(all, [sizeOf(all) / dim, dim]);
  const seen =
    spec.kind === "autoInt" ? attended(graph, fields, spec) : crossed(graph, fields, spec);
  const logit = linear(graph, seen, { name: "fields", outputs: 1 });
  if (top === undefined) return logit;
  const options = { name: "top", widths: top, dropout, hasBatchNorm: batchNorm };
  return sum(graph, logit, mlp(graph, all, options));
}

/**
 * Attention layers over x (F,D), each with a linear layer as residual connection. Returns a row.
 */
function attended(graph: GraphBuilder, x: Value, spec: FieldSpec & { kind: "autoInt" }): Value {
  const { heads, width: columns } = spec;
  let own = x;
  for (let layer = 0; layer < spec.attentionLayers; layer++) {
    const name = `attention.${layer}`;
    const mixed = attention(graph, own, { name, heads, columns });
    const residual = linear(graph, own, {
      name: `${name}.residual`,
      outputs: columns,
      bias: false,
    });
    const total = sum(graph, mixed, residual);
    own = relu(graph, layerNorm(graph, total, { name: `${name}.norm` }));
  }
  return reshape(own, [sizeOf(own)]);
}

/**
 * Layers of compressed interactions, each between the previous layer and x (F,D). Returns the sums
 * over columns of all layers, concatenated.
 */
function crossed(graph: GraphBuilder, x: Value, spec: FieldSpec & { kind: "xDeepFm" }): Value {
  const sums: Value[] = [];
  let own = x;
  for (const [layer, count] of spec.compressed.entries()) {
    own = compressedInteraction(graph, own, x, { name: `compressed.${layer}`, vectors: count });
    sums.push(sumOfColumns(graph, own));
  }
  return concat(graph, sums);
}
