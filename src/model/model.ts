// The interface between models and the trainer. A model is a file that composes blocks into a
// graph; placement, exchange, checkpoints and planner see only the graph.

import { customGraph } from "./custom/custom-model.ts";
import { type Graph, GraphBuilder, type Value } from "./graph/graph.ts";
import { crossBlocks } from "./kinds/cross-network.ts";
import { dlrmBlocks } from "./kinds/dlrm.ts";
import { fieldBlocks } from "./kinds/field-layers.ts";
import { finalNetGraph } from "./kinds/final-net.ts";
import { firstOrderBlocks } from "./kinds/first-order.ts";
import { gateBlocks } from "./kinds/gates.ts";
import { multiTaskGraph } from "./kinds/multi-task.ts";
import { sequenceBlocks } from "./kinds/sequences.ts";
import { wukongBlocks } from "./kinds/wukong.ts";
import type { ModelSpec } from "./options.ts";

type Kind = ModelSpec["kind"];

interface Builder<Spec> {
  /** Builds the graph of a model with an empty builder. */
  build(graph: GraphBuilder, spec: Spec): Graph;
}

/** The graph of each kind of model; kinds/kinds.ts has the options. */
const builders: { readonly [Name in Kind]: Builder<Extract<ModelSpec, { kind: Name }>> } = {
  dlrm: oneLogit(dlrmBlocks),
  lr: oneLogit(firstOrderBlocks),
  fm: oneLogit(firstOrderBlocks),
  wideAndDeep: oneLogit(firstOrderBlocks),
  deepFm: oneLogit(firstOrderBlocks),
  dcnV2: oneLogit(crossBlocks),
  gdcn: oneLogit(crossBlocks),
  autoInt: oneLogit(fieldBlocks),
  xDeepFm: oneLogit(fieldBlocks),
  maskNet: oneLogit(gateBlocks),
  finalMlp: oneLogit(gateBlocks),
  finalNet: { build: finalNetGraph },
  din: oneLogit(sequenceBlocks),
  bst: oneLogit(sequenceBlocks),
  wukong: oneLogit(wukongBlocks),
  sharedBottom: { build: multiTaskGraph },
  mmoe: { build: multiTaskGraph },
  ple: { build: multiTaskGraph },
  esmm: { build: multiTaskGraph },
  custom: { build: customGraph },
};

/**
 * Builds the graph of a model. The graph depends only on the model's options and, for a custom
 * model, on its module. `axes`: for each feature, 0 if its lists are not deduplicated, else 1 + the
 * index of its deduplication group. Default: all 0. Axes do not change the parameters.
 */
export function graphOf(spec: ModelSpec, axes: readonly number[] = []): Graph {
  const builder: Builder<ModelSpec> = builders[spec.kind];
  return builder.build(new GraphBuilder(spec.dense, axes), spec);
}

/** The builder of a model kind with one output: the logit of a sample, trained on the label. */
function oneLogit<Spec>(blocksOf: (graph: GraphBuilder, spec: Spec) => Value): Builder<Spec> {
  return { build: (graph, spec) => graph.finish(blocksOf(graph, spec)) };
}
