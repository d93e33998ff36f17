// Options that name the columns of the data and the handling of their values, shared by every kind
// of data with named columns; and the options of columns that split the data.

import { z } from "zod";
import { character, visibleName } from "./column-name-options.ts";
import { expanded, inOrder } from "./transforms/order.ts";
import { problemsOf } from "./transforms/plan.ts";
import { type Transform, transformOptions } from "./transforms/transform-options.ts";

/**
 * Handling of a missing value in a dense column: 0; the mean of the training data; 0 plus an extra
 * dense feature that is 1 if the value is missing; or a bad line.
 */
const missingDense = z.literal([0, "mean", "indicator", "reject"]);
/** Handling of non-numeric text in a dense column: a missing value, or a bad line. */
const unreadableDense = z.enum(["missing", "reject"]);

const column = visibleName.describe("Name of the column.");

const denseColumn = z
  .union(
    [
      column,
      z.strictObject({
        column,
        log: z.boolean().default(false).describe("Use log(1 + max(x, 0)) instead of the value x."),
        missing: missingDense.optional().describe("As `data.missing`, for this column."),
        unreadable: unreadableDense.optional().describe("As `data.unreadable`, for this column."),
        decimalComma: z
          .boolean()
          .optional()
          .meta({ default: false })
          .describe("Whether text has decimal commas: `12,5` is 12.5."),
      }),
    ],
    {
      error:
        "the name of a column, or an object with `column` and perhaps `log`, `missing`, " +
        "`unreadable`, `decimalComma`",
    },
  )
  .transform((entry): DenseColumn => {
    return typeof entry === "string" ? { column: entry, log: false } : entry;
  });

/** A validated dense column. A missing property means its default. */
export interface DenseColumn {
  readonly column: string;
  readonly log: boolean;
  readonly missing?: z.output<typeof missingDense> | undefined;
  readonly unreadable?: z.output<typeof unreadableDense> | undefined;
  readonly decimalComma?: boolean | undefined;
}

/** Options of a column of ids, common to every kind of data. */
const categorical = {
  column,
  table: visibleName
    .optional()
    .describe(
      "Name of the table that has the column's rows. Left out: the column's name. Not allowed with `model.features`, which name the tables.",
    ),
  ids: z
    .enum(["hash", "integer"])
    .default("hash")
    .describe(
      "`hash`: the id is a hash of the field's text; `integer`: the id is the field, an integer, minus `offset`.",
    ),
  offset: z.int().default(0).describe("Subtracted from an integer field to get the id."),
  separator: character
    .optional()
    .describe("Character that separates the ids of a field. Left out: a field has one id."),
  weightSeparator: character
    .optional()
    .describe("Character between an id and its weight. Left out: ids have no weights."),
  missing: z
    .enum(["own", "empty", "reject"])
    .optional()
    .describe(
      "How a field without an id is read: `own`, as row 0, for hashed ids only; `empty`, as an empty bag; `reject`, as a bad line. Left out: `own` if a field has one hashed id, else `empty`.",
    ),
};

/** The options of a column of ids that are checked against each other. */
interface CategoricalRules {
  readonly ids: "hash" | "integer";
  readonly separator?: string | undefined;
  readonly weightSeparator?: string | undefined;
  readonly missing?: "own" | "empty" | "reject" | undefined;
}

function checkCategorical(entry: string | CategoricalRules, context: z.RefinementCtx): void {
  if (typeof entry === "string") return;
  const { ids, separator, weightSeparator, missing } = entry;
  const refuse = (path: string, message: string) => {
    context.addIssue({ code: "custom", path: [path], message, input: entry });
  };
  if (weightSeparator !== undefined && weightSeparator === separator) {
    refuse("weightSeparator", "another character than `separator`");
  }
  if (missing === "own" && ids !== "hash") {
    const why = "as each row may be the row of an id";
    refuse("missing", `"empty" or "reject" where \`ids\` is "integer", ${why}`);
  }
}

/** The options of a column of ids that is given by its name alone. */
function byName(name: string) {
  return { column: name, table: name, ids: "hash" as const, offset: 0 };
}

/**
 * Puts the properties into a fixed order, because the cache's name is a hash of their JSON text.
 */
function columnInOrder<
  Entry extends { readonly column: string; readonly table?: string | undefined },
>({ column: name, table = name, ...rest }: Entry) {
  return { column: name, table, ...rest };
}

