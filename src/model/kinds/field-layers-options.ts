// Options of AutoInt and xDeepFM, whose layers work on the vectors of fields (field-layers.ts).

import { z } from "zod";
import {
  bottomProblems,
  bottomWidths,
  commonOptions,
  commonProblems,
  dimProblems,
  type Problem,
  topProblems,
  widths,
} from "./common-options.ts";

const shared = {
  ...commonOptions,
  bottom: bottomWidths,
  top: widths
    .min(1)
    .optional()
    .describe(
      "Widths of the layers of an MLP over all vectors, whose logit is added to the model's; the last is 1. Left out: no MLP.",
    ),
};

/** AutoInt: layers of self-attention over the vectors; with `top`, AutoInt+. */
export const autoIntOptions = z.strictObject({
  kind: z.literal("autoInt"),
  ...shared,
  attentionLayers: z
    .int()
    .min(1)
    .max(32)
    .describe("`autoInt`: number of self-attention layers over the vectors."),
  heads: z.int().min(1).max(64).default(2).describe("Attention heads of each layer."),
  width: z
    .int()
    .min(1)
    .max(4096)
    .describe(
      "`autoInt`: columns of a layer's output vectors, over all heads; `maskNet`: columns of a block's output.",
    ),
});

/** xDeepFM: a compressed interaction network; with `top`, plus an MLP. */
export const xDeepFmOptions = z.strictObject({
  kind: z.literal("xDeepFm"),
  ...shared,
  compressed: z
    .array(z.int().min(1).max(4096))
    .min(1)
    .max(32)
    .describe("`xDeepFm`: number of output vectors of each compressed interaction layer."),
});

/** A validated AutoInt or xDeepFM. */
export type FieldSpec = z.output<typeof autoIntOptions> | z.output<typeof xDeepFmOptions>;

/** Options of an AutoInt or xDeepFM that contradict each other. */
export function fieldProblems(model: FieldSpec): Problem[] {
  const problems = [
    ...commonProblems(model),
    ...bottomProblems(model.dense, model.bottom),
    ...dimProblems(model, model.bottom),
    ...topProblems(model.top ?? []),
  ];
  if (model.kind === "autoInt" && model.width % model.heads !== 0) {
    problems.push({ path: ["width"], message: `a multiple of the heads, ${model.heads}` });
  }
  return problems;
}
