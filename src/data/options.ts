// The job's data section: the source of samples, as plain data that crosses threads and NATS.

import { z } from "zod";
import { pathOption } from "../ports/option-schemas.ts";
import type { Written } from "../ports/written.ts";
import {
  cacheDirectory,
  refuseGlobalStream,
  refuseNoCache,
  refuseSplits,
  refuseTwoSpellings,
  refuseWrongFeatures,
  withPasses,
  withStream,
} from "./cache/option-rules.ts";
import { character, visibleName } from "./column-name-options.ts";
import {
  categoricalColumn,
  labelsMax,
  listColumn,
  missingLabels,
  named,
  predicate,
  remoteBytesMax,
  startEarly,
  streamed,
  transformsOptions,
  withColumnRules,
} from "./column-options.ts";
import { ikjtOptions } from "./sessions/ikjt-options.ts";
import {
  idsAround,
  idsPerBag,
  refuseManyTimed,
  sessionOptions,
} from "./synthetic/session-options.ts";

/** Options of every kind of data. */
const common = {
  batchSize: z
    .int()
    .min(1)
    .max(0x100_0000)
    .describe("Samples of a batch, which is one step on all devices together."),
  epochs: z
    .int()
    .min(1)
    .max(1_000_000)
    .optional()
    .meta({ default: 1 })
    .describe("Number of epochs: how often training reads all training data."),
  passes: z
    .int()
    .min(1)
    .max(1_000_000)
    .optional()
    .meta({ deprecated: true })
    .describe("The old spelling of `data.epochs`, which 0.1 still accepts."),
  shuffle: z
    .boolean()
    .default(true)
    .describe(
      "`true`: the samples have a new order in every epoch, which depends only on the seed; `false`: the order of the files.",
    ),
  order: z
    .enum(["global", "split", "sessions"])
    .optional()
    .describe(
      'How samples are shuffled. `"global"`: all samples together; `"split"`: splits, and the samples within the splits that are in memory, for data larger than memory; `"sessions"`: whole sessions, which `data.group` names. Left out: `"split"` if the cache of the training data has more than 256 MiB of samples, else `"global"`.',
    ),
  ikjt: ikjtOptions
    .optional()
    .describe(
      'Deduplicates feature lists that repeat over samples (IKJT): such a list is sent, looked up and trained once for all samples that have it; a part of the arithmetic. `"auto"` or groups of names are short for the section below.',
    ),
  cache: pathOption("data", z.string().min(1))
    .default(cacheDirectory)
    .describe(
      "Directory of the binary cache that a run makes of its data. `none`, only for Parquet, Arrow and generated data: no cache, as with `streamed: true`; the index is in the default directory.",
    ),
  cacheBytesMax: z
    .int()
    .min(1)
    .optional()
    .describe(
      "Limit in bytes of all caches in that directory. After a cache is made, the least recently used caches that no run uses are removed until the rest fits. A cache that alone exceeds the limit is an error.",
    ),
};

/** Options of every kind of files. */
const files = {
  ...common,
  paths: z
    .array(pathOption("data", z.string().min(1)))
    .min(1)
    .max(100_000)
    .describe(
      "Files of the data, read in this order: paths, or addresses (`https://…`, `s3://bucket/prefix/`). A directory means all its files (for Parquet and Arrow also those in its subdirectories), and a pattern such as `day-*.csv` all files that match when the job is submitted, sorted by name. Relative to the working directory of `osiris train` or of the cluster.",
    ),
  quarantineMax: z
    .int()
    .min(0)
    .max(100_000)
    .default(1000)
    .describe("Most bad lines or rows to keep with position and reason; all of them are counted."),
  rejectedMax: z
    .number()
    .min(0)
    .max(1)
    .default(0.01)
    .describe(
      "Largest share of lines or rows that may be bad; if more are bad, the run ends before training.",
    ),
};

export const criteoTsvOptions = z
  .strictObject({ kind: z.literal("criteo-tsv"), ...files })
  .superRefine(refuseTwoSpellings)
  .superRefine(refuseNoCache)
  .transform(withPasses);

const aboutCategorical =
  "Columns of the categorical features: names, or objects; left out, the names of `model.tables`.";
const transforms = transformsOptions
  .optional()
  .describe(
    "CSV, JSON Lines, Parquet and Arrow: transforms, each an operation that computes a new column from columns of the files or outputs of other transforms.",
  );

