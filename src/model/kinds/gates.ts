// Models that gate the vectors of a sample, column by column: MaskNet (Wang et al., arXiv
// 2102.07619) and FinalMLP (Mao et al., arXiv 2304.00902).
//
// I = columns of the dense features and all vectors, concatenated.

import { z } from "zod";
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
import { commonOptions, commonProblems, type Problem, topProblems, widths } from "./common.ts";

/** MaskNet: layers with multiplicative masks, which an MLP computes from all vectors. */
export const maskNetOptions = z.strictObject({
  kind: z.literal("maskNet"),
  ...commonOptions,
  blocks: z.int().min(1).max(64).describe("`maskNet`: mask blocks."),
  width: z
    .int()
    .min(1)
    .max(65536)
    .describe(
      "`autoInt`: columns of the vectors that a layer gives, over all heads; `maskNet`: columns that a block gives.",
    ),
  reduction: z
    .number()
    .gt(0)
    .max(64)
    .default(1)
    .describe("`maskNet`: hidden columns of a mask, for each column that it masks."),
  structure: z
    .enum(["parallel", "serial"])
    .default("parallel")
    .describe(
      "`parallel`: each block takes all vectors; `serial`: each takes what the one before gave.",
    ),
  top: widths
    .min(1)
    .describe(
      "Widths of the top MLP's layers; the last is 1. ReLU after every layer but the last.",
    ),
});

/**
 * FinalMLP: two MLPs over vectors with gates of their own, and a bilinear fusion of their outputs.
 */
export const finalMlpOptions = z.strictObject({
  kind: z.literal("finalMlp"),
  ...commonOptions,
  first: widths
    .min(1)
    .describe(
      "`finalMlp`: widths of the first MLP's layers; ReLU after every layer; `finalNet`: of the first block's, even numbers.",
    ),
  second: widths.min(1).describe("Widths of the second MLP's layers."),
  heads: z
    .int()
    .min(1)
    .max(64)
    .default(1)
    .describe("Heads of the product of both outputs; divides the widths of both."),
  gates: widths
    .optional()
    .describe("`finalMlp`: widths of the hidden layers of the gates; left out, there are none."),
  contexts: z
    .tuple([z.array(z.string()).min(1), z.array(z.string()).min(1)])
    .optional()
    .describe(
      "`finalMlp`: the features, with tables of their own, that each gate takes; left out, each takes a learned vector.",
    ),
});

/** A validated MaskNet or FinalMLP. */
export type GateSpec = z.output<typeof maskNetOptions> | z.output<typeof finalMlpOptions>;

/** Options of a MaskNet or FinalMLP that contradict each other. */
export function gateProblems(model: GateSpec): Problem[] {
  const problems = commonProblems(model);
  if (model.groups !== undefined && model.dim === undefined) {
    problems.push({ path: ["dim"], message: "the width of the vectors that groups give" });
  }
  if (model.kind === "maskNet") return [...problems, ...topProblems(model.top)];
  return [...problems, ...finalMlpProblems(model)];
}

function finalMlpProblems(model: z.output<typeof finalMlpOptions>): Problem[] {
  const { heads, gates, contexts, tables, features } = model;
  const problems: Problem[] = [];
  for (const stream of ["first", "second"] as const) {
    const last = model[stream].length - 1;
    if ((model[stream][last] ?? 0) % heads === 0) continue;
    problems.push({ path: [stream, last], message: `a multiple of the heads, ${heads}` });
  }
  if (contexts !== undefined && gates === undefined) {
    problems.push({ path: ["contexts"], message: "left out, as there are no `gates`" });
  }
  const names = new Set(features?.map(({ name, column }) => name ?? column));
  const known = features === undefined ? new Set(tables.map(({ name }) => name)) : names;
  for (const [i, context] of (contexts ?? []).entries()) {
    const at = context.findIndex((name) => !known.has(name));
    if (at >= 0) problems.push({ path: ["contexts", i, at], message: "the name of a feature" });
  }
  const used = new Set(contexts?.flat());
  if (model.dense === 0 && [...known].every((name) => used.has(name))) {
    problems.push({ path: ["contexts"], message: "some of the features, not all of them" });
  }
  return problems;
}

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
