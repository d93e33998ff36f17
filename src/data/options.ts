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
};

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
      }),
    ],
    { error: "the name of a column, or an object with `column` and perhaps `log`" },
  )
  .transform((entry) => (typeof entry === "string" ? { column: entry, log: false } : entry));

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
      }),
    ],
    {
      error:
        "the name of a column, or an object with `column` and perhaps `table`, `ids`, `offset`, " +
        "`separator`, `weightSeparator`",
    },
  )
  .refine(
    (entry) =>
      typeof entry === "string" ||
      entry.weightSeparator === undefined ||
      entry.weightSeparator !== entry.separator,
    { path: ["weightSeparator"], error: "another character than `separator`" },
  )
  .transform((entry) => {
    if (typeof entry !== "string") return { ...entry, table: entry.table ?? entry.column };
    return { column: entry, table: entry, ids: "hash" as const, offset: 0 };
  });

const criteoTsvOptions = z
  .strictObject({ kind: z.literal("criteo-tsv"), ...text })
  .superRefine(refuseTwoSpellings)
  .transform(withPasses);

const csvOptions = z
  .strictObject({
    kind: z.literal("csv"),
    ...text,
    /** Column of the label, 0 or 1. */
    label: column,
    /** Columns of the dense features. @default [] */
    dense: z.array(denseColumn).max(65_536).default([]),
    /** Columns of the categorical features; each feeds one table. @default [] */
    categorical: z.array(categoricalColumn).max(65_536).default([]),
    /** @default "," */
    delimiter: character.default(","),
  })
  .superRefine(refuseTwoSpellings)
  .transform(withPasses);

/** Schema of generated data. */
export const syntheticOptions = z
  .strictObject({
    kind: z.literal("synthetic"),
    ...common,
    samples: z.int().min(1).max(0xffff_ffff),
    /** Dense features. @default 13 */
    dense: z.int().min(0).max(65_536).default(13),
    /** Exponent of the ids' popularity: 0 is uniform. Id 0 is the most popular. @default 1.05 */
    zipf: z.number().min(0).max(10).default(1.05),
    /** Ids of a bag: exactly this many, or between `min` and `max`. @default 1 */
    idsPerBag: z
      .union([
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
      ])
      .default({ min: 1, max: 1 }),
    /** Weight of each id in its bag: uniform between 0 and 2. @default none: weight 1 */
    weights: z.literal("uniform").optional(),
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

/** The data section's view of a table of the model. */
export interface TableShape {
  readonly name: string;
  readonly rows: number;
  /** Bits of the table's ids in the data. @default 32 */
  readonly idBits?: 32 | 64 | undefined;
}

function isSeparator(value: string): boolean {
  return value.length === 1 && value.charCodeAt(0) < 128 && !'"\r\n'.includes(value);
}
