// The job's data section: the source of samples, as plain data that crosses threads and NATS.

import { z } from "zod";
import type { Written } from "../ports/written.ts";

/** Options of every kind of data. */
const common = {
  /** Samples of one step, over all devices. */
  batchSize: z.int().min(1).max(0x100_0000),
  /** How often training goes through the data. @default 1 */
  epochs: z.int().min(1).max(1_000_000).optional().meta({ default: 1 }),
  /** @deprecated The old spelling of `epochs`; version 0.1 still accepts it. */
  passes: z.int().min(1).max(1_000_000).optional().meta({ deprecated: true }),
  /**
   * A different order in every epoch, a function of the job's seed; else file order. @default true
   */
  shuffle: z.boolean().default(true),
  /**
   * `global`: any sample may follow any other; `split`: in large pieces, for data larger than
   * memory (docs/data.md). @default "split" where the cache of the training data is above 256 MiB
   */
  order: z.enum(["global", "split"]).optional(),
  /** Directory of the binary cache. @default ".osiris/cache" */
  cache: z.string().min(1).default(".osiris/cache"),
  /**
   * Bytes of all caches in that directory: beyond them, those that no run has used for longest are
   * removed, never one in use. @default no limit
   */
  cacheBytesMax: z.int().min(1).optional(),
};

/** Options of every kind of text. */
const text = {
  ...common,
  /** Files, read in this order. Plain or gzip, told apart by their first bytes. */
  paths: z.array(z.string().min(1)).min(1).max(100_000),
  /** Bad lines kept with position and reason; all bad lines are counted. @default 1000 */
  quarantineMax: z.int().min(0).max(100_000).default(1000),
  /** Largest share of lines that may be bad: above it the data is refused. @default 0.01 */
  rejectedMax: z.number().min(0).max(1).default(0.01),
};

/**
 * What a missing value of a dense column becomes: 0, the mean of the training data, 0 with a dense
 * feature behind it that is 1 where the value is missing, or a bad line.
 */
const missingDense = z.literal([0, "mean", "indicator", "reject"]);
/** What text that is no number is in a dense column: a missing value, or a bad line. */
const unreadableDense = z.enum(["missing", "reject"]);

/** A name without control characters, which a terminal would take for commands. */
export const visibleName = z
  .string()
  .min(1)
  .regex(/^[ -~\u00a0-\uffff]+$/, "a name without control characters");
const column = visibleName;
const character = z.string().refine(isSeparator, {
  error: "one ASCII character that is no quote and no line break",
});

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
      }),
    ],
    {
      error:
        "the name of a column, or an object with `column` and perhaps `log`, `missing`, " +
        "`unreadable`",
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
}

const categoricalColumn = z
  .union(
    [
      column,
      z.strictObject({
        column,
        /** The table of the model. @default the column's name */
        table: visibleName.optional(),
        /** `hash`: any text; `integer`: the field minus `offset` is the id. @default "hash" */
        ids: z.enum(["hash", "integer"]).default("hash"),
        /** Subtracted from an integer field. @default 0 */
        offset: z.int().default(0),
        /** Splits a field into several ids. @default none: one id per field */
        separator: character.optional(),
        /**
         * The character between an id and its weight, as `:` in `12:0.5`. @default none: weight 1
         */
        weightSeparator: character.optional(),
        /**
         * What a field without an id becomes: `own`, row 0, which no text is hashed to; `empty`,
         * an empty bag; `reject`, a bad line. @default "own" for one hashed id, else "empty"
         */
        missing: z.enum(["own", "empty", "reject"]).optional(),
      }),
    ],
    {
      error:
        "the name of a column, or an object with `column` and perhaps `table`, `ids`, `offset`, " +
        "`separator`, `weightSeparator`, `missing`",
    },
  )
  .refine(
    (entry) =>
      typeof entry === "string" ||
      entry.weightSeparator === undefined ||
      entry.weightSeparator !== entry.separator,
    { path: ["weightSeparator"], error: "another character than `separator`" },
  )
  .refine((entry) => typeof entry === "string" || entry.missing !== "own" || entry.ids === "hash", {
    path: ["missing"],
    error: '"empty" or "reject" where `ids` is "integer", as each row may be the row of an id',
  })
  .transform((entry) => {
    if (typeof entry === "string") {
      return { column: entry, table: entry, ids: "hash" as const, offset: 0 };
    }
    // In the order in which it is read again: the name of the data's cache is a hash of this text.
    const { column: name, table = name, ...rest } = entry;
    return { column: name, table, ...rest };
  });

