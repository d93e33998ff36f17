// Options of a model and its dense optimizer, and the builders for users.

import { z } from "zod";
import {
  adamOptions,
  type SparseOptimizerOptions,
  type TableOptions,
  tableOptions,
} from "../embedding/tables/options.ts";
import type { Written } from "../ports/written.ts";

const widths = z.array(z.int().min(1).max(65536)).max(32);

/** Options that every table of a model may share. */
export const sharedTableOptions = tableOptions.omit({ name: true }).partial();

/**
 * A DLRM (Naumov et al., arXiv 1906.00091): bottom MLP over the dense features, embedding bags,
 * interaction of their vectors, top MLP to one logit.
 */
export const modelOptions = z
  .strictObject({
    kind: z.literal("dlrm"),
    /** Dense features of a sample; 0 for a model without them. */
    dense: z.int().min(0).max(65536).default(0),
    /** Options of every table that do not follow from its own; each column then has a table. */
    table: sharedTableOptions.optional(),
    /** One table for each categorical feature; may be empty. */
    tables: z.array(tableOptions).max(10_000).default([]),
    /** Widths of the bottom MLP's layers; the last is the tables' dim. ReLU after every layer. */
    bottom: widths.default([]),
    /** Widths of the top MLP's layers; the last is 1. ReLU after every layer but the last. */
    top: widths.min(1),
    /**
     * The input of the top MLP. `dot`: the bottom's output and the dot products of all pairs of
     * vectors; `cat`: all vectors side by side; `dot+cat`: both.
     */
    interaction: z.enum(["dot", "cat", "dot+cat"]).default("dot"),
    /** Probability that a hidden unit of the top MLP is dropped in training. */
    dropout: z.number().min(0).max(0.95).default(0),
    /**
     * Precision of inputs, weights and gradients in the layers' products. Sums, and the weights
     * that the optimizer updates, are always float32. A part of the arithmetic.
     */
    precision: z.enum(["float32", "bfloat16"]).default("float32"),
  })
  .superRefine((model, context) => {
    const refuse = (path: (string | number)[], message: string) =>
      context.addIssue({ code: "custom", path, message });
    const dim = model.tables[0]?.dim ?? model.bottom.at(-1);
    for (const [i, table] of model.tables.entries()) {
      if (table.dim !== dim) {
        refuse(["tables", i, "dim"], `the dim of every other table, ${dim}`);
      }
      if (table.l2Scope === "table" && table.sharding !== "data-parallel") {
        refuse(
          ["tables", i, "l2Scope"],
          '"touched", unless the table\'s sharding is "data-parallel"',
        );
      }
    }
    const names = model.tables.map((table) => table.name);
    const twice = names.findIndex((name, i) => names.indexOf(name) < i);
    if (twice >= 0) refuse(["tables", twice, "name"], "a name that no other table has");
    if (model.dense > 0 && model.bottom.length === 0) {
      refuse(["bottom"], "at least one layer, as the model has dense features");
    }
    if (model.dense === 0 && model.bottom.length > 0) {
      refuse(["bottom"], "empty, as the model has no dense features");
    }
    const last = model.bottom.at(-1) ?? dim;
    if (model.dense > 0 && model.tables.length > 0 && last !== dim) {
      refuse(["bottom", model.bottom.length - 1], `the dim of the tables, ${dim}`);
    }
    if (model.dense === 0 && model.tables.length === 0) {
      refuse(["tables"], "at least one table, as the model has no dense features");
    }
    if ((model.top.at(-1) ?? 1) !== 1) refuse(["top", model.top.length - 1], "1: the logit");
  })
  .transform(({ table: _table, ...model }) => model);

/** A table of a model as a user writes it. What is left out is taken from the model's `table`. */
type TableEntry = Pick<TableOptions, "name"> & {
  [Option in keyof TableOptions]?: TableOptions[Option] | undefined;
};

/** A model as a user writes it. */
export type ModelOptions = Written<Omit<z.input<typeof modelOptions>, "tables">> & {
  readonly tables?: readonly TableEntry[] | undefined;
};
export type ModelSpec = z.output<typeof modelOptions>;

/** A DLRM as plain data. */
export function dlrm(options: Omit<ModelOptions, "kind">): ModelOptions {
  return { kind: "dlrm", ...options };
}

const rate = z.number().positive();

/** The update rule of dense parameters. */
export const denseOptimizerOptions = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("sgd"),
    learningRate: rate.default(0.01),
    /** Share of the last step's direction that is kept; as in PyTorch, without dampening. */
    momentum: z.number().min(0).lt(1).default(0),
  }),
  z.strictObject({
    kind: z.literal("adagrad"),
    learningRate: rate.default(0.01),
    epsilon: rate.default(1e-8),
    initialAccumulator: z.number().min(0).default(0),
  }),
  z.strictObject({ kind: z.literal("adam"), ...adamOptions }),
  /** Norms are taken per named parameter: a weight, a bias. */
  z.strictObject({ kind: z.literal("lamb"), ...adamOptions }),
]);

export type DenseOptimizerOptions = z.input<typeof denseOptimizerOptions>;
export type DenseOptimizerSpec = z.output<typeof denseOptimizerOptions>;

type Rates<Kind extends string> = Omit<Extract<DenseOptimizerOptions, { kind: Kind }>, "kind">;
type RowRates<Kind extends string> = Omit<Extract<SparseOptimizerOptions, { kind: Kind }>, "kind">;

/** w -= learningRate * g; with momentum (for dense layers only), of the accumulated direction. */
export const sgd = (options: Rates<"sgd"> = {}) => ({ kind: "sgd" as const, ...options });

/** Adagrad, element by element. */
export const adagrad = (options: Rates<"adagrad"> = {}) => ({
  kind: "adagrad" as const,
  ...options,
});

/** Adagrad with one accumulator a row (FBGEMM's EXACT_ROWWISE_ADAGRAD); for tables. */
export const rowWiseAdagrad = (options: RowRates<"rowWiseAdagrad"> = {}) => ({
  kind: "rowWiseAdagrad" as const,
  ...options,
});

/** Adam with bias correction; on tables, only the rows of the batch are updated. */
export const adam = (options: Rates<"adam"> = {}) => ({ kind: "adam" as const, ...options });

/** Adam with decoupled weight decay (Loshchilov and Hutter 2019), 0.01 by default. */
export const adamW = (options: Rates<"adam"> = {}) => adam({ weightDecay: 0.01, ...options });

/** Adam with one second moment a row (FBGEMM's PARTIAL_ROWWISE_ADAM); for tables. */
export const partialRowWiseAdam = (options: RowRates<"partialRowWiseAdam"> = {}) => ({
  kind: "partialRowWiseAdam" as const,
  ...options,
});

/** LAMB (You et al. 2020): Adam's step at the scale of the weights, for each row or parameter. */
export const lamb = (options: Rates<"lamb"> = {}) => ({ kind: "lamb" as const, ...options });

/** LAMB with one second moment a row (FBGEMM's PARTIAL_ROWWISE_LAMB); for tables. */
export const partialRowWiseLamb = (options: RowRates<"partialRowWiseLamb"> = {}) => ({
  kind: "partialRowWiseLamb" as const,
  ...options,
});

/** FTRL-proximal (McMahan et al. 2013), for tables: `l1` sets weights with little evidence to 0. */
export const ftrl = (options: RowRates<"ftrl"> = {}) => ({ kind: "ftrl" as const, ...options });
