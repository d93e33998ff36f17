// Options of the models with a first-order weight for each id (first-order.ts): logistic
// regression, factorisation machine, Wide & Deep and DeepFM.

import { z } from "zod";
import {
  type CheckedModel,
  commonOptions,
  commonProblems,
  type Problem,
  topProblems,
  widths,
} from "./common-options.ts";

const top = widths
  .min(1)
  .describe(
    "Widths of the layers of the deep part, an MLP; the last is 1. ReLU after every layer but the last.",
  );

/** Logistic regression: a weight for each id and each dense feature. Tables must have dim 1. */
export const lrOptions = z.strictObject({ kind: z.literal("lr"), ...commonOptions });

/** A factorisation machine: first-order weights plus the dot products of all pairs of vectors. */
export const fmOptions = z.strictObject({ kind: z.literal("fm"), ...commonOptions });

/** Wide & Deep: first-order weights plus an MLP over vectors and dense features. */
export const wideAndDeepOptions = z.strictObject({
  kind: z.literal("wideAndDeep"),
  ...commonOptions,
  top,
});

/** DeepFM: a factorisation machine plus an MLP over the same vectors. */
export const deepFmOptions = z.strictObject({ kind: z.literal("deepFm"), ...commonOptions, top });

/** A validated model with first-order weights. */
export type FirstOrderSpec =
  | z.output<typeof lrOptions>
  | z.output<typeof fmOptions>
  | z.output<typeof wideAndDeepOptions>
  | z.output<typeof deepFmOptions>;

/** Options of a model with first-order weights that contradict each other. */
export function firstOrderProblems(model: FirstOrderSpec): Problem[] {
  const rows = model.kind === "lr" ? rowsAreWeights(model) : rowsHaveWeights(model);
  return [
    ...commonProblems(model),
    ...rows,
    ...leftOut(model),
    ...("top" in model ? topProblems(model.top) : []),
  ];
}

function rowsAreWeights({ tables }: CheckedModel): Problem[] {
  const wide = tables.findIndex(({ dim }) => dim !== 1);
  return wide < 0 ? [] : [{ path: ["tables", wide, "dim"], message: "1: the weight of an id" }];
}

function rowsHaveWeights({ tables }: CheckedModel): Problem[] {
  const [first] = tables;
  const other = tables.findIndex(({ dim }) => dim < 2 || dim !== first?.dim);
  if (other < 0) return [];
  const message =
    "2 or more and that of all tables, as the last column of a row is the weight of its id";
  return [{ path: ["tables", other, "dim"], message }];
}

/**
 * Refuses options that project rows: a projection would mix the first-order weight with the vector.
 */
function leftOut({ features, groups, dim }: CheckedModel): Problem[] {
  const message = "left out, as rows are not projected in this architecture";
  const problems: Problem[] = [];
  if (groups !== undefined) problems.push({ path: ["groups"], message });
  if (dim !== undefined) problems.push({ path: ["dim"], message });
  const many = features?.findIndex(({ vectors }) => vectors !== undefined) ?? -1;
  if (many >= 0) problems.push({ path: ["features", many, "vectors"], message });
  return problems;
}
