// Options that all models share: dense features, tables, the features that look them up, and how
// vectors are projected.

import { z } from "zod";
import { visibleName } from "../../data/column-name-options.ts";
import { type TableOptions, tableOptions } from "../../embedding/tables/options.ts";
import { checkOnce } from "../../ports/check-options.ts";
import type { Written } from "../../ports/written.ts";

/** Widths of the layers of an MLP. */
export const widths = z.array(z.int().min(1).max(65536)).max(32);

/** `bottom` of the kinds that have such an MLP. */
export const bottomWidths = widths
  .default([])
  .describe(
    "Widths of the bottom MLP's layers; ReLU after every layer. For `dlrm` and `wukong`, the last is the width of the vectors that interact.",
  );

/** `top` of the kinds that have such an MLP. */
export const topWidths = widths
  .min(1)
  .describe("Widths of the top MLP's layers; the last is 1. ReLU after every layer but the last.");

/** Most lookups of a sample, over all features. */
const lookupsMax = 65_536;

/** Encoder that turns a sequence into one vector, from its own ids alone (sequence-encoder.ts). */
const encoderOptions = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("attention"),
    heads: z
      .int()
      .min(1)
      .max(64)
      .default(1)
      .describe("Heads of the self-attention; each has an equal share of the table's columns."),
  }),
  z.strictObject({
    kind: z.literal("transformer"),
    blocks: z.int().min(1).max(16).default(1).describe("`transformer`: number of blocks."),
    heads: z
      .int()
      .min(1)
      .max(64)
      .default(1)
      .describe("Heads of a block's attention; each has an equal share of the table's columns."),
    hidden: z
      .int()
      .min(1)
      .max(65536)
      .optional()
      .describe(
        "`transformer`: columns of a block's hidden layer. Left out: as many as the table has.",
      ),
    dropout: z
      .number()
      .min(0)
      .max(0.95)
      .default(0)
      .describe(
        "`transformer`: dropout probability of the outputs of attention and layers in training; drawn once for all samples that share a deduplicated list.",
      ),
  }),
]);

/**
 * A categorical feature, as distinct from its table: several features may look up one table. A
 * model that lists no features has one for each table.
 */
export const featureOptions = z
  .strictObject({
    column: visibleName.describe("The column of the data with the feature's ids."),
    name: visibleName.optional().describe("Name of the feature. Left out: the column's name."),
    table: visibleName
      .optional()
      .describe("The table that the feature looks up. Left out: the table with the column's name."),
    pooling: z
      .enum(["sum", "mean", "none"])
      .optional()
      .describe(
        "`sum`, `mean`, or `none` for a sequence, in which each id keeps its own vector. Left out: the table's `pooling`.",
      ),
    maxLength: z
      .int()
      .min(1)
      .max(4096)
      .optional()
      .describe("With `pooling: none`: most ids of a sequence; further ids are ignored."),
    kept: z
      .enum(["first", "last"])
      .optional()
      .describe(
        "With `pooling: none`: which ids of a sequence longer than `maxLength` are used, its `first` or its `last`, in their order. Left out: the first.",
      ),
    vectors: z
      .int()
      .min(1)
      .max(64)
      .optional()
      .describe(
        "Number of vectors that the feature contributes to the interaction, by a projection. Left out: 1.",
      ),
    encoder: encoderOptions
      .optional()
      .describe(
        'With `pooling: "none"`: an encoder that turns the sequence into one vector. Left out: each id keeps its vector.',
      ),
  })
  .superRefine(({ pooling, maxLength, kept, vectors, encoder }, context) => {
    const refuse = (message: string) =>
      context.addIssue({ code: "custom", path: ["maxLength"], message, input: maxLength });
    if (pooling !== "none" && kept !== undefined) {
      const message = 'left out, unless `pooling` is "none"';
      context.addIssue({ code: "custom", path: ["kept"], message, input: kept });
    }
    if (encoder !== undefined && (pooling !== "none" || vectors !== undefined)) {
      const message = 'left out, unless `pooling` is "none" and `vectors` is left out';
      context.addIssue({ code: "custom", path: ["encoder"], message, input: encoder });
    }
    if (pooling === "none" && maxLength === undefined) {
      refuse('the longest sequence, as `pooling` is "none"');
    }
    if (pooling !== "none" && maxLength !== undefined) {
      refuse('left out, unless `pooling` is "none"');
    }
  });

