// osiris train JOB --baseline: metrics of simple predictors and of logistic regression, trained on
// the same samples and features, on the held-out samples of a run. Begins after the run has ended.

import {
  type Cluster,
  InvalidOptionError,
  type JobOptions,
  type Metrics,
  type RunResult,
} from "../../internal.ts";
import { baselineJob, baselineTasks } from "../../src/job/baseline-job.ts";
import { type JobSpec, resolveJob } from "../../src/job/job.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { simpleBaselines } from "../../storage/model/evaluation/baselines.ts";
import { onInterrupt } from "./interrupt.ts";

/** Metrics of an evaluation; unknown ones are left out. */
export type Figures = { readonly [Name in keyof Metrics]?: Metrics[Name] | undefined };

/** A simple way to predict a label, with its metrics on the held-out samples. */
export interface Baseline {
  readonly kind: "mean" | "popularity" | "logistic-regression";
  /** Of kind `popularity`: the column whose values predict the label. */
  readonly column?: string;
  readonly metrics: Figures;
}

/** The baselines of a label, and the model's own metrics. */
export interface TaskBaselines {
  /** The label; left out where the model has only one. */
  readonly task?: string;
  readonly model: Figures;
  readonly baselines: readonly Baseline[];
  /** Why there is no logistic regression. */
  readonly missing?: string;
}

/** The resolved job. @throws InvalidOptionError where it holds out no samples */
export function jobWithBaseline(options: JobOptions): JobSpec {
  const job = resolveJob(options);
  if (job.evaluation !== undefined) return job;
  const message =
    "Expected `--baseline` with a job that has an `evaluation`: model and baselines are compared on " +
    "held-out samples; add `evaluation: { fraction: 0.1 }` to the job";
  throw new InvalidOptionError("--baseline", message);
}

/** The baselines of a run that has ended. Trains logistic regression for each label. */
export async function trainBaselines(
  cluster: Cluster,
  job: JobSpec,
  result: RunResult,
): Promise<TaskBaselines[]> {
  const simple = await simpleBaselines(result.directory);
  const found: TaskBaselines[] = [];
  const tasks = baselineTasks(job);
  for (const [i, task] of tasks.entries()) {
    const { ofMean, popularity, samples = 0 } = simple[i] ?? {};
    const regression = await trainRegression(cluster, job, task, samples);
    const model = result.tasks?.[task.name] ?? result;
    const baselines: Baseline[] = [
      ...(ofMean ? [{ kind: "mean" as const, metrics: ofMean }] : []),
      ...(popularity ? [{ kind: "popularity" as const, ...popularity }] : []),
      ...("result" in regression
        ? [{ kind: "logistic-regression" as const, metrics: figuresOf(bestOf(regression.result)) }]
        : []),
    ];
    const missing = "missing" in regression ? { missing: regression.missing } : {};
    found.push({
      ...(tasks.length > 1 && { task: task.name }),
      model: figuresOf(model),
      baselines,
      ...missing,
    });
  }
  return found;
}

async function trainRegression(
  cluster: Cluster,
  job: JobSpec,
  task: ReturnType<typeof baselineTasks>[number],
  samples: number,
): Promise<{ readonly result: RunResult } | { readonly missing: string }> {
  if (task.data === undefined) return { missing: "generated data of several labels have none" };
  console.error("Training logistic regression on the same samples, to compare ...");
  using home = temporaryHome("osiris-baseline-");
  try {
    const run = await cluster.submit(baselineJob(job, task, { directory: home.path, samples }));
    using _interrupt = onInterrupt(() => void run.cancel().catch(() => {}));
    const result = await run.result();
    if (result.status === "cancelled") return { missing: "its training was cancelled" };
    return { result };
  } catch (error) {
    return { missing: error instanceof Error ? error.message : String(error) };
  }
}

function bestOf(result: RunResult): Figures {
  return result.evaluations?.best.evaluation ?? result;
}

/** Copies only the metrics that baselines are compared by. */
function figuresOf({
  auc,
  logLoss,
  normalizedEntropy,
  calibration,
  mse,
  rmse,
  mae,
  r2,
}: Figures): Figures {
  return { auc, logLoss, normalizedEntropy, calibration, mse, rmse, mae, r2 };
}