/** Most labels of a sample, one for each task. */
const labelsMax = 16;

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

const criteoTsvOptions = z
  .strictObject({ kind: z.literal("criteo-tsv"), ...text })
  .superRefine(refuseTwoSpellings)
  .transform(withPasses);

const csvOptions = z
  .strictObject({
    kind: z.literal("csv"),
    ...text,
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
    /** Columns of the categorical features; each feeds one table. @default [] */
    categorical: z.array(categoricalColumn).max(65_536).default([]),
    /** @default "," */
    delimiter: character.default(","),
  })
  .superRefine(refuseTwoSpellings)
  .transform(withPasses)
  .transform(withColumnRules);

/** Exponent of the ids' popularity: 0 is uniform. Id 0 is the most popular. */
const zipf = z.number().min(0).max(10);
/** Ids of a bag: exactly this many, between `min` and `max`, or drawn around a mean. */
const idsPerBag = z.union([
  z
    .int()
    .min(1)
    .max(65_535)
    .transform((ids) => ({ min: ids, max: ids })),
  z
    .strictObject({ min: z.int().min(0).max(65_535), max: z.int().min(1).max(65_535) })
    .refine(({ min, max }) => min <= max, {
      error: "a range whose `min` is at most its `max`",
    }),
]);
const idsAround = z.strictObject({
  mean: z.number().gt(0).max(10_000),
  /** Standard deviation of the length's logarithm: lengths are lognormal. @default 0 */
  spread: z.number().min(0).max(2).default(0),
});

/** Schema of generated data. */
export const syntheticOptions = z
  .strictObject({
    kind: z.literal("synthetic"),
    ...common,
    samples: z.int().min(1).max(0xffff_ffff),
    /** Dense features. @default 13 */
    dense: z.int().min(0).max(65_536).default(13),
    /** Exponent of the ids' popularity: 0 is uniform. Id 0 is the most popular. @default 1.05 */
    zipf: zipf.default(1.05),
    /** Ids of a bag: exactly this many, or between `min` and `max`. @default 1 */
    idsPerBag: idsPerBag.default({ min: 1, max: 1 }),
    /** Features by name whose ids differ from those of the others. @default none */
    perFeature: z
      .record(
        visibleName,
        z.strictObject({
          /** @default that of all features */
          zipf: zipf.optional(),
          /** As for all features, or `mean` and `spread`. @default that of all features */
          idsPerBag: z.union([idsPerBag, idsAround]).optional(),
        }),
      )
      .optional(),
    /** Weight of each id in its bag: uniform between 0 and 2. @default none: weight 1 */
    weights: z.literal("uniform").optional(),
    /** Labels of a sample, one for each task: `label`, `label2` … @default 1 */
    labels: z.int().min(2).max(labelsMax).optional(),
    /**
     * Labels that are numbers, by name: the true logit and normal noise. @default those that are
     * trained by the loss `mse`
     */
    numericLabels: z.array(visibleName).min(1).max(labelsMax).optional(),
    /** Weight of each sample's loss: uniform between 0 and 2. @default none: weight 1 */
    sampleWeights: z.literal("uniform").optional(),
    /** Groups of samples, all as likely. @default none */
    groups: z.int().min(1).max(0xffff_ffff).optional(),
    /** Seed of samples and truth, independent of the job's. @default 1 */
    seed: z.int().min(0).default(1),
  })
  .superRefine(refuseTwoSpellings)
  .transform(withPasses);

/** Schema of the job's data section. */
export const dataOptions = z.discriminatedUnion("kind", [
  criteoTsvOptions,
  csvOptions,
  syntheticOptions,
]);

/** Both spellings of `epochs`, as a user may have written them. */
interface Spellings {
  readonly epochs?: number | undefined;
  readonly passes?: number | undefined;
}

