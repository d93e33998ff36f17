// Options of a model and its dense optimizer, and the builders for users.

import { z } from "zod";
import { visibleName } from "../data/options.ts";
import {
  adamOptions,
  type SparseOptimizerOptions,
  type TableOptions,
  tableOptions,
} from "../embedding/tables/options.ts";
import type { Written } from "../ports/written.ts";

const widths = z.array(z.int().min(1).max(65536)).max(32);

/** Lookups of a sample, over all features. */
const lookupsMax = 65_536;

/**
 * A categorical feature, apart from its table: several features may look one table up. A model
 * without features has one for each table.
 */
const featureOptions = z
  .strictObject({
    /** The column of the data that feeds the feature. */
    column: visibleName,
    /** Its name in the job. @default the column's */
    name: visibleName.optional(),
    /** The table of its rows. @default the column's name */
    table: visibleName.optional(),
    /**
     * How the rows of a bag become one vector. `none`: they do not; each id of a sequence, in the
     * order of the data, has a vector of its own. @default the table's pooling
     */
    pooling: z.enum(["sum", "mean", "none"]).optional(),
    /** With `pooling: "none"`, the ids of a sequence that count: the first ones. */
    maxLength: z.int().min(1).max(4096).optional(),
    /**
     * Vectors that the feature gives to the interaction, `model.dim` wide each: columns of a row
     * where the table is as wide as all of them, else a projection of a row. @default 1
     */
    vectors: z.int().min(1).max(64).optional(),
  })
  .superRefine(({ pooling, maxLength }, context) => {
    const refuse = (message: string) =>
      context.addIssue({ code: "custom", path: ["maxLength"], message, input: maxLength });
    if (pooling === "none" && maxLength === undefined) {
      refuse('the longest sequence, as `pooling` is "none"');
    }
    if (pooling !== "none" && maxLength !== undefined) {
      refuse('left out, unless `pooling` is "none"');
    }
  });

/** Features that become vectors together: their rows side by side are projected. */
const groupOptions = z.strictObject({
  name: visibleName,
  /** Names of pooled features. */
  features: z.array(visibleName).min(1),
  /** Vectors that the group gives to the interaction. */
  vectors: z.int().min(1).max(4096).default(1),
});

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
    /** The embedding tables; may be empty. Without `features`, each is one categorical feature. */
    tables: z.array(tableOptions).max(10_000).default([]),
    /** The categorical features, where they are not one for each table. */
    features: z.array(featureOptions).min(1).max(10_000).optional(),
    /** Features that are projected together. @default none */
    groups: z.array(groupOptions).max(1000).optional(),
    /**
     * Width of the vectors that interact. @default that of the bottom MLP's output, or of all
     * tables
     */
    dim: z.int().min(1).max(4096).optional(),
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
    for (const [i, table] of model.tables.entries()) {
      if (table.l2Scope === "table" && table.sharding !== "data-parallel") {
        refuse(
          ["tables", i, "l2Scope"],
          '"touched", unless the table\'s sharding is "data-parallel"',
        );
      }
    }
    const names = model.tables.map((table) => table.name);
    const twice = firstTwice(names);
    if (twice >= 0) refuse(["tables", twice, "name"], "a name that no other table has");
    if (model.dense > 0 && model.bottom.length === 0) {
      refuse(["bottom"], "at least one layer, as the model has dense features");
    }
    if (model.dense === 0 && model.bottom.length > 0) {
      refuse(["bottom"], "empty, as the model has no dense features");
    }
    if (model.dense === 0 && model.tables.length === 0) {
      refuse(["tables"], "at least one table, as the model has no dense features");
    }
    for (const { path, message } of widthProblems(model)) refuse(path, message);
    for (const { path, message } of featureProblems(model)) refuse(path, message);
    if ((model.top.at(-1) ?? 1) !== 1) refuse(["top", model.top.length - 1], "1: the logit");
  })
  .transform(({ table: _table, ...model }) => model);

