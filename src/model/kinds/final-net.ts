// FinalNet (Zhu et al., SIGIR 2023, doi 10.1145/3539618.3591988): each layer splits its outputs in
// two halves and multiplies them, so that L layers reach interactions of order 2^L. An optional
// second block runs in parallel, and the mean of both logits is trained on the label. Each block is
// also trained on the prediction of that mean, as on a teacher, into which no gradient flows.
//
// E = columns of all vectors, concatenated, F = vectors, D = columns of each, O = a layer's
// outputs.

import { usualLossTerm } from "../../kernels/contract/kernels.ts";
import { batchNorm } from "../blocks/batch-norm.ts";
import { repeatColumns, slice } from "../blocks/columns.ts";
import { concat } from "../blocks/concat.ts";
import { mean, mul, relu, sum } from "../blocks/elements.ts";
import { fieldLinear } from "../blocks/field-linear.ts";
import { linear } from "../blocks/linear.ts";
import { parameter } from "../blocks/parameter.ts";
import {
  type Graph,
  type GraphBuilder,
  type Objective,
  reshape,
  sizeOf,
  type Value,
} from "../graph/graph.ts";
import { vectors } from "../vectors.ts";
import type { FinalNetSpec } from "./final-net-options.ts";

/** The objective of the logit that is the model's prediction. */
const ofLabel: Objective = { ...usualLossTerm, rule: undefined, task: "label" };

/** Builds a FinalNet: one logit or, with two blocks, the mean logit and the logits of both. */
export function finalNetGraph(graph: GraphBuilder, spec: FinalNetSpec): Graph {
  const { first, second, fieldGate } = spec;
  const dim = spec.dim ?? spec.tables[0]?.dim ?? 0;
  const keepsWidths = !fieldGate && spec.dim === undefined;
  const all = spec.tables.length > 0 ? vectors(graph, spec, { dim, keepsWidths }) : undefined;
  const x = beside(graph, [graph.dense, all]);
  const taken =
    fieldGate && all !== undefined ? beside(graph, [graph.dense, withGate(graph, all, dim)]) : x;
  const a = block(graph, taken, { ...spec, name: "first", widths: first });
  if (second === undefined) return graph.finish(a, [ofLabel]);
  const b = block(graph, x, { ...spec, name: "second", widths: second });
  const taught = (task: string, logit: number): Objective => {
    return { task, logit, target: { of: "prediction", column: 0 }, weight: 1 };
  };
  const logits = concat(graph, [mean(graph, a, b), a, b]);
  return graph.finish(logits, [ofLabel, taught("first", 1), taught("second", 2)]);
}

function beside(graph: GraphBuilder, values: readonly (Value | undefined)[]): Value {
  return concat(
    graph,
    values.filter((value) => value !== undefined),
  );
}

/**
 * Concatenates the vectors and the vectors scaled by gates. The gate of a vector is a weighted sum
 * of all vectors, column by column, plus a learned number per vector; it starts at 1. Returns (2E).
 */
function withGate(graph: GraphBuilder, all: Value, dim: number): Value {
  const fields = sizeOf(all) / dim;
  const x = reshape(all, [fields, dim]);
  const weighed = fieldLinear(graph, x, { name: "gate", vectors: fields, scale: 0 });
  const bias = repeatColumns(graph, parameter(graph, "gate.bias", fields, 1), dim);
  return concat(graph, [x, mul(graph, x, sum(graph, weighed, bias))]);
}

interface BlockOptions extends Pick<FinalNetSpec, "dropout" | "batchNorm"> {
  readonly name: string;
  readonly widths: readonly number[];
}

/** The layers `name.l` of a block, then its logit (1). */
function block(graph: GraphBuilder, x: Value, options: BlockOptions): Value {
  const { name, widths } = options;
  const last = widths.reduce(
    (value, outputs, layer) => multiplied(graph, value, outputs, { ...options, layer }),
    x,
  );
  return linear(graph, last, { name: `logits.${name}`, outputs: 1 });
}

/**
 * Multiplies the halves of h = W x + b (O) and concatenates the first half with the product,
 * followed by batch normalisation, if the model has it, ReLU and dropout. Returns (O).
 */
function multiplied(
  graph: GraphBuilder,
  x: Value,
  outputs: number,
  { name, layer, dropout, batchNorm: isNormalised }: BlockOptions & { readonly layer: number },
): Value {
  const own = `${name}.${layer}`;
  const h = reshape(linear(graph, x, { name: own, outputs }), [1, outputs]);
  const count = outputs / 2;
  const kept = slice(graph, h, { first: 0, count });
  const times = mul(graph, slice(graph, h, { first: count, count }), kept);
  const made = concat(graph, [kept, times]);
  if (isNormalised !== true) return relu(graph, made, { dropout });
  return batchNorm(graph, made, { name: `${own}.norm`, relu: true, dropout });
}
