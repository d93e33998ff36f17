// The job of a baseline model: logistic regression on the data, the split and the features of a
// job.

import { scoredLabelsOf } from "../data/targets.ts";
import type { JobOptions, JobSpec } from "./job.ts";

/** A label of a job that a baseline predicts. */
export interface BaselineTask {
  readonly name: string;
  readonly isNumber: boolean;
  /**
   * The data of the job with this label alone; undefined for generated data with several labels.
   */
  readonly data: JobSpec["data"] | undefined;
}

/** Returns the labels of a job, each with its data. */
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

/** Least number of steps of a baseline, so that its weights converge; limited by `epochsMax`. */
const stepsMin = 2000;
const epochsMax = 40;

/**
 * Returns a job of logistic regression, with one weight for each id and each dense feature, the
 * samples, the seed and the evaluations of `job`, and its checkpoints in `directory`. `samples`:
 * number of training samples. With few samples it has more epochs than the job, up to 2,000 steps
 * in all, as only its best evaluation counts. Options that only concern the model of `job` are left
 * out. For a numeric label the regression is linear.
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
    // Resolved options are valid options, which the types do not express; `resolveJob` checks them.
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

/** The evaluations of the job, once per epoch; the held-out test samples stay held out. */
function evaluationOf({ evaluation }: JobSpec, everySteps: number) {
  const { test, earlyStopping: _, keepBest: _best, ...others } = evaluation ?? {};
  return { ...others, everySteps, ...(test !== undefined && test.data === undefined && { test }) };
}
