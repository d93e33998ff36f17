// What a module of a model exports, and what its `build` is given. It runs wherever the model's
// graph is made: in the process that checks the job, and in each device's thread.

import type { z } from "zod";
import type { Sequence } from "../blocks/sequences/sequence-mask.ts";
import type { GraphBuilder, Value } from "../graph/graph.ts";

/** The inputs of a model: dense features, and the vectors of its categorical features. */
export interface ModelFeatures {
  /** (dense features); undefined: the model has none. */
  readonly dense: Value | undefined;
  /** The categorical features by name, in the order of the job. */
  readonly names: readonly string[];
  /** The names of `model.tasks`, in their order; none: the model has one logit. */
  readonly tasks: readonly string[];
  /** Width of a vector: `model.dim`, or that of all tables; undefined: the tables have several. */
  readonly dim: number | undefined;
  /**
   * (F, dim): the vectors of the features, each feature once in a model; of a sequence as many as
   * it has positions. A feature whose rows are of another width is projected. `first`: a value of
   * the model's own before them, of columns that `dim` divides. `of`: some features only. `dim`:
   * another width than the model's.
   */
  vectors(options?: {
    readonly first?: Value;
    readonly of?: readonly string[];
    readonly dim?: number;
  }): Value;
  /**
   * The vectors (positions, dim) of a feature with `pooling: "none"`, which knows where the ids of
   * a sample end: for `blocks.targetAttention` and `blocks.behaviorTransformer`.
   */
  sequence(name: string, options?: { readonly dim?: number }): Sequence;
  /** (W): the rows of the features side by side, each as wide as its table. */
  rows(options?: { readonly first?: Value; readonly of?: readonly string[] }): Value;
}

/** A model of the user's own, as `defineModel` takes it. */
export interface ModelDefinition<Schema extends z.ZodType> {
  /** Checks `model.options`. @default the model takes none */
  readonly options?: Schema;
  /**
   * Adds the blocks of the model to the graph and returns the logit, one number; with `model.tasks`
   * a logit for each of them, in their order. A function of its arguments alone: it runs once for
   * each device, and must build the same graph each time.
   */
  build(graph: GraphBuilder, features: ModelFeatures, options: z.output<Schema>): Value;
}

/** What `defineModel` returns: the default export of a model's module. */
export interface DefinedModel extends ModelDefinition<z.ZodType> {
  readonly kind: "osiris.model";
}

/** A model of the user's own, for `model: { kind: "custom", path, options }` in a job. */
export function defineModel<Schema extends z.ZodType = z.ZodType<Record<string, never>>>(
  definition: ModelDefinition<Schema>,
): DefinedModel {
  return Object.freeze({ kind: "osiris.model", ...definition });
}

export function isDefinedModel(value: unknown): value is DefinedModel {
  const { kind, build } = (value ?? {}) as Partial<DefinedModel>;
  return kind === "osiris.model" && typeof build === "function";
}
