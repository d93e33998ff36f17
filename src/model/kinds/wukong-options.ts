// Options of a Wukong (wukong.ts).

import { z } from "zod";
import {
  bottomProblems,
  commonOptions,
  commonProblems,
  dimProblems,
  type Problem,
  topProblems,
  widths,
} from "./common-options.ts";

const layerOptions = z.strictObject({
  interacted: z
    .int()
    .min(1)
    .max(4096)
    .describe("`wukong`: vectors that the factorisation machine block gives (n_F)."),
  compressed: z
    .int()
    .min(1)
    .max(4096)
    .describe("`wukong`: vectors that the linear compression block gives (n_L)."),
  rank: z
    .union([z.int().min(1).max(4096), z.literal("full")])
    .default(24)
    .describe(
      '`wukong`: columns that the dot products of all pairs are compressed to (k); `"full"`: they are not.',
    ),
  hidden: widths
    .default([])
    .describe("`wukong`: widths of the hidden layers of the MLP over those products."),
  attentive: z
    .strictObject({
      vectors: z
        .int()
        .min(1)
        .max(4096)
        .default(8)
        .describe(
          "`wukong`: with `attentive`, even `{}`, the products are compressed by what an MLP makes of the sample (attentive Y): weighted sums of its vectors that the MLP takes; left out, by a parameter.",
        ),
      hidden: widths.default([64]).describe("`wukong`: widths of the hidden layers of that MLP."),
    })
    .optional()
    .describe(
      "Makes what the products are compressed by (Y) of each sample's own vectors: some sums of them, and an MLP. Left out: it is a parameter.",
    ),
});

/** Wukong: bottom MLP over the dense features, layers of interactions, top MLP to one logit. */
export const wukongOptions = z.strictObject({
  kind: z.literal("wukong"),
  ...commonOptions,
  bottom: widths
    .default([])
    .describe(
      "Widths of the bottom MLP's layers; for `dlrm` and `wukong` the last is the width of the vectors that interact; ReLU after every layer.",
    ),
  layers: z
    .array(layerOptions)
    .min(1)
    .max(32)
    .describe("`wukong`: the layers of interactions, first to last."),
  top: widths
    .min(1)
    .describe(
      "Widths of the top MLP's layers; the last is 1. ReLU after every layer but the last.",
    ),
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