/** A column of ids in text. */
export const categoricalColumn = z
  .union([column, z.strictObject(categorical)], {
    error:
      "the name of a column, or an object with `column` and perhaps `table`, `ids`, `offset`, " +
      "`separator`, `weightSeparator`, `missing`",
  })
  .superRefine(checkCategorical)
  .transform((entry) => (typeof entry === "string" ? byName(entry) : columnInOrder(entry)));

/** A column of ids in files that have lists. */
export const listColumn = z
  .union(
    [
      column,
      z.strictObject({
        ...categorical,
        list: z
          .enum(["plain", "weighted"])
          .optional()
          .describe(
            "Parquet, Arrow and JSON Lines: `plain`, a row has a list of ids; `weighted`, a row has ids with weights, as a map or a list of pairs. Left out: a row has one id.",
          ),
      }),
    ],
    {
      error:
        "the name of a column, or an object with `column` and perhaps `table`, `ids`, `offset`, " +
        "`list`, `separator`, `weightSeparator`, `missing`",
    },
  )
  .superRefine(checkCategorical)
  .superRefine((entry, context) => {
    if (typeof entry === "string" || entry.list === undefined) return;
    for (const option of ["separator", "weightSeparator"] as const) {
      if (entry[option] === undefined) continue;
      const message = "left out beside `list`, whose entries are not text to be split";
      context.addIssue({ code: "custom", path: [option], message, input: entry[option] });
    }
  })
  .transform((entry) => (typeof entry === "string" ? byName(entry) : columnInOrder(entry)));

const value = z
  .union([z.number(), z.string().min(1), z.boolean()], { error: "a number, a text, true or false" })
  .refine((one) => !Number.isInteger(one) || Number.isSafeInteger(one), {
    error: "an integer beyond 2^53 as text: as a number it may have been rounded",
  });

/** A predicate: the values of a column that a row must have to be read. */
export const predicate = z
  .strictObject({
    /** A column of the files, or a key of their partitions. */
    column,
    equals: value.optional().describe("Select rows with this value."),
    in: z
      .array(value)
      .min(1)
      .max(100_000)
      .optional()
      .describe("Select rows with any of these values."),
    from: value.optional().describe("Select rows whose value is at least this."),
    until: value.optional().describe("Select rows whose value is less than this."),
  })
  .refine(({ column: _, ...rest }) => Object.values(rest).some((one) => one !== undefined), {
    error: "a column with `equals`, `in`, `from` or `until`",
  });

/** Most labels of a sample; each task has one. */
export const labelsMax = 16;

const labelColumnsAre = `the name of a column, or a list of up to ${labelsMax} different ones`;
const labelColumns = z
  .union(
    [
      column,
      z
        .array(column)
        .min(1)
        .max(labelsMax)
        .refine((names) => new Set(names).size === names.length, { error: labelColumnsAre }),
    ],
    { error: labelColumnsAre },
  )
  .transform((names) =>
    typeof names === "object" && names.length === 1 ? (names[0] ?? "") : names,
  );

/** A label value in a job file. A number matches every text that denotes the same number. */
const label = z.union([z.string().min(1), z.number(), z.boolean()]);

/** Handling of a missing label value; left out, the line is bad. */
export const missingLabel = z.enum(["mask", "negative"]);

export type MissingLabel = z.output<typeof missingLabel>;

/** Handling of missing label values, by the label's name. */
export const missingLabels = z
  .record(visibleName, missingLabel)
  .optional()
  .describe(
    "How a missing label is handled, by the label's name: `mask`, its task has no loss and no metric on the row; `negative`, the label is 0. Left out: as `missing` of the model's task, else the line is bad.",
  );

/** Options for columns other than categorical features. */
export const named = {
  label: labelColumns.describe(
    "Column of the label, or a list of columns, one for each task. Values: 0 and 1, true and false, or -1 and 1.",
  ),
  weight: column.optional().describe("Column with the weight of each sample's loss."),
  group: column
    .optional()
    .describe(
      "Column of a sample's group, for example a user's id: GAUC ranks a sample only within its group.",
    ),
  positive: z
    .union([label, z.array(label).min(1).max(1000)], {
      error: "a label, or a list of labels: text, numbers, true or false",
    })
    .optional()
    .describe(
      "The label that counts as positive, or a list of them; every other label is negative.",
    ),
  numericLabels: z
    .array(column)
    .min(1)
    .max(labelsMax)
    .optional()
    .describe(
      "Names of the labels that are any finite numbers; all other labels are classes. Left out: the labels that are trained by `mse`.",
    ),
  missingLabels,
  labelAsFeature: z
    .boolean()
    .default(false)
    .describe(
      "Whether a column of a label may also be a feature. A feature that contains the label makes metrics useless.",
    ),
  missing: missingDense
    .optional()
    .meta({ default: 0 })
    .describe(
      "How a missing value of a dense column is read: `0`; `mean`, as the mean of the training data; `indicator`, as 0, with an additional dense feature that is 1 if the value is missing; `reject`, as a bad line.",
    ),
  unreadable: unreadableDense
    .optional()
    .meta({ default: "reject" })
    .describe(
      "How text that is not a number is read in a dense column: `reject`, as a bad line; `missing`, as a missing value.",
    ),
  dense: z
    .array(denseColumn)
    .max(65_536)
    .default([])
    .describe("Columns of the dense features: names, or objects with options of the column."),
};

