// The job's data section: the source of samples, as plain data that crosses threads and NATS.

import { z } from "zod";
import { pathOption } from "../ports/option-schemas.ts";
import type { Written } from "../ports/written.ts";
import { character, visibleName } from "./column-name-options.ts";
import {
  categoricalColumn,
  labelsMax,
  listColumn,
  named,
  predicate,
  withColumnRules,
} from "./column-options.ts";
import { ikjtOptions } from "./sessions/ikjt-options.ts";
import { idsAround, idsPerBag } from "./synthetic/bag-options.ts";
import { refuseManyTimed, sessionOptions } from "./synthetic/session-options.ts";
import { type FeatureSection, featureProblems } from "./transforms/features.ts";
import { transformsOptions } from "./transforms/transforms-options.ts";

const cacheDirectory = ".osiris/cache";

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
   * memory (docs/data.md); `sessions`: whole sessions, which `group` names, in any order. @default
   * "split" where the cache of the training data is above 256 MiB
   */
  order: z.enum(["global", "split", "sessions"]).optional(),
  /**
   * Features whose lists repeat over samples, which are then sent, looked up and trained once for
   * all samples that have them (docs/recd.md). A part of the arithmetic. @default none
   */
  ikjt: ikjtOptions.optional(),
  /** Directory of the cache; `none`: see `streamed`. @default ".osiris/cache" */
  cache: pathOption("data", z.string().min(1)).default(cacheDirectory),
  /**
   * Bytes of all caches in that directory: beyond them, those that no run has used for longest are
   * removed, never one in use. @default no limit
   */
  cacheBytesMax: z.int().min(1).optional(),
};

/** Options of every kind of files. */
const files = {
  ...common,
  /** Files, read in this order. Text is plain or gzip, told apart by its first bytes. */
  paths: z
    .array(pathOption("data", z.string().min(1)))
    .min(1)
    .max(100_000),
  /** Bad lines kept with position and reason; all bad lines are counted. @default 1000 */
  quarantineMax: z.int().min(0).max(100_000).default(1000),
  /** Largest share of lines that may be bad: above it the data is refused. @default 0.01 */
  rejectedMax: z.number().min(0).max(1).default(0.01),
};

const criteoTsvOptions = z
  .strictObject({ kind: z.literal("criteo-tsv"), ...files })
  .superRefine(refuseTwoSpellings)
  .superRefine(refuseNoCache)
  .transform(withPasses);

const csvOptions = z
  .strictObject({
    kind: z.literal("csv"),
    ...files,
    ...named,
    /** Columns of the categorical features; each feeds one table. @default [] */
    categorical: z.array(categoricalColumn).max(65_536).default([]),
    /** Columns that are made of those of the files, for features. @default none */
    transforms: transformsOptions.optional(),
    /** @default "," */
    delimiter: character.default(","),
  })
  .superRefine(refuseTwoSpellings)
  .superRefine(refuseNoCache)
  .superRefine(refuseWrongFeatures)
  .transform(withPasses)
  .transform(withColumnRules);

/** Options of files of columns. */
const columnFiles = {
  ...files,
  ...named,
  /** Columns of the categorical features; each feeds one table. @default [] */
  categorical: z.array(listColumn).max(65_536).default([]),
  /** Which rows are samples: those for which all of these hold. @default all rows */
  where: z.array(predicate).min(1).max(64).optional(),
  /** Row groups, record batches and files that may be damaged: they are left out. @default 0 */
  damagedMax: z.int().min(0).max(1_000_000).default(0),
  /** Columns that are made of those of the files, for features. @default none */
  transforms: transformsOptions.optional(),
  /**
   * Samples are made of the files whenever they are needed, and `cache` has an index alone, for
   * data that no disk holds twice (docs/data.md). `cache: none` says the same. @default false
   */
  streamed: z.boolean().optional(),
};

const arrowOptions = z
  .strictObject({ kind: z.literal("arrow"), ...columnFiles })
  .superRefine(refuseTwoSpellings)
  .superRefine(refuseWrongFeatures)
  .transform(withStream)
  .superRefine(refuseGlobalStream)
  .transform(withPasses)
  .transform(withColumnRules);

const parquetOptions = z
  .strictObject({ kind: z.literal("parquet"), ...columnFiles })
  .superRefine(refuseTwoSpellings)
  .superRefine(refuseWrongFeatures)
  .transform(withStream)
  .superRefine(refuseGlobalStream)
  .transform(withPasses)
  .transform(withColumnRules);

