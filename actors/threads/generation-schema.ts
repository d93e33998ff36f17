// The schema of a generation spec: how the spec looks on the wire, and how a host checks it.

import { z } from "zod";
import type { ColumnValues } from "../../src/data/cache/cache-format.ts";
import type { DatasetPart } from "../../src/data/split.ts";
import { resolveJob } from "../../src/job/job.ts";
import { packedPlanSchema, shardPinSchema } from "../../src/planner/plan-file.ts";
import { manifestSchema } from "../../storage/checkpoint-store/manifest.ts";

const count = z.int().min(0);

const dataContents = z.object({
  samples: count,
  digest: z.string(),
  version: count,
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
  /** Samples of the part that is read. */
  samples: count,
  /** Which part of the file, if the file is split. */
  split: datasetPart.optional(),
});

/** A group of features, and whether deduplication of its lists pays (choose-groups.ts). */
export const groupChoice = z.object({
  /** Names. */
  features: z.array(z.string()).readonly(),
  /** Lists for each distinct list: counted, and by the formula of RecD. */
  factor: z.number(),
  predicted: z.number(),
  isChosen: z.boolean(),
});
export type GroupChoice = z.output<typeof groupChoice>;

/** What a run warns of: a name that stays the same, and a sentence for people. */
export const warningSchema = z.object({ code: z.string(), message: z.string() }).readonly();

/** One warning of a run. */
export type Warning = z.output<typeof warningSchema>;

/** One dataset as the readers open it. */
export type DatasetPlan = z.output<typeof datasetPlan>;

/** How many values of a column share rows of its table. */
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
  /** What is evaluated once, when training has ended. */
  test: datasetPlan.optional(),
  /** Which data these are; `evaluation`, `test`: where these are data of their own. */
  contents: z.object({
    training: dataContents,
    trained: count.optional(),
    evaluation: dataContents.optional(),
    test: dataContents.optional(),
    /** Where the samples come in the split order. */
    splitSamples: z.int().min(1).optional(),
    splits: z
      .object({
        starts: z.array(count).readonly(),
        lanes: z.int().min(1),
        keepsOrder: z.boolean().optional(),
      })
      .optional(),
    /** Features whose lists are deduplicated together. */
    ikjt: z.array(z.array(count).readonly()).readonly().optional(),
  }),
  /** What was measured of groups of features whose lists may be deduplicated. */
  ikjt: z.array(groupChoice).readonly().optional(),
  /** Longest bag of each feature, over all of them. */
  idsMax: z.array(count),
  /** Of dense features whose missing values are the mean: that of the training data. */
  means: z.record(z.string(), z.number()).optional(),
  /** Lines that were left out, and the first of them. */
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
  /** Of columns whose values may share rows: how many do. */
  values: z.array(columnValues).optional(),
  /** What a person should know of the data. */
  warnings: z.array(warningSchema),
  /** Caches that were damaged and are made anew, and what was wrong with them. */
  remade: z.array(z.object({ path: z.string(), reason: z.string() })).default([]),
});

/** The data of a run, prepared. */
export type DataPlan = z.output<typeof dataPlanSchema>;

/** A job in a message, checked as a submitted job is: a wrong job makes the message invalid. */
export const jobInMessage = z.unknown().transform((value, { addIssue }) => {
  try {
    return resolveJob(value);
  } catch (error) {
    addIssue(error instanceof Error ? error.message : String(error));
    return z.NEVER;
  }
});

/** The pins in a message. */
export const pinsInMessage = z.array(shardPinSchema).readonly().optional();

/** What a run has measured of its plans, in a message. */
export const measuredInMessage = z
  .array(z.object({ plan: packedPlanSchema, seconds: z.array(z.number().min(0)).readonly() }))
  .readonly()
  .optional();

/** Schema of `GenerationSpec` on the wire. */
export const generationSpecSchema = z.object({
  run: z.string(),
  generation: count,
  job: jobInMessage,
  /** All devices, of all hosts. */
  devices: z.int().min(1),
  /** The hosts that have these devices, in the order of the ranks. */
  hosts: z.array(z.object({ host: count, devices: z.int().min(1) })).min(1),
  /** Slices of each device, if the devices do not have equally many. */
  sliceCounts: z.array(z.int().min(1)).optional(),
  data: dataPlanSchema,
  /** The place of each shard; left out: the job's plan, if it is for these devices, or none. */
  placement: packedPlanSchema.optional(),
  /** Parts of tables that lie elsewhere than the plan says. */
  pins: pinsInMessage,
  /** Steps done at the cut from which the generation goes on; 0 at the start of the run. */
  fromStep: count,
  /** The checkpoint of that cut. */
  manifest: manifestSchema.optional(),
  /** Most samples a second that its readers serve at first; left out: as fast as they can. */
  readerLimit: count.optional(),
  /** Each step that this number divides is traced on all devices; left out, no step is. */
  tracedEvery: z.int().min(1).optional(),
});

/** A generation spec as the schema returns it. */
export type GenerationSpecRecord = z.output<typeof generationSpecSchema>;