export const csvOptions = z
  .strictObject({
    kind: z.literal("csv"),
    ...files,
    ...named,
    categorical: z.array(categoricalColumn).max(65_536).default([]).describe(aboutCategorical),
    transforms,
    delimiter: character.default(",").describe("CSV only: character between fields."),
  })
  .superRefine(refuseTwoSpellings)
  .superRefine(refuseNoCache)
  .superRefine(refuseWrongFeatures)
  .transform(withPasses)
  .transform(withColumnRules);

/** Options of columnar files. */
const columnFiles = {
  ...files,
  ...named,
  categorical: z.array(listColumn).max(65_536).default([]).describe(aboutCategorical),
  where: z
    .array(predicate)
    .min(1)
    .max(64)
    .optional()
    .describe(
      "Parquet and Arrow: conditions, such as `[{ column: date, from: 2026-11-01 }]`; only rows that meet all of them are samples.",
    ),
  damagedMax: z
    .int()
    .min(0)
    .max(1_000_000)
    .default(0)
    .describe(
      "Parquet and Arrow: most damaged row groups, record batches and files that are left out and counted; one more ends the run. Their rows count towards `rejectedMax`.",
    ),
  transforms,
  streamed,
  remoteBytesMax,
};

export const arrowOptions = z
  .strictObject({ kind: z.literal("arrow"), ...columnFiles })
  .superRefine(refuseTwoSpellings)
  .superRefine(refuseWrongFeatures)
  .transform(withStream)
  .superRefine(refuseGlobalStream)
  .transform(withPasses)
  .transform(withColumnRules);

export const parquetOptions = z
  .strictObject({ kind: z.literal("parquet"), ...columnFiles, startEarly })
  .superRefine(refuseTwoSpellings)
  .superRefine(refuseWrongFeatures)
  .transform(withStream)
  .superRefine(refuseGlobalStream)
  .transform(withPasses)
  .transform(withColumnRules);

export const jsonLinesOptions = z
  .strictObject({
    kind: z.literal("jsonl"),
    ...files,
    ...named,
    categorical: z.array(listColumn).max(65_536).default([]).describe(aboutCategorical),
    transforms,
  })
  .superRefine(refuseTwoSpellings)
  .superRefine(refuseNoCache)
  .superRefine(refuseWrongFeatures)
  .transform(withPasses)
  .transform(withColumnRules);

/** Exponent of the ids' popularity: 0 is uniform. Id 0 is the most popular. */
const zipf = z.number().min(0).max(10);
/** Schema of generated data. */
export const syntheticOptions = z
  .strictObject({
    kind: z.literal("synthetic"),
    ...common,
    samples: z.int().min(1).max(0xffff_ffff).describe("Number of samples."),
    dense: z.int().min(0).max(65_536).default(13).describe("Number of dense features."),
    zipf: zipf.default(1.05).describe("Exponent of Zipf's law for all ids; 0: uniform."),
    idsPerBag: idsPerBag
      .default({ min: 1, max: 1 })
      .describe("Ids of a bag: a number, or a range. Left out: 1."),
    perFeature: z
      .record(
        visibleName,
        z.strictObject({
          zipf: zipf
            .optional()
            .describe(
              "Exponent of Zipf's law for this feature's ids. Left out: that of all features.",
            ),
          idsPerBag: z
            .union([idsPerBag, idsAround])
            .optional()
            .describe(
              "Ids of a bag of this feature: as `idsPerBag`, or `mean` and `spread`. Left out: those of all features.",
            ),
        }),
      )
      .optional()
      .describe(
        "Features with ids of their own distribution, by name (the table's name, unless `model.features` names features), such as `{ hot: { zipf: 1.3, idsPerBag: { mean: 40, spread: 0.5 } } }`: `zipf`, and `idsPerBag` as above or as a mean with a lognormal spread. Left out: all features are alike.",
      ),
    weights: z
      .literal("uniform")
      .optional()
      .describe("Weights of ids: `uniform` between 0 and 2. Left out: ids have no weights."),
    labels: z
      .int()
      .min(2)
      .max(labelsMax)
      .optional()
      .describe(
        "Number of labels of a sample, one for each task: `label`, `label2` … Left out: 1.",
      ),
    numericLabels: z
      .array(visibleName)
      .min(1)
      .max(labelsMax)
      .optional()
      .describe(
        "Names of the labels that are any finite numbers; all other labels are classes. Left out: the labels that are trained by `mse`.",
      ),
    missingLabels: missingLabels.describe(
      "Labels that a quarter of the samples lack, by name, with the handling of `missingLabels` of files: `mask` or `negative`. Left out: as `missing` of the model's tasks.",
    ),
    sampleWeights: z
      .literal("uniform")
      .optional()
      .describe("Weights of the samples' losses: `uniform` between 0 and 2. Left out: no weights."),
    groups: z
      .int()
      .min(1)
      .max(0xffff_ffff)
      .optional()
      .describe("Number of groups, which are equally likely for a sample. Left out: no groups."),
    sessions: sessionOptions
      .optional()
      .describe("Generates sessions of samples whose lists repeat. Left out: no sessions."),
    seed: z
      .int()
      .min(0)
      .default(1)
      .describe("Seed of the samples and of the true model; independent of the job's `seed`."),
    streamed,
    splitSamples: z
      .int()
      .min(32)
      .max(1_048_576)
      .multipleOf(32)
      .optional()
      .describe("With `streamed`: samples of a split, a multiple of 32. Left out: 8,192."),
  })
  .superRefine(refuseTwoSpellings)
  .transform(withStream)
  .superRefine(refuseGlobalStream)
  .superRefine(refuseSplits)
  .superRefine(refuseManyTimed)
  .transform(withPasses);

