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
  batchSize: z.int().min(1).max(0x100_0000).describe("Samples of one step, over all devices."),
  epochs: z
    .int()
    .min(1)
    .max(1_000_000)
    .optional()
    .meta({ default: 1 })
    .describe("How often all data is read."),
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
    .describe("A new order in every epoch, as a function of the seed; else file order."),
  order: z
    .enum(["global", "split", "sessions"])
    .optional()
    .describe(
      '`"global"`: any sample may follow any other; `"split"`: in large pieces, for data larger than memory; `"sessions"`: whole sessions, which `data.group` names. Left out: `"split"` where the cache of the training data has more than 256 MiB of samples.',
    ),
  ikjt: ikjtOptions
    .optional()
    .describe(
      'Features whose lists repeat over samples, which are then sent, looked up and trained once for all samples that have them; a part of the arithmetic. `"auto"` or groups of names alone mean the section below.',
    ),
  cache: pathOption("data", z.string().min(1))
    .default(cacheDirectory)
    .describe(
      "Directory of the binary cache that files are turned into; `none`, of Parquet, Arrow and generated data alone, means `streamed: true` with the index in the usual directory.",
    ),
  cacheBytesMax: z
    .int()
    .min(1)
    .optional()
    .describe(
      "Bytes of all caches in that directory: when a cache was made, those that were not used for longest are removed until the rest fits, never one that a run uses; a cache that alone has more is refused.",
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
      "Files, read in this order, on a disk or a server (`https://…`, `s3://bucket/prefix/`: where files lie); a directory stands for its files, and of Parquet and Arrow for those in directories below it, too, `day-*.csv` for those that match, each sorted by name, as they are when the job is submitted; relative to the directory in which `osiris train` or the cluster was started.",
    ),
  quarantineMax: z
    .int()
    .min(0)
    .max(100_000)
    .default(1000)
    .describe(
      "Bad lines, or rows, that are kept with place and reason; all bad lines are counted.",
    ),
  rejectedMax: z
    .number()
    .min(0)
    .max(1)
    .default(0.01)
    .describe("Largest share of lines, or rows, that may be bad; above it nothing is trained."),
};

export const criteoTsvOptions = z
  .strictObject({ kind: z.literal("criteo-tsv"), ...files })
  .superRefine(refuseTwoSpellings)
  .superRefine(refuseNoCache)
  .transform(withPasses);

export const csvOptions = z
  .strictObject({
    kind: z.literal("csv"),
    ...files,
    ...named,
    categorical: z
      .array(categoricalColumn)
      .max(65_536)
      .default([])
      .describe(
        "Columns of the categorical features: names, or objects; left out, the names of `model.tables`.",
      ),
    transforms: transformsOptions
      .optional()
      .describe(
        "CSV, JSON Lines, Parquet and Arrow: columns that are made of those of the files; every op, with what it makes.",
      ),
    delimiter: character.default(",").describe("CSV alone: character between fields."),
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
  categorical: z
    .array(listColumn)
    .max(65_536)
    .default([])
    .describe(
      "Columns of the categorical features: names, or objects; left out, the names of `model.tables`.",
    ),
  where: z
    .array(predicate)
    .min(1)
    .max(64)
    .optional()
    .describe(
      "Parquet and Arrow: which rows are samples, as `[{ column: date, from: 2026-11-01 }]`: those for which all of these hold.",
    ),
  damagedMax: z
    .int()
    .min(0)
    .max(1_000_000)
    .default(0)
    .describe(
      "Parquet and Arrow: row groups, record batches and files whose bytes cannot be read, and which are left out and counted; one more ends the run, and their rows count towards `rejectedMax`.",
    ),
  transforms: transformsOptions
    .optional()
    .describe(
      "CSV, JSON Lines, Parquet and Arrow: columns that are made of those of the files; every op, with what it makes.",
    ),
  streamed: z
    .boolean()
    .optional()
    .describe(
      "Parquet, Arrow and generated data: `true` makes the samples whenever they are trained, and keeps an index instead of a cache.",
    ),
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
  .strictObject({ kind: z.literal("parquet"), ...columnFiles })
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
    categorical: z
      .array(listColumn)
      .max(65_536)
      .default([])
      .describe(
        "Columns of the categorical features: names, or objects; left out, the names of `model.tables`.",
      ),
    transforms: transformsOptions
      .optional()
      .describe(
        "CSV, JSON Lines, Parquet and Arrow: columns that are made of those of the files; every op, with what it makes.",
      ),
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
    samples: z.int().min(1).max(0xffff_ffff).describe("How many samples."),
    dense: z.int().min(0).max(65_536).default(13).describe("Number of dense features."),
    zipf: zipf.default(1.05).describe("Exponent of the ids' popularity; 0 is uniform."),
    idsPerBag: idsPerBag
      .default({ min: 1, max: 1 })
      .describe("Ids of a bag: a number, or a range; left out, 1."),
    perFeature: z
      .record(
        visibleName,
        z.strictObject({
          zipf: zipf
            .optional()
            .describe(
              "Exponent of the popularity of this feature's ids. Left out: that of all features.",
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
        "Features by name (a table's, unless `model.features` names them) with other ids than the rest, as `{ hot: { zipf: 1.3, idsPerBag: { mean: 40, spread: 0.5 } } }`: `zipf`, and `idsPerBag` as above or a mean with a lognormal spread; left out, all alike.",
      ),
    weights: z
      .literal("uniform")
      .optional()
      .describe("Weights of ids: `uniform` between 0 and 2; left out, none."),
    labels: z
      .int()
      .min(2)
      .max(labelsMax)
      .optional()
      .describe("Labels of a sample, one for each task: `label`, `label2` …; left out, one."),
    numericLabels: z
      .array(visibleName)
      .min(1)
      .max(labelsMax)
      .optional()
      .describe(
        "Labels that are any finite numbers, by name, also of generated data; left out, those that are trained by `mse`.",
      ),
    missingLabels: missingLabels.describe(
      "Labels of which a quarter is missing, by name, as the files' `missingLabels` have it; left out, what the tasks of the model say in `missing`.",
    ),
    sampleWeights: z
      .literal("uniform")
      .optional()
      .describe("Weights of the samples' losses: `uniform` between 0 and 2; left out, none."),
    groups: z
      .int()
      .min(1)
      .max(0xffff_ffff)
      .optional()
      .describe("Groups of samples, all as likely; left out, none."),
    sessions: sessionOptions
      .optional()
      .describe("Samples come in sessions, whose lists repeat. Left out: none."),
    seed: z.int().min(0).default(1).describe("Seed of samples and truth, apart from the job's."),
    streamed: z
      .boolean()
      .optional()
      .describe(
        "Parquet, Arrow and generated data: `true` makes the samples whenever they are trained, and keeps an index instead of a cache.",
      ),
    splitSamples: z
      .int()
      .min(32)
      .max(1_048_576)
      .multipleOf(32)
      .optional()
      .describe("Beside `streamed`: samples of a split, a multiple of 32; left out, 8,192."),
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
export type ResolvedTextOptions =
  | ResolvedCriteoTsvOptions
  | ResolvedCsvOptions
  | ResolvedJsonLinesOptions;

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
