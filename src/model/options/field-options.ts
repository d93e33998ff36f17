// Options of the models whose layers work on the vectors of fields (field-layers.ts).

import { z } from "zod";
import {
  bottomProblems,
  commonOptions,
  commonProblems,
  dimProblems,
  type ModelOptionsOf,
  type Problem,
  topProblems,
  widths,
} from "./common-options.ts";

const shared = {
  ...commonOptions,
  /** Widths of the bottom MLP's layers; the last is the tables' dim. ReLU after every layer. */
  bottom: widths.default([]),
  /** Widths of an MLP over all vectors, whose logit is added; the last is 1. Left out: none. */
  top: widths.min(1).optional(),
};

/** AutoInt: layers of self-attention over the vectors; with `top`, AutoInt+. */
export const autoIntOptions = z.strictObject({
  kind: z.literal("autoInt"),
  ...shared,
  attentionLayers: z.int().min(1).max(32),
  /** Heads of each layer. */
  heads: z.int().min(1).max(64).default(2),
  /** Columns of the vectors that a layer gives, over all heads. */
  width: z.int().min(1).max(4096),
});

/** xDeepFM: a compressed interaction network, with `top` an MLP beside it. */
export const xDeepFmOptions = z.strictObject({
  kind: z.literal("xDeepFm"),
  ...shared,
  /** Vectors that each layer of compressed interactions gives. */
  compressed: z.array(z.int().min(1).max(4096)).min(1).max(32),
});

/** A model of fields after its checks. */
export type FieldSpec = z.output<typeof autoIntOptions> | z.output<typeof xDeepFmOptions>;

export type FieldOptions =
  | ModelOptionsOf<typeof autoIntOptions>
  | ModelOptionsOf<typeof xDeepFmOptions>;

/** Options of such a model that contradict each other. */
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
