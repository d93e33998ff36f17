// DLRM (Naumov et al., arXiv 1906.00091): a bottom MLP over the dense features, the interaction of
// its output with the vectors of the lookups, and a top MLP.
//
// W = columns of all interacting vectors, concatenated. For dot products, these are F vectors of D
// columns: W = F*D.

import { z } from "zod";
import { interaction } from "../blocks/interaction.ts";
import { mlp } from "../blocks/mlp.ts";
import type { GraphBuilder, Value } from "../graph/graph.ts";
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

/** A DLRM: bottom MLP over the dense features, interaction of vectors, top MLP to one logit. */
export const dlrmOptions = z.strictObject({
  kind: z.literal("dlrm"),
  ...commonOptions,
  bottom: widths
    .default([])
    .describe(
      "Widths of the bottom MLP's layers; for `dlrm` and `wukong` the last is the width of the vectors that interact; ReLU after every layer.",
    ),
  top: widths
    .min(1)
    .describe(
      "Widths of the top MLP's layers; the last is 1. ReLU after every layer but the last.",
    ),
  interaction: z
    .enum(["dot", "cat", "dot+cat"])
    .default("dot")
    .describe(
      "`dlrm`: input of the top MLP: `dot` products beside the bottom's output, `cat` all vectors, `dot+cat` both.",
    ),
});

/** A validated DLRM. */
export type DlrmSpec = z.output<typeof dlrmOptions>;

/** Options of a DLRM that contradict each other. */
export function dlrmProblems(model: DlrmSpec): Problem[] {
  const { dense, bottom, top, interaction, groups, dim } = model;
  const keepsAll = interaction === "cat" && groups === undefined && dim === undefined;
  return [
    ...commonProblems(model),
    ...bottomProblems(dense, bottom),
    ...(keepsAll ? [] : dimProblems(model, bottom)),
    ...topProblems(top),
  ];
}

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
