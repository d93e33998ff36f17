// Options of models of all architectures and of the dense optimizer, and builders for users.

import { z } from "zod";
import {
  adagradOptions,
  adamOptions,
  emaOptions,
  type SparseOptimizerOptions,
  schedule,
} from "../embedding/tables/options.ts";
import type { ModelOptionsOf } from "./kinds/common-options.ts";
import { kinds, type ModelKind } from "./kinds/kinds.ts";

type KindName = keyof typeof kinds;
type KindSchema = (typeof kinds)[KindName]["options"];

/** A model as a user writes it, with optional fields. */
export type ModelOptions = {
  [Name in KindName]: ModelOptionsOf<(typeof kinds)[Name]["options"]>;
}[KindName];

/** A model, validated and with defaults filled in. */
export type ModelSpec = z.output<KindSchema>;

/** A spec after the options of `table` have been copied into `tables`. */
type WithoutTable<Spec> = Spec extends unknown ? Omit<Spec, "table"> : never;

/** The schema's type. An interface, so that types of larger schemas contain its name alone. */
export interface ModelSchema extends z.ZodType<WithoutTable<ModelSpec>, z.input<KindSchema>> {}

const schemas = Object.values(kinds).map(({ options }) => options);

/** The options of a model; `kind` selects the architecture. */
export const modelOptions: ModelSchema = z
  .discriminatedUnion("kind", schemas as [KindSchema, ...KindSchema[]])
  .superRefine((model, context) => {
    const kind: ModelKind<ModelSpec> = kinds[model.kind];
    for (const { path, message } of kind.problems(model)) {
      context.addIssue({ code: "custom", path, message });
    }
  })
  .transform(({ table: _table, ...model }) => model);

const rate = z.number().positive();

/**
 * Gradient clipping of all dense parameters together, before the optimizer: by Euclidean norm, or
 * by element (Pascanu et al. 2013). Left out: none.
 */
const clip = z
  .union(
    [
      z.strictObject({
        norm: rate.describe(
          "Largest Euclidean norm of the gradient of all dense parameters together; a larger gradient is scaled down.",
        ),
      }),
      z.strictObject({
        value: rate.describe(
          "Each element of the gradient of dense parameters is clamped to between -x and x.",
        ),
      }),
    ],
    {
      error: "one of `norm` and `value`, a number > 0",
    },
  )
  .optional()
  .describe(
    "Gradient clipping of all dense parameters, by Euclidean norm or by element. Left out: none.",
  );

export type ClipSpec = NonNullable<z.output<typeof clip>>;

/** The update rule of dense parameters. */
export const denseOptimizerOptions = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("sgd"),
    learningRate: rate.default(0.01).describe("Learning rate: the factor of an update."),
    momentum: z
      .number()
      .min(0)
      .lt(1)
      .default(0)
      .describe(
        "Momentum: share of the previous update's direction that is kept; as in PyTorch, without dampening.",
      ),
    schedule,
    clip,
    ema: emaOptions,
  }),
  z.strictObject({ kind: z.literal("adagrad"), ...adagradOptions, clip, ema: emaOptions }),
  z.strictObject({ kind: z.literal("adam"), ...adamOptions, clip, ema: emaOptions }),
  /** Norms are taken per named parameter: a weight, a bias. */
  z.strictObject({ kind: z.literal("lamb"), ...adamOptions, clip, ema: emaOptions }),
]);

export type DenseOptimizerOptions = z.input<typeof denseOptimizerOptions>;
export type DenseOptimizerSpec = z.output<typeof denseOptimizerOptions>;

type Rates<Kind extends string> = Omit<Extract<DenseOptimizerOptions, { kind: Kind }>, "kind">;
type RowRates<Kind extends string> = Omit<Extract<SparseOptimizerOptions, { kind: Kind }>, "kind">;

/**
 * Builds an optimizer for tables and dense layers; with options of dense optimizers, for dense
 * layers only.
 */
interface OptimizerOf<Kind extends "sgd" | "adagrad" | "adam" | "lamb"> {
  (options?: RowRates<Kind>): RowRates<Kind> & { kind: Kind };
  (options?: Rates<Kind>): Rates<Kind> & { kind: Kind };
}

function optimizerOf<Kind extends "sgd" | "adagrad" | "adam" | "lamb">(kind: Kind) {
  return ((options: Rates<Kind> | RowRates<Kind>) => ({ kind, ...options })) as OptimizerOf<Kind>;
}

/**
 * SGD: w -= learningRate * g; with momentum (dense layers only), g is the accumulated direction.
 */
export const sgd = optimizerOf("sgd");

/** Adagrad, element by element. */
export const adagrad = optimizerOf("adagrad");

/** Adagrad with one accumulator per row (FBGEMM's EXACT_ROWWISE_ADAGRAD); for tables. */
export const rowWiseAdagrad = (options: RowRates<"rowWiseAdagrad"> = {}) => ({
  kind: "rowWiseAdagrad" as const,
  ...options,
});

/** Adam with bias correction; on tables, only the rows of the batch are updated. */
export const adam = optimizerOf("adam");

/** Adam with decoupled weight decay (Loshchilov and Hutter 2019), 0.01 by default. */
export const adamW = ((options?: Rates<"adam">) => {
  return adam({ weightDecay: 0.01, ...options });
}) as OptimizerOf<"adam">;

/** Adam with one second moment per row (FBGEMM's PARTIAL_ROWWISE_ADAM); for tables. */
export const partialRowWiseAdam = (options: RowRates<"partialRowWiseAdam"> = {}) => ({
  kind: "partialRowWiseAdam" as const,
  ...options,
});

/**
 * LAMB (You et al. 2020): Adam's step, scaled by the norm of the weights of each row or parameter.
 */
export const lamb = optimizerOf("lamb");

/** LAMB with one second moment per row (FBGEMM's PARTIAL_ROWWISE_LAMB); for tables. */
export const partialRowWiseLamb = (options: RowRates<"partialRowWiseLamb"> = {}) => ({
  kind: "partialRowWiseLamb" as const,
  ...options,
});

/** FTRL-proximal (McMahan et al. 2013), for tables: `l1` sets weights with little support to 0. */
export const ftrl = (options: RowRates<"ftrl"> = {}) => ({ kind: "ftrl" as const, ...options });