/** Schema of the job's data section. */
export const dataOptions = z.discriminatedUnion("kind", [
  arrowOptions,
  criteoTsvOptions,
  csvOptions,
  jsonLinesOptions,
  parquetOptions,
  syntheticOptions,
]);

/** The data section as a user writes it. */
export type DataOptions = Written<z.input<typeof dataOptions>>;
/** The data section after its checks: complete. */
export type ResolvedDataOptions = z.output<typeof dataOptions>;
export type ArrowOptions = Written<z.input<typeof arrowOptions>>;
export type CriteoTsvOptions = Written<z.input<typeof criteoTsvOptions>>;
export type CsvOptions = Written<z.input<typeof csvOptions>>;
export type JsonLinesOptions = Written<z.input<typeof jsonLinesOptions>>;
export type ParquetOptions = Written<z.input<typeof parquetOptions>>;
export type SyntheticOptions = Written<z.input<typeof syntheticOptions>>;
export type ResolvedArrowOptions = z.output<typeof arrowOptions>;
export type ResolvedCriteoTsvOptions = z.output<typeof criteoTsvOptions>;
export type ResolvedCsvOptions = z.output<typeof csvOptions>;
export type ResolvedJsonLinesOptions = z.output<typeof jsonLinesOptions>;
export type ResolvedParquetOptions = z.output<typeof parquetOptions>;
export type ResolvedSyntheticOptions = z.output<typeof syntheticOptions>;
/** Data in columnar files. */
export type ResolvedTableOptions = ResolvedArrowOptions | ResolvedParquetOptions;
/** Data whose columns the job names. */
export type ResolvedColumnOptions =
  | ResolvedCsvOptions
  | ResolvedTableOptions
  | ResolvedJsonLinesOptions;
/** Data in files. */
export type ResolvedFileOptions = ResolvedCriteoTsvOptions | ResolvedColumnOptions;
/** Data in text files. */
export type ResolvedTextOptions = Exclude<ResolvedFileOptions, ResolvedTableOptions>;
/** Bag lengths of generated data: a range, or a mean and a spread. */
export type BagLengths =
  | ResolvedSyntheticOptions["idsPerBag"]
  | { readonly mean: number; readonly spread: number };

/** Bag lengths and popularity of the ids of a generated feature. */
export function idsOfFeature(
  { idsPerBag: bags, zipf: exponent, perFeature = {}, sessions }: ResolvedSyntheticOptions,
  feature: string,
): { readonly idsPerBag: BagLengths; readonly zipf: number } {
  const own = Object.hasOwn(perFeature, feature) ? perFeature[feature] : undefined;
  const isInSessions = sessions !== undefined && Object.hasOwn(sessions.features, feature);
  const list = isInSessions ? sessions.features[feature]?.l : undefined;
  return { idsPerBag: list ?? own?.idsPerBag ?? bags, zipf: own?.zipf ?? exponent };
}

/** Mean number of ids of a bag. */
export function meanIdsOf(bags: BagLengths): number {
  return "mean" in bags ? bags.mean : (bags.min + bags.max) / 2;
}

/** The data section's view of a categorical feature of the model, and of its table. */
export interface TableShape {
  /** Name of the feature; equal to its table's name if the model names no features. */
  readonly name: string;
  /** The column that feeds the feature. @default the column that names the table */
  readonly column?: string | undefined;
  /**
   * Index of its table, which seeds the hash of text, so that features that share a table agree.
   * @default its own
   */
  readonly table?: number | undefined;
  readonly rows: number;
  /** Bits of the table's ids in the data. @default 32 */
  readonly idBits?: 32 | 64 | undefined;
  /** The table's policy for ids beyond its rows. @default "reject" */
  readonly ids?: "reject" | "clamp" | "hash" | undefined;
}
