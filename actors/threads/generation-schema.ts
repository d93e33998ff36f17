// The schema of a generation spec on the wire, with which a host validates it.

import { z } from "zod";
import type { ColumnValues } from "../../src/data/cache/cache-format.ts";
import type { DatasetPart } from "../../src/data/split.ts";
import { type JobSpec, jobOfText, readingJob } from "../../src/job/job.ts";
import { packedPlanSchema, shardPinSchema } from "../../src/planner/plan-file.ts";
import type { Steps } from "../../src/ports/turns.ts";
import { manifestSchema } from "../../storage/checkpoints/store/manifest.ts";

const count = z.int().min(0);

const dataContents = z.object({
  samples: count,
  digest: z.string(),
  version: count,
  earlyDigest: z.string().optional(),
  text: z.string().optional(),
  files: z.array(z.object({ path: z.string(), sha256: z.string() })).readonly(),
});

const datasetPart: z.ZodType<DatasetPart> = z.union([
  z.object({
    fraction: z.number(),
    testFraction: z.number().optional(),
    part: z.enum(["train", "heldOut", "test"]),
  }),
  z.object({
    by: z.enum(["place", "key"]),
    from: z.number().optional(),
    to: z.number().optional(),
  }),
]);

const datasetPlan = z.object({
  path: z.string(),
  /** Number of samples in the part that is read. */
  samples: count,
  /** The part of the file, if the file is split. */
  split: datasetPart.optional(),
});

/** A group of features, and whether deduplication of its lists pays (choose-groups.ts). */
export const groupChoice = z.object({
  /** Names of the features. */
  features: z.array(z.string()).readonly(),
  /** Ids (or lists) per distinct one: counted, and predicted by the formula of RecD. */
  factor: z.number(),
  predicted: z.number(),
  isChosen: z.boolean(),
});
export type GroupChoice = z.output<typeof groupChoice>;

/** A warning of a run: a stable code, and a message for a person. */
export const warningSchema = z.object({ code: z.string(), message: z.string() }).readonly();

/** One warning of a run. */
export type Warning = z.output<typeof warningSchema>;

/** A dataset that readers open: file, samples and part. */
export type DatasetPlan = z.output<typeof datasetPlan>;

/** Numbers of values of a column, and of those that share rows of its table. */
export const columnValues: z.ZodType<ColumnValues> = z.object({
  column: z.string(),
  feature: count.optional(),
  rows: count,
  samples: count,
  values: count,
  taken: count,
  shared: count,
  isEstimated: z.boolean().optional(),
});

/** Schema of `DataPlan` on the wire. */
export const dataPlanSchema = z.object({
  training: datasetPlan,
  evaluation: datasetPlan.optional(),
  /** The part evaluated once, when training has ended. */
  test: datasetPlan.optional(),
  /** Contents of the data; `evaluation`, `test`: only for separate data. */
  contents: z.object({
    training: dataContents,
    trained: count.optional(),
    evaluation: dataContents.optional(),
    test: dataContents.optional(),
    /** Set if the samples come in the split order. */
    splitSamples: z.int().min(1).optional(),
    splits: z
      .object({
        packed: z.string().optional(),
        derived: z.object({ count, digest: z.string() }).optional(),
        lanes: z.int().min(1),
        keepsOrder: z.boolean().optional(),
      })
      .optional(),
    /** Features whose lists are deduplicated together. */
    ikjt: z.array(z.array(count).readonly()).readonly().optional(),
  }),
  /**
   * Number of steps for which all files are indexed so far; host.preparing reports later progress.
   * Left out: all files are indexed.
   */
  indexedSteps: count.optional(),
  /** Measured groups of features whose lists may be deduplicated. */
  ikjt: z.array(groupChoice).readonly().optional(),
  /** Longest bag of each feature, over all datasets. */
  idsMax: z.array(count),
  /**
   * Mean ids of each feature in a sample, in sixteenths rounded up, of the data with the most; left
   * out if it is unknown, or if all bags are as long as the longest.
   */
  idsMean: z.array(z.number().min(0)).optional(),
  /** Means of the training data, by dense feature whose missing values are filled with the mean. */
  means: z.record(z.string(), z.number()).optional(),
  /** Number of quarantined lines, and the first of them. */
  quarantined: count,
  quarantine: z.array(
    z.object({
      file: z.string(),
      line: count,
      rowGroup: count.optional(),
      recordBatch: count.optional(),
      reason: z.string(),
    }),
  ),
  /** Best AUC that any model can reach on generated data. */
  bestAuc: z.number().optional(),
  bestRmse: z.number().optional(),
  /** Columns whose values may share rows, with the numbers that do. */
  values: z.array(columnValues).optional(),
  /** Warnings about the data. */
  warnings: z.array(warningSchema),
  /** Damaged caches that were rebuilt, with the reasons. */
  remade: z.array(z.object({ path: z.string(), reason: z.string() })).default([]),
});

/** The prepared data of a run. */
export type DataPlan = z.output<typeof dataPlanSchema>;

/** A job in a message, validated like a submitted job: a wrong job makes the message invalid. */
export const jobInMessage = z.string().transform((text, { addIssue }) => {
  try {
    return jobOfText(text);
  } catch (error) {
    addIssue(error instanceof Error ? error.message : String(error));
    return z.NEVER;
  }
});

/** The pins in a message. */
export const pinsInMessage = z.array(shardPinSchema).readonly().optional();

/** The measured plans of a run, in a message. */
export const measuredInMessage = z
  .array(z.object({ plan: packedPlanSchema, seconds: z.array(z.number().min(0)).readonly() }))
  .readonly()
  .optional();

/** Schema of `GenerationSpec` on the wire, without its job and its manifest. */
const headSchema = z.object({
  run: z.string(),
  generation: count,
  /** Number of devices over all hosts. */
  devices: z.int().min(1),
  /** The hosts of these devices, in rank order. */
  hosts: z.array(z.object({ host: count, devices: z.int().min(1) })).min(1),
  /** Slices per device, if they are not dealt evenly. */
  sliceCounts: z.array(z.int().min(0)).optional(),
  data: dataPlanSchema,
  /** The placement of each shard; left out: the job's plan, if it is for these devices, or none. */
  placement: packedPlanSchema.optional(),
  /** Parts of tables placed by pins instead of the plan. */
  pins: pinsInMessage,
  /** Completed steps at the cut from which the generation continues; 0 at the start of the run. */
  fromStep: count,
  /** Initial rate limit of its readers in samples per second; left out: none. */
  readerLimit: count.optional(),
  /** Whether hosts open direct links; left out: all frames travel over the broker. */
  links: z.literal("direct").optional(),
  /** Steps whose number is divisible by this are traced on all devices; left out: none is. */
  tracedEvery: z.int().min(1).optional(),
});

/** The checkpoint of the cut from which the generation continues. */
const checkpointSchema = manifestSchema.optional();

/** The spec of a generation, as it was read from a message. */
export type GenerationSpecRecord = z.output<typeof headSchema> & {
  readonly job: JobSpec;
  readonly manifest?: z.output<typeof checkpointSchema>;
};

/** Reads the spec of a generation in the texts of a message. @throws Error where one is wrong */
export function* readingSpec(job: string, assembly: string): Steps<GenerationSpecRecord> {
  const value: { readonly manifest?: unknown } = JSON.parse(assembly) ?? {};
  yield;
  const head = headSchema.parse(value);
  const manifest = checkpointSchema.parse(value.manifest);
  yield;
  return { ...head, job: yield* readingJob(job), ...(manifest && { manifest }) };
}
