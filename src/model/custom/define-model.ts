// The interface of a model's module: its default export, and the arguments of its `build`. It runs
// wherever the model's graph is made: in the process that checks the job, and in each device's
// thread.

import type { z } from "zod";
import type { Sequence } from "../blocks/sequences/sequence-mask.ts";
import type { GraphBuilder, Value } from "../graph/graph.ts";

/** The inputs of a model: dense features, and the vectors of its categorical features. */
export interface ModelFeatures {
  /** (dense features); undefined: the model has none. */
  readonly dense: Value | undefined;
  /** The categorical features by name, in the order of the job. */
  readonly names: readonly string[];
  /** The names of `model.tasks`, in their order; empty: the model has one logit. */
  readonly tasks: readonly string[];
  /**
   * Width of a vector: `model.dim`, or the common width of all tables; undefined: widths differ.
   */
  readonly dim: number | undefined;
  /**
   * The vectors of the features, (F, dim); a sequence contributes a vector for each position. A
   * model takes each feature once. A feature with rows of another width is projected. `first`: a
   * value to put before the vectors; its size must be a multiple of `dim`. `of`: take only these
   * features. `dim`: a width other than the model's.
   */
  vectors(options?: {
    readonly first?: Value;
    readonly of?: readonly string[];
    readonly dim?: number;
  }): Value;
  /**
   * The vectors (positions, dim) of a feature with `pooling: "none"`, with the length of each
   * sample's list: for `blocks.targetAttention` and `blocks.behaviorTransformer`.
   */
  sequence(name: string, options?: { readonly dim?: number }): Sequence;
  /** The rows of the features, concatenated, each as wide as its table. Returns (W). */
  rows(options?: { readonly first?: Value; readonly of?: readonly string[] }): Value;
}

/** The definition of a custom model, as `defineModel` takes it. */
export interface ModelDefinition<Schema extends z.ZodType> {
  /** Checks `model.options`. @default the model takes none */
  readonly options?: Schema;
  /**
   * Adds the model's blocks to the graph and returns the logit, one number; with `model.tasks`, one
   * logit for each task, in their order. Must depend on its arguments alone: it runs once for each
   * device, and must build the same graph each time.
   */
  build(graph: GraphBuilder, features: ModelFeatures, options: z.output<Schema>): Value;
}

/** What `defineModel` returns: the default export of a model's module. */
export interface DefinedModel extends ModelDefinition<z.ZodType> {
  readonly kind: "osiris.model";
}

/**
 * Defines a custom model, for `model: { kind: "custom", path, options }` in a job. The definition
 * is checked when a job or a checkpoint names the module.
 */
export function defineModel<Schema extends z.ZodType = z.ZodType<Record<string, never>>>(
  definition: ModelDefinition<Schema>,
): DefinedModel {
  return Object.freeze({ kind: "osiris.model", ...definition });
}

export function isDefinedModel(value: unknown): value is DefinedModel {
  const { kind, build } = (value ?? {}) as Partial<DefinedModel>;
  return kind === "osiris.model" && typeof build === "function";
}
