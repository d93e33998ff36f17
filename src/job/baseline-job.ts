// The job of a baseline: logistic regression on the data, the split and the features of a job.

import { scoredLabelsOf } from "../data/targets.ts";
import type { JobOptions, JobSpec } from "./job.ts";

/** A label of a job, which a baseline predicts. */
export interface BaselineTask {
  readonly name: string;
  readonly isNumber: boolean;
  /** The data of the job with this label alone; undefined: generated data have several. */
  readonly data: JobSpec["data"] | undefined;
}

/** The labels of a job. */
export function baselineTasks({ data }: JobSpec): BaselineTask[] {
  const labels = scoredLabelsOf(data);
  if (labels.length === 1) return labels.map((label) => ({ ...label, data }));
  if (!("label" in data)) return labels.map((label) => ({ ...label, data: undefined }));
  const { numericLabels: _, missingLabels, ...others } = data;
  return labels.map(({ name, isNumber }): BaselineTask => {
    const rule = missingLabels?.[name];
    const own = {
      ...{ ...others, label: name },
      ...(isNumber && { numericLabels: [name] }),
      ...(rule && { missingLabels: { [name]: rule } }),
    };
    return { name, isNumber, data: own as JobSpec["data"] };
  });
}

/** Steps of a baseline at least, where its epochs allow it: a weight has to find its value. */
const stepsMin = 2000;
const epochsMax = 40;

/**
 * Logistic regression, one weight for each id and each dense feature, with the samples, the seed
 * and the evaluations of `job`, and its checkpoints in `directory`. `samples`: those that are
 * trained on. Of few samples it has more epochs than the job, 2,000 steps in all, as its best
 * evaluation counts. Options that change the model of `job` alone are left out. Where the label
 * is a number, the regression is linear.
 */
export function baselineJob(
  job: JobSpec,
  { data, isNumber }: Pick<BaselineTask, "data" | "isNumber">,
  { directory, samples }: { readonly directory: string; readonly samples: number },
): JobOptions {
  const { evaluation, seed, slices, readers, arithmetic, devices } = job;
  const { dense, tables, features } = job.model;
  const weights = tables.map(({ name, rows, ids, idBits, dynamic, pooling }) => {
    return { name, rows, dim: 1, ids, idBits, dynamic, pooling, initScale: 0 };
  });
  const pooled = features?.map(({ column, name, table, pooling }) => {
    return { column, name, table, pooling: pooling === "none" ? ("mean" as const) : pooling };
  });
  const stepsOfEpoch = Math.max(1, Math.floor(samples / job.data.batchSize));
  const epochs = Math.max(job.data.passes, Math.min(epochsMax, Math.ceil(stepsMin / stepsOfEpoch)));
  const { passes: _, ...given } = (data ?? job.data) as { readonly passes?: number };
  return {
    name: "baseline",
    model: { kind: "lr", dense, tables: weights, ...(pooled && { features: pooled }) },
    // The types do not say that resolved options are options, too; `resolveJob` checks them.
    data: { ...given, epochs } as unknown as JobOptions["data"],
    ...(isNumber && { loss: { kind: "mse" } }),
    optimizer: {
      dense: { kind: "adam", learningRate: 0.01 },
      sparse: { kind: "rowWiseAdagrad", learningRate: 0.1 },
    },
    ...(evaluation && {
      evaluation: evaluationOf(job, stepsOfEpoch) as NonNullable<JobOptions["evaluation"]>,
    }),
    ...{ seed, slices, readers, arithmetic, devices },
    checkpoint: { directory },
  };
}

/** The evaluations of the job, one each epoch; what its test holds out stays held out. */
function evaluationOf({ evaluation }: JobSpec, everySteps: number) {
  const { test, earlyStopping: _, keepBest: _best, ...others } = evaluation ?? {};
  return { ...others, everySteps, ...(test !== undefined && test.data === undefined && { test }) };
}
