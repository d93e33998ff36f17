// Options of cross networks (cross-network.ts): DCN v2 and GDCN.

import { z } from "zod";
import {
  commonOptions,
  commonProblems,
  type Problem,
  topProblems,
  widths,
} from "./common-options.ts";

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