type Checked = {
  readonly dense: number;
  readonly bottom: readonly number[];
  readonly interaction: string;
  readonly tables: readonly { readonly name: string; readonly dim: number }[];
  readonly features?: readonly z.output<typeof featureOptions>[] | undefined;
  readonly groups?: readonly z.output<typeof groupOptions>[] | undefined;
  readonly dim?: number | undefined;
};

interface Problem {
  readonly path: (string | number)[];
  readonly message: string;
}

/** Widths that do not fit together. Tables of several dims are projected, if `dots` need one. */
function widthProblems({ dense, bottom, interaction, tables, groups, dim }: Checked): Problem[] {
  const last = dense > 0 ? bottom.at(-1) : undefined;
  const [first] = tables;
  const isOneDim = tables.every((table) => table.dim === first?.dim);
  if (interaction === "cat" && groups === undefined && dim === undefined) return [];
  if (last !== undefined && dim !== undefined && last !== dim) {
    return [{ path: ["dim"], message: `left out, or the bottom's last width, ${last}` }];
  }
  if (dim !== undefined || first === undefined) return [];
  if (isOneDim && last !== undefined && last !== first.dim) {
    return [
      { path: ["bottom", bottom.length - 1], message: `the dim of the tables, ${first.dim}` },
    ];
  }
  if (!isOneDim && last === undefined) {
    const message = "the width of the vectors that interact, as the tables have several";
    return [{ path: ["dim"], message }];
  }
  return [];
}

/** Features, tables and groups that do not name each other. */
function featureProblems({ tables, features, groups = [] }: Checked): Problem[] {
  const problems: Problem[] = [];
  const add = (path: (string | number)[], message: string) => problems.push({ path, message });
  const names = new Set(tables.map(({ name }) => name));
  const used = new Set(features?.map(({ table, column }) => table ?? column));
  for (const [i, { column, table }] of (features ?? []).entries()) {
    if (names.has(table ?? column)) continue;
    const at = ["features", i, table === undefined ? "column" : "table"];
    add(at, `the name of a table of the model, or \`table\` beside it`);
  }
  if (features !== undefined) {
    const unused = tables.findIndex(({ name }) => !used.has(name));
    if (unused >= 0) add(["tables", unused, "name"], "a table that a feature looks up");
    const lookups = features.reduce((sum, { maxLength = 1 }) => sum + maxLength, 0);
    if (lookups > lookupsMax) {
      add(["features"], `at most ${lookupsMax} lookups a sample, positions of sequences included`);
    }
  }
  const all = features?.map(({ name, column }) => name ?? column) ?? [...names];
  const twice = firstTwice(all);
  if (features !== undefined && twice >= 0) {
    add(["features", twice, "name"], "a name that no other feature has");
  }
  const grouped = new Set<string>();
  for (const [i, group] of groups.entries()) {
    if (firstTwice(groups.map(({ name }) => name)) === i) {
      add(["groups", i, "name"], "a name that no feature and no other group has");
    }
    for (const [k, name] of group.features.entries()) {
      const feature = features?.[all.indexOf(name)];
      const path = ["groups", i, "features", k];
      if (!all.includes(name)) add(path, "the name of a feature");
      else if (grouped.has(name)) add(path, "a feature that is in no other group");
      else if (feature?.pooling === "none") add(path, "a feature that is pooled");
      else if (feature?.vectors !== undefined) add(path, "a feature without `vectors` of its own");
      grouped.add(name);
    }
  }
  return problems;
}

/** Index of the first name that an earlier one equals; -1: none. */
function firstTwice(names: readonly string[]): number {
  const seen = new Set<string>();
  return names.findIndex((name) => seen.size === seen.add(name).size);
}

/** A table of a model as a user writes it. What is left out is taken from the model's `table`. */
type TableEntry = Pick<TableOptions, "name"> & {
  [Option in keyof TableOptions]?: TableOptions[Option] | undefined;
};

/** A model as a user writes it. */
export type ModelOptions = Written<Omit<z.input<typeof modelOptions>, "tables">> & {
  readonly tables?: readonly TableEntry[] | undefined;
};
export type ModelSpec = z.output<typeof modelOptions>;
/** Options of a DLRM after their checks. */
export type DlrmSpec = ModelSpec;

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
