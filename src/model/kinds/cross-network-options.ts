// Options of cross networks (cross-network.ts): DCN v2 and GDCN.

import { z } from "zod";
import {
  bottomWidths,
  commonOptions,
  commonProblems,
  type Problem,
  topProblems,
  topWidths,
} from "./common-options.ts";

const crossOptions = {
  ...commonOptions,
  bottom: bottomWidths,
  crossLayers: z.int().min(1).max(32).describe("`dcnV2`, `gdcn`: number of cross layers."),
  rank: z
    .int()
    .min(1)
    .max(65536)
    .optional()
    .describe(
      "`dcnV2`, `gdcn`: rank of the cross layers' weight matrices, each stored as two factors. Left out: full matrices.",
    ),
  structure: z
    .enum(["stacked", "parallel"])
    .default("stacked")
    .describe(
      "`stacked`: the top MLP's input is the output of the cross layers; `parallel`: its input is that of the cross layers, and its last layer takes both outputs.",
    ),
  top: topWidths,
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
