// The interface between models and the trainer. A model is a file that composes blocks into a
// graph; placement, exchange, checkpoints and planner see only the graph.

import { crossBlocks } from "./cross-network.ts";
import { customGraph } from "./custom/custom-model.ts";
import { dlrmBlocks } from "./dlrm.ts";
import { fieldBlocks } from "./field-layers.ts";
import { finalNetBlocks } from "./final-net.ts";
import { firstOrderBlocks } from "./first-order.ts";
import { gateBlocks } from "./gates.ts";
import { type Graph, GraphBuilder, type Value } from "./graph/graph.ts";
import { multiTaskGraph } from "./multi-task.ts";
import type { MultiTaskSpec } from "./options/task-options.ts";
import type { ModelSpec } from "./options.ts";
import { sequenceBlocks } from "./sequence-layers.ts";
import { wukongBlocks } from "./wukong.ts";

/**
 * Builds the graph of a model: a function of its options alone, and of its module if it has one.
 * `axes`: for each feature 0, or 1 + the group of features with which its lists are deduplicated;
 * left out: all 0. Axes change no parameter.
 */
export function graphOf(spec: ModelSpec, axes: readonly number[] = []): Graph {
  if (spec.kind === "custom") return customGraph(spec, axes);
  const graph = new GraphBuilder(spec.dense, axes);
  if (spec.kind === "finalNet") {
    const { output, objectives } = finalNetBlocks(graph, spec);
    return graph.finish(output, objectives);
  }
  if ("tasks" in spec) return multiTaskGraph(graph, spec);
  return graph.finish(blocksOf(graph, spec));
}

/** Adds the blocks of the model. Returns its logit (1). */
function blocksOf(
  graph: GraphBuilder,
  spec: Exclude<ModelSpec, { kind: "custom" | "finalNet" } | MultiTaskSpec>,
): Value {
  switch (spec.kind) {
    case "dlrm":
      return dlrmBlocks(graph, spec);
    case "lr":
    case "fm":
    case "wideAndDeep":
    case "deepFm":
      return firstOrderBlocks(graph, spec);
    case "dcnV2":
    case "gdcn":
      return crossBlocks(graph, spec);
    case "autoInt":
    case "xDeepFm":
      return fieldBlocks(graph, spec);
    case "maskNet":
    case "finalMlp":
      return gateBlocks(graph, spec);
    case "din":
    case "bst":
      return sequenceBlocks(graph, spec);
    case "wukong":
      return wukongBlocks(graph, spec);
    default:
      return spec satisfies never;
  }
}
