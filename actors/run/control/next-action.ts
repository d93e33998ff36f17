// Next action of a generation between two steps: train, evaluate, test, make a checkpoint, or end.
// Pure functions of the run's position, so that a restored generation decides like its predecessor
// (T1 of training-coordinator.ts). The requests of each action are in coordinator-requests.ts.

import type { JobSpec } from "../../../src/job/job.ts";
import { stepBefore } from "../../../src/job/warm-start.ts";
import {
  type Cut,
  nextCut,
  nextPlanned,
  type Schedule,
  scheduleOf,
} from "../../../src/training/loop/schedule.ts";
import { stepsForPls } from "../../../storage/checkpoints/partial-checkpoint.ts";
import { allSteps } from "../../threads/data/ready-steps.ts";
import type { DataPlan } from "../../threads/generation-spec.ts";
import type { RunMetrics } from "../state/run-metrics.ts";
import type { RunRecord } from "../state/run-record.ts";

/** Input of the decision: the position of the run, and the pending requests. */
export interface RunPosition {
  readonly job: JobSpec;
  readonly record: Pick<RunRecord, "isCheckpointRequested" | "cuts">;
  /** Number of steps of the run; undefined before the data is prepared. */
  readonly schedule: Schedule | undefined;
  /** The prepared data; undefined before. */
  readonly plan: DataPlan | undefined;
  /** Number of steps for which all files are indexed so far. */
  readonly indexedSteps: number;
  /** Completed steps. */
  readonly step: number;
  /** The step that some asynchronous trainer has reached, and all must reach before a cut. */
  readonly ahead: number;
  /** The cut that is being reached or made; undefined between cuts. */
  readonly cut: Cut | undefined;
  readonly metrics: RunMetrics;
  /** The checkpoint that the generation restored. */
  readonly latest: { readonly cut: number } | undefined;
  /** Cancellation is requested: the run ends after a checkpoint of this step. */
  readonly isCancelRequested: boolean;
  /** That checkpoint exists. */
  readonly isCancelled: boolean;
  /**
   * The generation must end at this step: to continue on other devices, or to release its devices.
   */
  readonly isScaleRequested: boolean;
}

/**
 * run: train up to the cut, or as far as files are indexed. index: wait for the index of the files
 * of the next step. evaluate: compute metrics of the held-out samples. test: compute
 * metrics of the test samples. checkpoint: save the state after this step. pass: the cut is done,
 * choose the next one. end: the generation is over.
 */
export type Action = "run" | "index" | "evaluate" | "test" | "checkpoint" | "pass" | "end";

/** The next action at this step. Evaluation and test come before the checkpoint of a cut (T2). */
export function nextAction(position: RunPosition): Action {
  if (mustRun(position)) return position.step < position.indexedSteps ? "run" : "index";
  if (mustEvaluate(position)) return readsAll(position) ? "index" : "evaluate";
  if (mustTest(position)) return readsAll(position) ? "index" : "test";
  if (mustSave(position)) return "checkpoint";
  return isOver(position) ? "end" : "pass";
}

function mustRun(position: RunPosition): boolean {
  const { cut, step, ahead, isCancelRequested, isScaleRequested } = position;
  if (cut === undefined || step >= cut.step) return false;
  if (step < ahead) return true;
  return !isCancelRequested && !isScaleRequested && !isSaveRequested(position);
}

/** The last step of the window that begins now. */
export function windowEnd({ cut, indexedSteps, step, ahead }: RunPosition): number | undefined {
  return cut && (step < ahead ? ahead : Math.min(cut.step, indexedSteps));
}

/** Whether held-out samples are not indexed yet: they are the last ones of the training data. */
function readsAll({ indexedSteps, plan }: RunPosition): boolean {
  return indexedSteps < allSteps && plan?.contents.evaluation === undefined;
}

function mustEvaluate({ cut, metrics, step }: RunPosition): boolean {
  return cut?.evaluate === true && step === cut.step && metrics.evaluatedStep !== step;
}

/**
 * Tests the models that a run may return: the last one and, where the best is kept, each new best,
 * which may no longer exist when the run ends. A replay tests nothing.
 */
function mustTest({ job, record, cut, step, metrics, schedule }: RunPosition): boolean {
  const { test, earlyStopping } = job.evaluation ?? {};
  if (test === undefined || record.cuts !== undefined || metrics.testedStep === step) return false;
  if (metrics.isBest && metrics.evaluatedStep === step) return true;
  const isEnd = cut?.step === step && step === schedule?.steps;
  return isEnd && (earlyStopping === undefined || metrics.earlyStopping.bestCut === null);
}

/** Whether a checkpoint is due: for the run itself, on request, or to continue on other devices. */
function mustSave(position: RunPosition): boolean {
  const { metrics, step, isScaleRequested, latest } = position;
  if (metrics.savedStep === step) return false;
  if (isDueForRun(position) || isSaveRequested(position)) return true;
  return isScaleRequested && step > (latest?.cut ?? 0);
}

/**
 * Whether the run would have a checkpoint at this step without any change of devices. Only such a
 * checkpoint becomes a point of the run's history.
 */
export function isDueForRun({ cut, step, metrics, isCancelRequested }: RunPosition): boolean {
  const isDue = cut?.checkpoint === true && cut.step === step;
  return isDue || metrics.isBest || metrics.earlyStopping.stopped || isCancelRequested;
}

/** Whether a user requested a checkpoint and there are unsaved steps. */
function isSaveRequested({ record, step, metrics }: RunPosition): boolean {
  return record.isCheckpointRequested && step > (metrics.savedStep ?? 0);
}

/** Whether the generation ends at this step: the run is done, or continues on other devices. */
export function isOver(position: RunPosition): boolean {
  return position.cut === undefined && (isRunDone(position) || position.isScaleRequested);
}

/** Whether the run has no further steps. */
export function isRunDone(position: RunPosition): boolean {
  const { schedule, step, metrics, isCancelled } = position;
  if (schedule === undefined) return false; // The run yielded before its data was prepared.
  return isCancelled || step >= schedule.steps || metrics.earlyStopping.stopped;
}

/** The schedule of steps over the run's data; a replay ends at its last planned cut. */
export function scheduleFor(
  { job, record }: Pick<RunPosition, "job" | "record">,
  { training: { samples } }: DataPlan,
): Schedule {
  const { batchSize, passes } = job.data;
  const schedule = scheduleOf({ samples, batchSize, passes, begin: stepBefore(job) });
  return { ...schedule, steps: record.cuts?.at(-1)?.step ?? schedule.steps };
}

/** The next cut; undefined before the data is prepared. */
export function cutAfter({ schedule, job, step, record }: RunPosition): Cut | undefined {
  if (schedule === undefined) return undefined;
  return record.cuts === undefined ? nextCut(schedule, job, step) : nextPlanned(record.cuts, step);
}

/**
 * The job with its checkpoint interval resolved. A job may state the acceptable loss instead (CPR's
 * portion of lost samples), from which the interval for a number of devices follows.
 */
export function withInterval(job: JobSpec, devices: number): JobSpec {
  const { pls, failureSteps } = job.checkpoint.partial ?? {};
  if (pls === undefined || failureSteps === undefined) return job;
  const everySteps = stepsForPls(pls, devices, failureSteps);
  return { ...job, checkpoint: { ...job.checkpoint, everySteps } };
}