function refuseTwoSpellings({ epochs, passes }: Spellings, context: z.RefinementCtx): void {
  if (epochs === undefined || passes === undefined || epochs === passes) return;
  const message = `left out, as \`epochs\` is ${epochs} and \`passes\` is its old spelling`;
  context.addIssue({ code: "custom", path: ["passes"], message, input: passes });
}

/**
 * The section with the number of epochs under its old key, `passes`. job.json of every checkpoint
 * and the messages between hosts use the old key.
 */
function withPasses<Section extends Spellings>(
  section: Section,
): Omit<Section, "epochs" | "passes"> & { readonly passes: number } {
  const { epochs, passes, ...rest } = section;
  return { ...rest, passes: epochs ?? passes ?? 1 };
}

/** The rules of the section, which hold for each dense column without a rule of its own. */
interface DenseRules {
  readonly dense: readonly DenseColumn[];
  readonly missing?: DenseColumn["missing"];
  readonly unreadable?: DenseColumn["unreadable"];
}

/**
 * The section with its rules in its dense columns. A default is left out, so that a job which names
 * none has the identity of before there were rules.
 */
function withColumnRules<Section extends DenseRules>(
  section: Section,
): Omit<Section, "missing" | "unreadable" | "dense"> & { readonly dense: DenseColumn[] } {
  const { missing, unreadable, dense, ...rest } = section;
  const columns = dense.map((own): DenseColumn => {
    const rules = { missing: own.missing ?? missing, unreadable: own.unreadable ?? unreadable };
    const { column, log } = own;
    return {
      column,
      log,
      ...(rules.missing === undefined || rules.missing === 0 ? {} : { missing: rules.missing }),
      ...(rules.unreadable === "missing" ? { unreadable: rules.unreadable } : {}),
    };
  });
  return { ...rest, dense: columns };
}

/** The data section as a user writes it. */
export type DataOptions = Written<z.input<typeof dataOptions>>;
/** The data section after its checks: complete. */
export type ResolvedDataOptions = z.output<typeof dataOptions>;
export type CriteoTsvOptions = Written<z.input<typeof criteoTsvOptions>>;
export type CsvOptions = Written<z.input<typeof csvOptions>>;
export type SyntheticOptions = Written<z.input<typeof syntheticOptions>>;
export type ResolvedCriteoTsvOptions = z.output<typeof criteoTsvOptions>;
export type ResolvedCsvOptions = z.output<typeof csvOptions>;
export type ResolvedSyntheticOptions = z.output<typeof syntheticOptions>;

/** Ids of a bag of generated data. */
export type BagLengths =
  | ResolvedSyntheticOptions["idsPerBag"]
  | { readonly mean: number; readonly spread: number };

/** The bags and the popularity of the ids of a feature, generated. */
export function idsOfFeature(
  { idsPerBag: bags, zipf: exponent, perFeature = {} }: ResolvedSyntheticOptions,
  feature: string,
): { readonly idsPerBag: BagLengths; readonly zipf: number } {
  const own = Object.hasOwn(perFeature, feature) ? perFeature[feature] : undefined;
  return { idsPerBag: own?.idsPerBag ?? bags, zipf: own?.zipf ?? exponent };
}

/** Mean ids of a bag. */
export function meanIdsOf(bags: BagLengths): number {
  return "mean" in bags ? bags.mean : (bags.min + bags.max) / 2;
}

/** The data section's view of a categorical feature of the model, and of its table. */
export interface TableShape {
  /** Name of the feature; the same as its table's, where the model names no features. */
  readonly name: string;
  /** The column that feeds the feature. @default the column that names the table */
  readonly column?: string | undefined;
  /**
   * Index of its table: the seed of hashed text, so that features of a table agree. @default its
   * own
   */
  readonly table?: number | undefined;
  readonly rows: number;
  /** Bits of the table's ids in the data. @default 32 */
  readonly idBits?: 32 | 64 | undefined;
  /** The table's policy for ids beyond its rows. @default "reject" */
  readonly ids?: "reject" | "clamp" | "hash" | undefined;
}

function isSeparator(value: string): boolean {
  return value.length === 1 && value.charCodeAt(0) < 128 && !'"\r\n'.includes(value);
}
