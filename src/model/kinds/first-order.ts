// Models with a first-order weight for each id: logistic regression, factorisation machines (Rendle
// 2010), Wide & Deep (Cheng et al., arXiv 1606.07792) and DeepFM (Guo et al., arXiv 1703.04247).
//
// The first-order weight of an id is the last column of its row, after its vector, so that one
// lookup and one placement serve both.
//
// F = features, D = columns of a vector, W = dense features.

import { bias } from "../blocks/bias.ts";
import { slice, sumOfVectors } from "../blocks/columns.ts";
import { concat } from "../blocks/concat.ts";
import { sum } from "../blocks/elements.ts";
import { factorisationMachine } from "../blocks/factorisation-machine.ts";
import { linear } from "../blocks/linear.ts";
import { mlp } from "../blocks/mlp.ts";
import { type GraphBuilder, reshape, sizeOf, type Value } from "../graph/graph.ts";
import { vectors } from "../vectors.ts";
import type { FirstOrderSpec } from "./first-order-options.ts";

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
