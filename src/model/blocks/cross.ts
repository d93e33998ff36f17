// Cross layers: each layer multiplies the output of the previous layer by the input, so that layer
// l holds interactions of order l+1 (DCN v2, Wang et al., arXiv 2008.13535; with gates: GDCN, Wang
// et al., arXiv 2311.04635).
//
// I = columns, R = rank.

import { checkShapes, type GraphBuilder, type Value } from "../graph/graph.ts";
import { mul, mulAdd, sigmoid } from "./elements.ts";
import { linear } from "./linear.ts";

export interface CrossOptions {
  /** Parameters of layer l begin with `name.l`. */
  readonly name: string;
  readonly layers: number;
  /**
   * R: a layer's weight is the product of matrices (I,R) and (R,I); undefined: one full matrix
   * (I,I).
   */
  readonly rank?: number | undefined;
  /** Whether each layer has a learned gate that scales each column by a factor from 0 to 1. */
  readonly hasGates: boolean;
}

/**
 * Applies x' = x0 * (W x + b) [* sigmoid(G x)] + x layer by layer, from x = x0 (I). Returns (I).
 */
export function crossLayers(graph: GraphBuilder, x0: Value, options: CrossOptions): Value {
  const { layers, rank, hasGates } = options;
  const [outputs = 0] = x0.shape;
  checkShapes(x0.shape.length === 1, "cross layers take a row", x0);
  let x = x0;
  for (let layer = 0; layer < layers; layer++) {
    const name = `${options.name}.${layer}`;
    const narrow =
      rank === undefined
        ? x
        : linear(graph, x, { name: `${name}.narrow`, outputs: rank, bias: false });
    const made = linear(graph, narrow, { name: `${name}.cross`, outputs });
    const gate = { name: `${name}.gate`, outputs, bias: false };
    x = hasGates
      ? mulAdd(graph, mul(graph, x0, made), sigmoid(graph, linear(graph, x, gate)), x)
      : mulAdd(graph, x0, made, x);
  }
  return x;
}