const jsonLinesOptions = z
  .strictObject({
    kind: z.literal("jsonl"),
    ...files,
    ...named,
    /** Columns of the categorical features; each feeds one table. @default [] */
    categorical: z.array(listColumn).max(65_536).default([]),
    /** Columns that are made of those of the files, for features. @default none */
    transforms: transformsOptions.optional(),
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
    /** Samples come in sessions, whose lists repeat (docs/sessions/recd.md). @default none */
    sessions: sessionOptions.optional(),
    /** Seed of samples and truth, independent of the job's. @default 1 */
    seed: z.int().min(0).default(1),
    /** Samples are generated whenever they are needed, as `streamed` of Parquet. @default false */
    streamed: z.boolean().optional(),
    /** Samples of a split, where they are streamed. @default 8192 */
    splitSamples: z.int().min(32).max(1_048_576).multipleOf(32).optional(),
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

/** The section with `cache: none` as what it means: a stream, and its index at the usual place. */
function withStream<Section extends { readonly cache: string }>(section: Section): Section {
  if (section.cache !== "none") return section;
  return { ...section, cache: cacheDirectory, streamed: true };
}

/** Any sample may follow any other only where all of them lie in a cache. */
function refuseGlobalStream(
  {
    streamed,
    order,
  }: { readonly streamed?: boolean | undefined; readonly order?: string | undefined },
  context: z.RefinementCtx,
): void {
  if (streamed !== true || order !== "global") return;
  const message = "`split` or left out, as samples without a cache are read piece by piece";
  context.addIssue({ code: "custom", path: ["order"], message, input: order });
}

/** Generated samples have splits of a size only where they are streamed. */
function refuseSplits(
  {
    streamed,
    splitSamples,
  }: { readonly streamed?: boolean | undefined; readonly splitSamples?: number | undefined },
  context: z.RefinementCtx,
): void {
  if (streamed === true || splitSamples === undefined) return;
  const message = "left out, or `cache: none` beside it: it cuts samples that have no cache";
  context.addIssue({ code: "custom", path: ["splitSamples"], message, input: splitSamples });
}

/** Only what has an index of its own can be read again without a cache. */
function refuseNoCache({ cache }: { readonly cache: string }, context: z.RefinementCtx): void {
  if (cache !== "none") return;
  const message =
    "a directory: only Parquet, Arrow and generated samples do without a cache, by `cache: none`";
  context.addIssue({ code: "custom", path: ["cache"], message, input: cache });
}

/** What of the features does not fit to the transforms that make them. */
function refuseWrongFeatures(section: FeatureSection, context: z.RefinementCtx): void {
  for (const { path, error, input } of featureProblems(section)) {
    context.addIssue({ code: "custom", path, message: error, input });
  }
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
/** Data that are files of columns. */
export type ResolvedTableOptions = ResolvedArrowOptions | ResolvedParquetOptions;
/** Data whose columns the job names. */
export type ResolvedColumnOptions =
  | ResolvedCsvOptions
  | ResolvedTableOptions
  | ResolvedJsonLinesOptions;
/** Data that are read from files. */
export type ResolvedFileOptions = ResolvedCriteoTsvOptions | ResolvedColumnOptions;
/** Data that are text. */
export type ResolvedTextOptions =
  | ResolvedCriteoTsvOptions
  | ResolvedCsvOptions
  | ResolvedJsonLinesOptions;

/** Ids of a bag of generated data. */
export type BagLengths =
  | ResolvedSyntheticOptions["idsPerBag"]
  | { readonly mean: number; readonly spread: number };

/** The bags and the popularity of the ids of a feature, generated. */
export function idsOfFeature(
  { idsPerBag: bags, zipf: exponent, perFeature = {}, sessions }: ResolvedSyntheticOptions,
  feature: string,
): { readonly idsPerBag: BagLengths; readonly zipf: number } {
  const own = Object.hasOwn(perFeature, feature) ? perFeature[feature] : undefined;
  const isInSessions = sessions !== undefined && Object.hasOwn(sessions.features, feature);
  const list = isInSessions ? sessions.features[feature]?.l : undefined;
  return { idsPerBag: list ?? own?.idsPerBag ?? bags, zipf: own?.zipf ?? exponent };
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
