// Models that gate the vectors of a sample, column by column: MaskNet (Wang et al., arXiv
// 2102.07619) and FinalMLP (Mao et al., arXiv 2304.00902).
//
// I = columns of the dense features and all vectors, concatenated.

import { slice } from "../blocks/columns.ts";
import { concat } from "../blocks/concat.ts";
import { dotProducts } from "../blocks/dot-products.ts";
import { mul, relu, sigmoid, sum } from "../blocks/elements.ts";
import { layerNorm } from "../blocks/layer-norm.ts";
import { linear } from "../blocks/linear.ts";
import { mlp } from "../blocks/mlp.ts";
import { parameter } from "../blocks/parameter.ts";
import { type GraphBuilder, reshape, sizeOf, type Value } from "../graph/graph.ts";
import { glorot } from "../graph/parameters.ts";
import { vectors } from "../vectors.ts";
import type { GateSpec } from "./gates-options.ts";

/** Builds a MaskNet or FinalMLP. Returns the logit (1). */
export function gateBlocks(graph: GraphBuilder, spec: GateSpec): Value {
  return spec.kind === "maskNet" ? maskNet(graph, spec) : finalMlp(graph, spec);
}

/**
 * The dense features and the vectors of the features in `has` (default: all), concatenated. Returns
 * (I).
 */
function inputOf(graph: GraphBuilder, spec: GateSpec, has?: (feature: string) => boolean): Value {
  const first = has === undefined || spec.kind === "finalMlp" ? graph.dense : undefined;
  const dim = spec.dim ?? spec.tables[0]?.dim ?? 0;
  const keepsWidths = spec.dim === undefined;
  return vectors(graph, spec, { ...(first && { first }), dim, keepsWidths, ...(has && { has }) });
}

function maskNet(graph: GraphBuilder, spec: GateSpec & { kind: "maskNet" }): Value {
  const { blocks, structure, top, dropout, batchNorm } = spec;
  const x = inputOf(graph, spec);
  const given: Value[] = [];
  for (let block = 0; block < blocks; block++) {
    const own = structure === "serial" ? (given.at(-1) ?? x) : x;
    given.push(maskBlock(graph, x, own, { ...spec, name: `masks.${block}` }));
  }
  const last = given.at(-1) ?? x;
  const taken = structure === "serial" ? last : concat(graph, given);
  return mlp(graph, taken, { name: "top", widths: top, dropout, hasBatchNorm: batchNorm });
}

/**
 * A mask block: ReLU(LN(W (mask * own))), where an MLP over x (I) computes the mask. Returns
 * (width).
 */
function maskBlock(
  graph: GraphBuilder,
  x: Value,
  own: Value,
  options: { readonly name: string; readonly width: number; readonly reduction: number },
): Value {
  const { name, width, reduction } = options;
  const outputs = sizeOf(own);
  const hidden = Math.max(1, Math.round(reduction * outputs));
  const mask = mlp(graph, x, { name: `${name}.mask`, widths: [hidden, outputs] });
  const masked = mul(graph, mask, own);
  const made = linear(graph, masked, { name: `${name}.layer`, outputs: width, bias: false });
  return relu(graph, layerNorm(graph, made, { name: `${name}.norm` }));
}

function finalMlp(graph: GraphBuilder, spec: GateSpec & { kind: "finalMlp" }): Value {
  const { contexts, heads, dropout, batchNorm } = spec;
  const used = new Set(contexts?.flat());
  const x = inputOf(graph, spec, (feature) => !used.has(feature));
  const [a, b] = (["first", "second"] as const).map((name, stream) => {
    const own = withGates(graph, x, spec, stream);
    const options = { name, widths: spec[name], reluLast: true };
    return mlp(graph, own, { ...options, dropout, hasBatchNorm: batchNorm });
  }) as [Value, Value];
  const linears = sum(
    graph,
    linear(graph, a, { name: "fusion.first", outputs: 1 }),
    linear(graph, b, { name: "fusion.second", outputs: 1 }),
  );
  return Array.from({ length: heads }, (_, head) => {
    const [left, right] = [a, b].map((of) => headOf(graph, of, head, heads)) as [Value, Value];
    const name = `fusion.heads.${head}`;
    // As in FuxiCTR, all heads together form one layer over all products: hence the small initial
    // weights.
    const scale = glorot(heads * sizeOf(left) * sizeOf(right), 1);
    const options = { name, outputs: sizeOf(right), bias: false, scale };
    const turned = linear(graph, left, options);
    return reshape(dotProducts(graph, turned, right), [1]);
  }).reduce((total, term) => sum(graph, total, term), linears);
}

/** The columns of one head, as one vector (1, ·). */
function headOf(graph: GraphBuilder, of: Value, head: number, heads: number): Value {
  const count = sizeOf(of) / heads;
  return slice(graph, reshape(of, [1, sizeOf(of)]), { first: head * count, count });
}

/**
 * Scales each column of x (I) by 2 sigmoid(MLP(context)), with the context of the stream. Returns
 * (I).
 */
function withGates(
  graph: GraphBuilder,
  x: Value,
  spec: GateSpec & { kind: "finalMlp" },
  stream: number,
): Value {
  const { gates, contexts } = spec;
  if (gates === undefined) return x;
  const own = new Set(contexts?.[stream]);
  const dim = spec.dim ?? spec.tables[0]?.dim ?? 1;
  const context =
    contexts === undefined
      ? parameter(graph, `gates.${stream}.context`, dim)
      : vectors(graph, spec, { dim, keepsWidths: true, has: (feature) => own.has(feature) });
  const widths = [...gates, sizeOf(x)];
  const gate = sigmoid(graph, mlp(graph, context, { name: `gates.${stream}`, widths }));
  return mul(graph, x, sum(graph, gate, gate));
}
