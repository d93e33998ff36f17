// Options of a Wukong (wukong.ts).

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
  widths,
} from "./common-options.ts";

const layerOptions = z.strictObject({
  interacted: z
    .int()
    .min(1)
    .max(4096)
    .describe("`wukong`: number of output vectors of the factorisation machine block (n_F)."),
  compressed: z
    .int()
    .min(1)
    .max(4096)
    .describe("`wukong`: number of output vectors of the linear compression block (n_L)."),
  rank: z
    .union([z.int().min(1).max(4096), z.literal("full")])
    .default(24)
    .describe(
      '`wukong`: number of columns to which the dot products of all pairs are compressed (k); `"full"`: no compression.',
    ),
  hidden: widths
    .default([])
    .describe("`wukong`: widths of the hidden layers of the MLP over the dot products."),
  attentive: z
    .strictObject({
      vectors: z
        .int()
        .min(1)
        .max(4096)
        .default(8)
        .describe(
          "`wukong`: with `attentive`, even `{}`, an MLP computes the compression matrix Y for each sample. `vectors`: number of weighted sums of the sample's vectors, the MLP's input. Without `attentive`, Y is a parameter.",
        ),
      hidden: widths
        .default([64])
        .describe("`wukong`: widths of the hidden layers of the MLP that computes Y."),
    })
    .optional()
    .describe(
      "An MLP computes the compression matrix Y from weighted sums of each sample's own vectors. Left out: Y is a parameter.",
    ),
});

/** Wukong: bottom MLP over the dense features, layers of interactions, top MLP to one logit. */
export const wukongOptions = z.strictObject({
  kind: z.literal("wukong"),
  ...commonOptions,
  bottom: bottomWidths,
  layers: z
    .array(layerOptions)
    .min(1)
    .max(32)
    .describe("`wukong`: the layers of interactions, first to last."),
  top: topWidths,
});

/** A validated Wukong. */
export type WukongSpec = z.output<typeof wukongOptions>;

/** Options of a Wukong that contradict each other. */
export function wukongProblems(model: WukongSpec): Problem[] {
  return [
    ...commonProblems(model),
    ...bottomProblems(model.dense, model.bottom),
    ...dimProblems(model, model.bottom),
    ...topProblems(model.top),
    ...model.layers.flatMap(({ rank, attentive }, i) => {
      if (attentive === undefined || rank !== "full") return [];
      const message = 'left out where `rank` is "full": the products are not compressed';
      return { path: ["layers", i, "attentive"], message };
    }),
  ];
}