/** The section's defaults for dense columns, which a column's own options override. */
interface DenseRules {
  readonly dense: readonly DenseColumn[];
  readonly missing?: DenseColumn["missing"];
  readonly unreadable?: DenseColumn["unreadable"];
  readonly transforms?: readonly Transform[] | undefined;
}

/**
 * Moves the section's defaults into its dense columns. Default values are left out, so that a job
 * that sets none keeps the cache name of releases without these options.
 */
export function withColumnRules<Section extends DenseRules>(
  section: Section,
): Omit<Section, "missing" | "unreadable" | "dense"> & { readonly dense: DenseColumn[] } {
  const { missing, unreadable, dense, ...rest } = section;
  const columns = expanded(dense, section.transforms).map((own): DenseColumn => {
    const rules = { missing: own.missing ?? missing, unreadable: own.unreadable ?? unreadable };
    const { column, log, decimalComma } = own;
    return {
      column,
      log,
      ...(rules.missing === undefined || rules.missing === 0 ? {} : { missing: rules.missing }),
      ...(rules.unreadable === "missing" ? { unreadable: rules.unreadable } : {}),
      ...(decimalComma === true ? { decimalComma } : {}),
    };
  });
  return { ...rest, dense: columns };
}

const moment = z.union([z.number(), z.string().min(1)], {
  error: "a number, or an ISO date as text: 2024-01-31, 2024-01-31T12:00:00Z",
});

/** Schema of `evaluation.split`. */
export const splitOptions = z.discriminatedUnion("kind", [
  /** The last lines are held out, in the order of the files. */
  z.strictObject({ kind: z.literal("order") }),
  z.strictObject({
    kind: z.literal("time"),
    column: visibleName.describe(
      "`time`, `hash`: the column that splits the data; it may or may not be a feature.",
    ),
    from: moment
      .optional()
      .describe(
        "`time`: validation has the rows from this time on, a number or an ISO date. Left out: the latest rows, as many as `evaluation.fraction` says.",
      ),
    testFrom: moment.optional().describe("`time`: the test has the rows from this time on."),
  }),
  z.strictObject({
    kind: z.literal("hash"),
    column: visibleName.describe(
      "`hash`: rows with the same value of this column are in the same part; it may or may not be a feature.",
    ),
    salt: z
      .int()
      .min(0)
      .max(0xffff_ffff)
      .default(0)
      .describe("`hash`: seed of the hash; another seed gives other parts."),
  }),
]);

/** The validated option. */
export type SplitSpec = z.output<typeof splitOptions>;

/**
 * Schema of `data.transforms`. It sorts the entries into a canonical order, each after those that
 * it reads, so that jobs that differ only in the order of entries are the same job.
 */
export const transformsOptions = z
  .array(transformOptions)
  .min(1)
  .max(65_536)
  .superRefine((transforms, context) => {
    for (const { path, error, input: given } of problemsOf(transforms)) {
      context.addIssue({ code: "custom", path, message: error, input: given });
    }
  })
  .transform(inOrder);

/** Of Parquet, Arrow and generated data. */
export const streamed = z
  .boolean()
  .optional()
  .describe(
    "Parquet, Arrow and generated data: `true` makes the samples anew in every epoch, and keeps only an index instead of a cache.",
  );

/** Of Parquet alone, whose footers have statistics. */
export const startEarly = z
  .boolean()
  .optional()
  .describe(
    "Parquet without a cache: `true`: training begins as soon as the files of the first steps are indexed, if the footers prove the number of samples; `false`: when all files are. The model is the same. Left out: `true` with 1 GiB of files or more to index.",
  );

/** The limit of the ranges of remote files. */
export const remoteBytesMax = z
  .int()
  .min(0)
  .optional()
  .describe(
    "Parquet and Arrow without a cache, on servers: limit in bytes of the ranges of files that each host keeps beside its index. `0`: none. Left out: a quarter of the free disk.",
  );