checkOnce(featureOptions);

/** Most tables, and most features, of a model. */
export const tablesMax = 10_000;

/** Features that are projected together: their rows are concatenated and projected to vectors. */
const groupOptions = z.strictObject({
  name: visibleName.describe("Name of the group."),
  features: z
    .array(visibleName)
    .min(1)
    .describe("Names of the group's features, which must be pooled."),
  vectors: z
    .int()
    .min(1)
    .max(4096)
    .default(1)
    .describe("Number of vectors that the group contributes to the interaction."),
});

/** Options that every table of a model may share. */
export const sharedTableOptions = tableOptions.omit({ name: true }).partial();

/** Options of every model, besides its kind. */
export const commonOptions = {
  dense: z
    .int()
    .min(0)
    .max(65536)
    .default(0)
    .describe("Number of dense features of a sample. Left out: as many as the data has."),
  table: sharedTableOptions
    .optional()
    .describe(
      "Options of every table that the table itself leaves out. With `model.table` alone, each categorical column has a table.",
    ),
  tables: z
    .array(tableOptions)
    .max(tablesMax)
    .prefault([])
    .describe(
      "The embedding tables; may be empty. Without `model.features`, each table has one categorical feature.",
    ),
  features: z
    .array(featureOptions)
    .min(1)
    .max(tablesMax)
    .optional()
    .describe("The categorical features. Left out: one feature for each table."),
  groups: z
    .array(groupOptions)
    .max(1000)
    .optional()
    .describe("Groups of features whose concatenated rows are projected together to vectors."),
  dim: z
    .int()
    .min(1)
    .max(4096)
    .optional()
    .describe(
      "Width of the vectors that interact. Left out: the width of the bottom MLP's output, or of all tables.",
    ),
  dropout: z
    .number()
    .min(0)
    .max(0.95)
    .default(0)
    .describe(
      "Dropout probability of hidden units after the interaction, in training: in the top MLP, and in the MLPs of a Wukong's layers.",
    ),
  batchNorm: z
    .boolean()
    .optional()
    .describe(
      "`true`: batch normalisation, over the whole batch, of the hidden layers after the interaction, before their ReLU. Left out: none.",
    ),
  precision: z
    .enum(["float32", "bfloat16"])
    .default("float32")
    .describe(
      "Precision of matrix products: `float32`, or `bfloat16`: inputs, weights and gradients are rounded to bfloat16, and products are summed in float32. Stored weights stay float32. `bfloat16` is faster on processors with AVX512-BF16; a part of the arithmetic.",
    ),
};

/** The part of a model that features, their vectors and the checks of options read. */
export interface CheckedModel {
  readonly dense: number;
  readonly tables: readonly z.output<typeof tableOptions>[];
  readonly features?: readonly z.output<typeof featureOptions>[] | undefined;
  readonly groups?: readonly z.output<typeof groupOptions>[] | undefined;
  readonly dim?: number | undefined;
}

/** An option that contradicts another one. */
export interface Problem {
  readonly path: (string | number)[];
  /** The expectation that the option violates. */
  readonly message: string;
}

/** Contradictions that no model may have. */
export function commonProblems(model: CheckedModel): Problem[] {
  const problems: Problem[] = [];
  for (const [i, table] of model.tables.entries()) {
    if (table.l2Scope !== "table" || table.sharding === "data-parallel") continue;
    const message = '"touched" or "decayed", unless the table\'s sharding is "data-parallel"';
    problems.push({ path: ["tables", i, "l2Scope"], message });
  }
  const twice = firstTwice(model.tables.map((table) => table.name));
  if (twice >= 0) {
    problems.push({ path: ["tables", twice, "name"], message: "a name that no other table has" });
  }
  if (model.dense === 0 && model.tables.length === 0) {
    const message = "at least one table, as the model has no dense features";
    problems.push({ path: ["tables"], message });
  }
  return [...problems, ...featureProblems(model)];
}

