// Options of a Wukong (wukong.ts).

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

const layerOptions = z.strictObject({
  /** Vectors of the factorisation machine block (n_F). */
  interacted: z.int().min(1).max(4096),
  /** Vectors of the linear compression block (n_L). */
  compressed: z.int().min(1).max(4096),
  /**
   * Columns that the dot products of all pairs are compressed to (k); "full": they are not, and
   * cost the square of the vectors.
   */
  rank: z.union([z.int().min(1).max(4096), z.literal("full")]).default(24),
  /** Widths of the hidden layers of its MLP. */
  hidden: widths.default([]),
  /**
   * Makes what the products are compressed by (Y) of each sample's own vectors: some sums of them,
   * and an MLP. Left out: it is a parameter.
   */
  attentive: z
    .strictObject({
      /** Weighted sums of the vectors that the MLP takes. */
      vectors: z.int().min(1).max(4096).default(8),
      /** Widths of the hidden layers of the MLP. */
      hidden: widths.default([64]),
    })
    .optional(),
});

/** Wukong: bottom MLP over the dense features, layers of interactions, top MLP to one logit. */
export const wukongOptions = z.strictObject({
  kind: z.literal("wukong"),
  ...commonOptions,
  /** Widths of the bottom MLP's layers; the last is the tables' dim. ReLU after every layer. */
  bottom: widths.default([]),
  /** The layers of interactions, first to last. */
  layers: z.array(layerOptions).min(1).max(32),
  /** Widths of the top MLP's layers; the last is 1. ReLU after every layer but the last. */
  top: widths.min(1),
});

export type WukongOptions = ModelOptionsOf<typeof wukongOptions>;
/** A Wukong after its checks. */
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
