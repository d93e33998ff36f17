// What an assembly looks like on its way over the wire, and how it is checked where it arrives.

import { z } from "zod";
import { resolveJob } from "../../src/job/job.ts";
import { manifestSchema } from "../../storage/checkpoint-store/manifest.ts";

const count = z.int().min(0);

const datasetPlan = z.object({
  path: z.string(),
  /** Samples of the part that is read. */
  samples: count,
  /** Which part of the file, where it is split. */
  split: z.object({ fraction: z.number(), part: z.enum(["train", "heldOut"]) }).optional(),
});

/** One dataset as the readers open it. */
export type DatasetPlan = z.output<typeof datasetPlan>;

/** Schema of `DataPlan`, for its way over the wire. */
export const dataPlanSchema = z.object({
  training: datasetPlan,
  evaluation: datasetPlan.optional(),
  /** Longest bag of each feature, over both. */
  idsMax: z.array(count),
  /** Lines that were left out, and the first of them. */
  quarantined: count,
  quarantine: z.array(z.object({ file: z.string(), line: count, reason: z.string() })),
  /** Best AUC that any model can reach on generated data. */
  bestAuc: z.number().optional(),
});

/** The data of a run, prepared. */
export type DataPlan = z.output<typeof dataPlanSchema>;

/** A job in a message, checked as at the door: what is wrong with it makes the message none. */
export const jobInMessage = z.unknown().transform((value, { addIssue }) => {
  try {
    return resolveJob(value);
  } catch (error) {
    addIssue(error instanceof Error ? error.message : String(error));
    return z.NEVER;
  }
});

/** Schema of `Assembly`, for its way over the wire: the job is checked as at the door. */
export const assemblySchema = z.object({
  run: z.string(),
  generation: count,
  job: jobInMessage,
  /** All devices, of all hosts. */
  devices: z.int().min(1),
  /** Whose they are, in the order of their ranks. */
  hosts: z.array(z.object({ host: count, devices: z.int().min(1) })).min(1),
  /** Slices of each device, where they are not even. */
  sliceCounts: z.array(z.int().min(1)).optional(),
  data: dataPlanSchema,
  /** Steps done at the cut from which it goes on; 0 where it starts. */
  fromStep: count,
  /** The checkpoint of that cut. */
  manifest: manifestSchema.optional(),
  /** Every so many-th step is traced on all devices; left out, none is. */
  tracedEvery: z.int().min(1).optional(),
});

/** An assembly as it was checked. */
export type AssemblyRecord = z.output<typeof assemblySchema>;
