// A multi-layer perceptron: linear layers with ReLU or Dice between them.

import type { GraphBuilder, Value } from "../graph/graph.ts";
import { batchNorm } from "./batch-norm.ts";
import { dice } from "./dice.ts";
import { linear } from "./linear.ts";

/** The activation after a hidden layer. */
export type Activation = "relu" | "dice";

/**
 * An MLP of the layers `name.0`, `name.1` …, with the given widths. An activation follows each
 * layer but the last, and the last too if `reluLast`. With `hasBatchNorm`, batch normalisation
 * `name.l.norm` comes before the activation; dropout comes after it. Dice has the parameter
 * `name.l.dice.alpha`.
 */
export function mlp(
  graph: GraphBuilder,
  x: Value,
  options: {
    readonly name: string;
    readonly widths: readonly number[];
    /** @default false */
    readonly reluLast?: boolean;
    /** Probability that a hidden unit is dropped in training. @default 0 */
    readonly dropout?: number;
    /** @default false */
    readonly hasBatchNorm?: boolean | undefined;
    /** @default "relu" */
    readonly activation?: Activation | undefined;
  },
): Value {
  const { name, widths, reluLast = false, hasBatchNorm = false } = options;
  return widths.reduce((value, outputs, layer) => {
    const isHidden = layer + 1 < widths.length || reluLast;
    const behind = { relu: isHidden, dropout: isHidden ? (options.dropout ?? 0) : 0 };
    const own = `${name}.${layer}`;
    if (isHidden && options.activation === "dice") {
      const made = linear(graph, value, { name: own, outputs });
      const soft = { name: `${own}.dice`, dropout: behind.dropout };
      return dice(
        graph,
        hasBatchNorm ? batchNorm(graph, made, { name: `${own}.norm` }) : made,
        soft,
      );
    }
    if (!isHidden || !hasBatchNorm) return linear(graph, value, { name: own, outputs, ...behind });
    const products = linear(graph, value, { name: own, outputs });
    return batchNorm(graph, products, { name: `${own}.norm`, ...behind });
  }, x);
}
