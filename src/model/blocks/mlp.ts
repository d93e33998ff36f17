// A stack of linear layers with ReLU between them.

import type { GraphBuilder, Value } from "../graph/graph.ts";
import { linear } from "./linear.ts";

/**
 * The layers `name.0`, `name.1` … of these widths. Hidden units are dropped with probability
 * `dropout`. ReLU behind every layer but the last; behind that too, if `reluLast`.
 */
export function mlp(
  graph: GraphBuilder,
  x: Value,
  options: {
    readonly name: string;
    readonly widths: readonly number[];
    /** @default false */
    readonly reluLast?: boolean;
    /** @default 0 */
    readonly dropout?: number;
  },
): Value {
  const { name, widths, reluLast = false, dropout = 0 } = options;
  return widths.reduce((value, outputs, layer) => {
    const isHidden = layer + 1 < widths.length;
    return linear(graph, value, {
      name: `${name}.${layer}`,
      outputs,
      relu: isHidden || reluLast,
      dropout: isHidden ? dropout : 0,
    });
  }, x);
}
