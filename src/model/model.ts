// The interface between models and the trainer. A model is a file that composes blocks into a
// graph; placement, exchange, checkpoints and planner see only the graph.

import { checkOptions } from "../ports/check-options.ts";
import { type Graph, GraphBuilder } from "./graph/graph.ts";
import { kinds, type ModelKind } from "./kinds/kinds.ts";
import { type ModelOptions, type ModelSpec, modelOptions } from "./options.ts";

/**
 * Builds the graph of a model: a function of its options alone, and of its module if it has one.
 * `axes`: for each feature 0, or 1 + the group of features with which its lists are deduplicated;
 * left out: all 0. Axes change no parameter.
 */
export function graphOf(spec: ModelSpec, axes: readonly number[] = []): Graph {
  const kind: ModelKind<ModelSpec> = kinds[spec.kind];
  return kind.build(new GraphBuilder(spec.dense, axes), spec);
}

/** The cost of a model per sample, without its tables, to compare architectures. */
export interface ModelSize {
  /** Floating-point operations of a sample's forward pass, two for each multiply-add. */
  readonly flops: number;
  /** Trained parameters outside of tables. */
  readonly denseParameters: number;
}

/** Computes the size of a model. @throws InvalidOptionError if its options are wrong */
export function modelSize(model: ModelOptions): ModelSize {
  const { products, layout } = graphOf(checkOptions(modelOptions, model, "model"));
  return { flops: 2 * products, denseParameters: layout.trained };
}
