// The kinds of models: the options of each, their contradictions, and its graph. A new kind is a
// file in this folder, a row of this table, and a builder in ../model-builders.ts.

import type { z } from "zod";
import { customGraph, customOptions, customProblems } from "../custom/custom-model.ts";
import type { Graph, GraphBuilder, Value } from "../graph/graph.ts";
import type { Problem } from "./common.ts";
import { crossBlocks, crossProblems, dcnV2Options, gdcnOptions } from "./cross-network.ts";
import { dlrmBlocks, dlrmOptions, dlrmProblems } from "./dlrm.ts";
import { autoIntOptions, fieldBlocks, fieldProblems, xDeepFmOptions } from "./field-layers.ts";
import { finalNetGraph, finalNetOptions, finalNetProblems } from "./final-net.ts";
import {
  deepFmOptions,
  firstOrderBlocks,
  firstOrderProblems,
  fmOptions,
  lrOptions,
  wideAndDeepOptions,
} from "./first-order.ts";
import { finalMlpOptions, gateBlocks, gateProblems, maskNetOptions } from "./gates.ts";
import {
  esmmOptions,
  mmoeOptions,
  multiTaskGraph,
  multiTaskProblems,
  pleOptions,
  sharedBottomOptions,
} from "./multi-task.ts";
import { bstOptions, dinOptions, sequenceBlocks, sequenceProblems } from "./sequences.ts";
import { wukongBlocks, wukongOptions, wukongProblems } from "./wukong.ts";

/** A kind of model with options of the type `Spec`. */
export interface ModelKind<Spec> {
  /** Schema of the options; its `kind` is the name in the table. */
  readonly options: z.ZodType;
  /** Finds options that contradict each other. */
  problems(spec: Spec): Problem[];
  /** Builds the graph with an empty builder. */
  build(graph: GraphBuilder, spec: Spec): Graph;
}

const firstOrder = { problems: firstOrderProblems, build: oneLogit(firstOrderBlocks) };
const cross = { problems: crossProblems, build: oneLogit(crossBlocks) };
const fields = { problems: fieldProblems, build: oneLogit(fieldBlocks) };
const gates = { problems: gateProblems, build: oneLogit(gateBlocks) };
const sequences = { problems: sequenceProblems, build: oneLogit(sequenceBlocks) };
const multiTask = { problems: multiTaskProblems, build: multiTaskGraph };

/** All kinds, in the order of the documentation. */
export const kinds = {
  dlrm: { options: dlrmOptions, problems: dlrmProblems, build: oneLogit(dlrmBlocks) },
  lr: { options: lrOptions, ...firstOrder },
  fm: { options: fmOptions, ...firstOrder },
  wideAndDeep: { options: wideAndDeepOptions, ...firstOrder },
  deepFm: { options: deepFmOptions, ...firstOrder },
  dcnV2: { options: dcnV2Options, ...cross },
  gdcn: { options: gdcnOptions, ...cross },
  autoInt: { options: autoIntOptions, ...fields },
  xDeepFm: { options: xDeepFmOptions, ...fields },
  maskNet: { options: maskNetOptions, ...gates },
  finalMlp: { options: finalMlpOptions, ...gates },
  finalNet: { options: finalNetOptions, problems: finalNetProblems, build: finalNetGraph },
  din: { options: dinOptions, ...sequences },
  bst: { options: bstOptions, ...sequences },
  wukong: { options: wukongOptions, problems: wukongProblems, build: oneLogit(wukongBlocks) },
  sharedBottom: { options: sharedBottomOptions, ...multiTask },
  mmoe: { options: mmoeOptions, ...multiTask },
  ple: { options: pleOptions, ...multiTask },
  esmm: { options: esmmOptions, ...multiTask },
  custom: { options: customOptions, problems: customProblems, build: customGraph },
} as const;

/** The `build` of a kind whose blocks give one logit (1), trained on the label. */
function oneLogit<Spec>(blocksOf: (graph: GraphBuilder, spec: Spec) => Value) {
  return (graph: GraphBuilder, spec: Spec): Graph => graph.finish(blocksOf(graph, spec));
}
