// Cross networks: DCN v2 (Wang et al., arXiv 2008.13535; with low rank: MLPerf's DLRM-DCNv2) and
// GDCN (Wang et al., arXiv 2311.04635). Their input is the dense features, or the output of the
// bottom MLP, followed by the vectors of all features.

import { z } from "zod";
import { concat } from "../blocks/concat.ts";
import { crossLayers } from "../blocks/cross.ts";
import { linear } from "../blocks/linear.ts";
import { mlp } from "../blocks/mlp.ts";
import type { GraphBuilder, Value } from "../graph/graph.ts";
import { vectors } from "../vectors.ts";
import { commonOptions, commonProblems, type Problem, topProblems, widths } from "./common.ts";

const crossOptions = {
  ...commonOptions,
  bottom: widths
    .default([])
    .describe(
      "Widths of the bottom MLP's layers; for `dlrm` and `wukong` the last is the width of the vectors that interact; ReLU after every layer.",
    ),
  crossLayers: z.int().min(1).max(32).describe("`dcnV2`, `gdcn`: cross layers."),
  rank: z
    .int()
    .min(1)
    .max(65536)
    .optional()
    .describe(
      "`dcnV2`, `gdcn`: rank of the cross layers' weights, in two factors; left out, whole.",
    ),
  structure: z
    .enum(["stacked", "parallel"])
    .default("stacked")
    .describe(
      "`stacked`: the top MLP takes what the cross layers give; `parallel`: it runs beside them over the same input, and its last layer takes both.",
    ),
  top: widths
    .min(1)
    .describe(
      "Widths of the top MLP's layers; the last is 1. ReLU after every layer but the last.",
    ),
};

/** DCN v2: cross layers over all vectors, concatenated, and an MLP. */
export const dcnV2Options = z.strictObject({ kind: z.literal("dcnV2"), ...crossOptions });

/** GDCN: DCN v2 with a gate for each column of each cross layer. */
export const gdcnOptions = z.strictObject({ kind: z.literal("gdcn"), ...crossOptions });

/** A validated cross network. */
export type CrossSpec = z.output<typeof dcnV2Options> | z.output<typeof gdcnOptions>;

/** Options of a cross network that contradict each other. */
export function crossProblems(model: CrossSpec): Problem[] {
  const { dense, bottom, groups, dim, top } = model;
  const problems = [...commonProblems(model), ...topProblems(top)];
  if (dense === 0 && bottom.length > 0) {
    problems.push({ path: ["bottom"], message: "empty, as the model has no dense features" });
  }
  if (groups !== undefined && dim === undefined) {
    problems.push({ path: ["dim"], message: "the width of the vectors that groups give" });
  }
  return problems;
}

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
