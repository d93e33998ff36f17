// Options of a DLRM (dlrm.ts).

import { z } from "zod";
import {
  bottomProblems,
  bottomWidths,
  commonOptions,
  commonProblems,
  dimProblems,
  type Problem,
  topProblems,
  topWidths,
} from "./common-options.ts";

/** A DLRM: bottom MLP over the dense features, interaction of vectors, top MLP to one logit. */
export const dlrmOptions = z.strictObject({
  kind: z.literal("dlrm"),
  ...commonOptions,
  bottom: bottomWidths,
  top: topWidths,
  interaction: z
    .enum(["dot", "cat", "dot+cat"])
    .default("dot")
    .describe(
      "`dlrm`: input of the top MLP. `dot`: the dot products of all pairs of vectors, and the bottom MLP's output; `cat`: all vectors, concatenated; `dot+cat`: both.",
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
