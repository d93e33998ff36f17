// How a job names columns of its data, and says what becomes of their values: the same for every
// kind of data whose columns have names.

import { z } from "zod";
import { character, visibleName } from "./column-name-options.ts";
import { expanded } from "./transforms/order.ts";
import type { Transform } from "./transforms/transform-options.ts";

/**
 * What a missing value of a dense column becomes: 0, the mean of the training data, 0 with a dense
 * feature behind it that is 1 where the value is missing, or a bad line.
 */
const missingDense = z.literal([0, "mean", "indicator", "reject"]);
/** What text that is no number is in a dense column: a missing value, or a bad line. */
const unreadableDense = z.enum(["missing", "reject"]);

const column = visibleName;

const denseColumn = z
  .union(
    [
      column,
      z.strictObject({
        column,
        /** log(1 + max(x, 0)) instead of x. @default false */
        log: z.boolean().default(false),
        /** What a missing value becomes. @default the section's `missing` */
        missing: missingDense.optional(),
        /** What text that is no number is. @default the section's `unreadable` */
        unreadable: unreadableDense.optional(),
        /** Whether `12,5` is 12.5 in text. @default false */
        decimalComma: z.boolean().optional().meta({ default: false }),
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

/** A dense column after its checks; a rule that is left out is the default. */
export interface DenseColumn {
  readonly column: string;
  readonly log: boolean;
  readonly missing?: z.output<typeof missingDense> | undefined;
  readonly unreadable?: z.output<typeof unreadableDense> | undefined;
  readonly decimalComma?: boolean | undefined;
}

/** How a column of ids is read, in every kind of data. */
const categorical = {
  column,
  /** The table of the model. @default the column's name */
  table: visibleName.optional(),
  /** `hash`: any text; `integer`: the field minus `offset` is the id. @default "hash" */
  ids: z.enum(["hash", "integer"]).default("hash"),
  /** Subtracted from an integer field. @default 0 */
  offset: z.int().default(0),
  /** Splits a text into several ids. @default none: one id per field */
  separator: character.optional(),
  /**
   * The character between an id and its weight, as `:` in `12:0.5`. @default none: weight 1
   */
  weightSeparator: character.optional(),
  /**
   * What a field without an id becomes: `own`, row 0, which no text is hashed to; `empty`, an
   * empty bag; `reject`, a bad line. @default "own" for one hashed id, else "empty"
   */
  missing: z.enum(["own", "empty", "reject"]).optional(),
};

/** A column of ids of which some rules must hold together. */
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

/** A column of ids by its name alone. */
function byName(name: string) {
  return { column: name, table: name, ids: "hash" as const, offset: 0 };
}

/** In the order in which it is read again: the name of the data's cache is a hash of this text. */
function inOrder<Entry extends { readonly column: string; readonly table?: string | undefined }>({
  column: name,
  table = name,
  ...rest
}: Entry) {
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
  .transform((entry) => (typeof entry === "string" ? byName(entry) : inOrder(entry)));

/** A column of ids in files that have lists. */
export const listColumn = z
  .union(
    [
      column,
      z.strictObject({
        ...categorical,
        /**
         * `plain`: a list of ids; `weighted`: of ids with a weight each, a map or a list of pairs.
         * @default none: one id a row
         */
        list: z.enum(["plain", "weighted"]).optional(),
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
  .transform((entry) => (typeof entry === "string" ? byName(entry) : inOrder(entry)));

const value = z
  .union([z.number(), z.string().min(1), z.boolean()], { error: "a number, a text, true or false" })
  .refine((one) => !Number.isInteger(one) || Number.isSafeInteger(one), {
    error: "an integer beyond 2^53 as text: as a number it may have been rounded",
  });

/** Which values of a column are wanted. */
export const predicate = z
  .strictObject({
    /** A column of the files, or a key of their partitions. */
    column,
    /** The one value that is wanted. @default none */
    equals: value.optional(),
    /** The values that are wanted. @default none */
    in: z.array(value).min(1).max(100_000).optional(),
    /** The first value that is wanted: a number, a date as text, or text. @default none */
    from: value.optional(),
    /** The first value behind those that are wanted. @default none */
    until: value.optional(),
  })
  .refine(({ column: _, ...rest }) => Object.values(rest).some((one) => one !== undefined), {
    error: "a column with `equals`, `in`, `from` or `until`",
  });

/** Most labels of a sample, one for each task. */
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

/** A label as a job writes it; a number stands for every text of the same number. */
const label = z.union([z.string().min(1), z.number(), z.boolean()]);

/** The options by which a job names columns that are no ids. */
export const named = {
  /** Column of the label; of several labels, one for each task of the model. */
  label: labelColumns,
  /** Column of the weight of each sample's loss. @default none: weight 1 */
  weight: column.optional(),
  /**
   * Column of the group in which GAUC ranks a sample, as a user's id: the model is not told.
   * @default none
   */
  group: column.optional(),
  /**
   * The label, or labels, that count as positive; every other one is negative. @default none: 0
   * and 1, true and false, -1 and 1
   */
  positive: z
    .union([label, z.array(label).min(1).max(1000)], {
      error: "a label, or a list of labels: text, numbers, true or false",
    })
    .optional(),
  /**
   * Labels that are any finite numbers, not two classes: the names of their columns. @default
   * those that are trained by the loss `mse`
   */
  numericLabels: z.array(column).min(1).max(labelsMax).optional(),
  /** Whether the label's column may be a feature, too. @default false */
  labelAsFeature: z.boolean().default(false),
  /** What a missing value of a dense column becomes. @default 0 */
  missing: missingDense.optional().meta({ default: 0 }),
  /** What text that is no number is in a dense column. @default "reject" */
  unreadable: unreadableDense.optional().meta({ default: "reject" }),
  /** Columns of the dense features. @default [] */
  dense: z.array(denseColumn).max(65_536).default([]),
};

/** The rules of the section, which hold for each dense column without a rule of its own. */
interface DenseRules {
  readonly dense: readonly DenseColumn[];
  readonly missing?: DenseColumn["missing"];
  readonly unreadable?: DenseColumn["unreadable"];
  readonly transforms?: readonly Transform[] | undefined;
}

/**
 * The section with its rules in its dense columns. A default is left out, so that a job which names
 * none has the identity of before there were rules.
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