/** Contradictions between a bottom MLP and the dense features, which are its input. */
export function bottomProblems(dense: number, bottom: readonly number[]): Problem[] {
  if (dense > 0 && bottom.length === 0) {
    return [{ path: ["bottom"], message: "at least one layer, as the model has dense features" }];
  }
  if (dense === 0 && bottom.length > 0) {
    return [{ path: ["bottom"], message: "empty, as the model has no dense features" }];
  }
  return [];
}

/** Contradictions of the top MLP, whose last layer gives the logit. */
export function topProblems(top: readonly number[]): Problem[] {
  if ((top.at(-1) ?? 1) === 1) return [];
  return [{ path: ["top", top.length - 1], message: "1: the logit" }];
}

/**
 * Contradictions where all vectors need one width: that of the bottom MLP's output, of `dim`, or of
 * all tables. Tables of several widths are projected.
 */
export function dimProblems(
  { tables, dim, dense }: CheckedModel,
  bottom: readonly number[],
): Problem[] {
  const last = dense > 0 ? bottom.at(-1) : undefined;
  const [first] = tables;
  const isOneDim = tables.every((table) => table.dim === first?.dim);
  if (last !== undefined && dim !== undefined && last !== dim) {
    return [{ path: ["dim"], message: `left out, or the bottom's last width, ${last}` }];
  }
  if (dim !== undefined || first === undefined) return [];
  if (isOneDim && last !== undefined && last !== first.dim) {
    const message = `the dim of the tables, ${first.dim}`;
    return [{ path: ["bottom", bottom.length - 1], message }];
  }
  if (!isOneDim && last === undefined) {
    const message = "the width of the vectors that interact, as the tables have several";
    return [{ path: ["dim"], message }];
  }
  return [];
}

/**
 * Contradictions between features, tables and groups: names that are missing, unused or duplicated.
 */
function featureProblems({ tables, features, groups = [] }: CheckedModel): Problem[] {
  const problems: Problem[] = [];
  const add = (path: (string | number)[], message: string) => problems.push({ path, message });
  const dims = new Map(tables.map(({ name, dim }) => [name, dim]));
  const used = new Set(features?.map(({ table, column }) => table ?? column));
  for (const [i, { column, table, encoder }] of (features ?? []).entries()) {
    const width = dims.get(table ?? column);
    if (encoder !== undefined && width !== undefined && width % encoder.heads !== 0) {
      add(["features", i, "encoder", "heads"], `a divisor of the columns of its table, ${width}`);
    }
    if (width !== undefined) continue;
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
  const all = features?.map(({ name, column }) => name ?? column) ?? [...dims.keys()];
  const twice = firstTwice(all);
  if (features !== undefined && twice >= 0) {
    add(["features", twice, "name"], "a name that no other feature has");
  }
  const grouped = new Set<string>();
  const featureAt = new Map(all.map((name, at) => [name, at]));
  const twiceGrouped = firstTwice(groups.map(({ name }) => name));
  for (const [i, group] of groups.entries()) {
    if (twiceGrouped === i) {
      add(["groups", i, "name"], "a name that no feature and no other group has");
    }
    for (const [k, name] of group.features.entries()) {
      const at = featureAt.get(name);
      const feature = at === undefined ? undefined : features?.[at];
      const path = ["groups", i, "features", k];
      if (at === undefined) add(path, "the name of a feature");
      else if (grouped.has(name)) add(path, "a feature that is in no other group");
      else if (feature?.pooling === "none") add(path, "a feature that is pooled");
      else if (feature?.vectors !== undefined) add(path, "a feature without `vectors` of its own");
      grouped.add(name);
    }
  }
  return problems;
}

/** Index of the first name that repeats an earlier name; -1: all names differ. */
export function firstTwice(names: readonly string[]): number {
  const seen = new Set<string>();
  return names.findIndex((name) => seen.size === seen.add(name).size);
}

/** A table of a model as a user writes it. Options left out are taken from the model's `table`. */
type TableEntry = Pick<TableOptions, "name"> & {
  [Option in keyof TableOptions]?: TableOptions[Option] | undefined;
};

/** A model as a user writes it, derived from the schema that checks it. */
export type ModelOptionsOf<Schema extends z.ZodType> = Written<Omit<z.input<Schema>, "tables">> & {
  readonly tables?: readonly TableEntry[] | undefined;
};
