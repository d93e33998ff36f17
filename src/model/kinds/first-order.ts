// Models with a first-order weight for each id: logistic regression, factorisation machines (Rendle
// 2010), Wide & Deep (Cheng et al., arXiv 1606.07792) and DeepFM (Guo et al., arXiv 1703.04247).
//
// The first-order weight of an id is the last column of its row, after its vector, so that one
// lookup and one placement serve both.
//
// F = features, D = columns of a vector, W = dense features.

import { z } from "zod";
import { bias } from "../blocks/bias.ts";
import { slice, sumOfVectors } from "../blocks/columns.ts";
import { concat } from "../blocks/concat.ts";
import { sum } from "../blocks/elements.ts";
import { factorisationMachine } from "../blocks/factorisation-machine.ts";
import { linear } from "../blocks/linear.ts";
import { mlp } from "../blocks/mlp.ts";
import { type GraphBuilder, reshape, sizeOf, type Value } from "../graph/graph.ts";
import { vectors } from "../vectors.ts";
import {
  type CheckedModel,
  commonOptions,
  commonProblems,
  type Problem,
  topProblems,
  widths,
} from "./common.ts";

const top = widths
  .min(1)
  .describe(
    "Widths of the layers of the deep part; the last is 1. ReLU after every layer but the last.",
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

/** Builds a model with first-order weights. Returns the logit (1). */
export function firstOrderBlocks(graph: GraphBuilder, spec: FirstOrderSpec): Value {
  const rows = rowsOf(graph, spec);
  const terms = rows === undefined ? [] : termsOf(graph, spec, rows);
  if (graph.dense !== undefined) {
    terms.push(linear(graph, graph.dense, { name: "dense", outputs: 1, bias: false }));
  }
  if ("top" in spec) terms.push(deep(graph, spec, rows));
  return bias(
    graph,
    terms.reduce((total, term) => sum(graph, total, term)),
    "bias",
  );
}

/** The rows of all features, (F, D+1); undefined: the model has no features. */
function rowsOf(graph: GraphBuilder, spec: FirstOrderSpec): Value | undefined {
  const dim = spec.tables[0]?.dim;
  if (dim === undefined) return undefined;
  const all = vectors(graph, spec, { dim });
  return reshape(all, [sizeOf(all) / dim, dim]);
}

/** The terms without layers: first-order weights, and the dot products of all pairs of vectors. */
function termsOf(graph: GraphBuilder, { kind }: FirstOrderSpec, rows: Value): Value[] {
  const [, dim = 1] = rows.shape;
  if (kind === "lr") return [sumOfVectors(graph, rows)];
  const weights = sumOfVectors(graph, slice(graph, rows, { first: dim - 1, count: 1 }));
  if (kind === "wideAndDeep") return [weights];
  const own = slice(graph, rows, { first: 0, count: dim - 1 });
  return [weights, factorisationMachine(graph, own)];
}

/** An MLP over the dense features and the vectors of all features. Returns (1). */
function deep(
  graph: GraphBuilder,
  { top, dropout, batchNorm }: FirstOrderSpec & { readonly top: readonly number[] },
  rows: Value | undefined,
): Value {
  const [, dim = 1] = rows?.shape ?? [];
  const own = rows && slice(graph, rows, { first: 0, count: dim - 1 });
  const values = [graph.dense, own].filter((value) => value !== undefined);
  return mlp(graph, concat(graph, values), {
    name: "top",
    widths: top,
    dropout,
    hasBatchNorm: batchNorm,
  });
}
