// What a generation does next between two steps: train, evaluate, test, make a checkpoint, or end.
// Pure functions of the run's position, so that a restored generation decides as its predecessor
// did (T1 of training-coordinator.ts). What each action asks of whom is in coordinator-requests.ts.

import type { JobSpec } from "../../src/job/job.ts";
import { stepBefore } from "../../src/job/warm-start.ts";
import {
  type Cut,
  nextCut,
  nextPlanned,
  type Schedule,
  scheduleOf,
} from "../../src/training/loop/schedule.ts";
import { stepsForPls } from "../../storage/checkpoints/partial-checkpoint.ts";
import type { RunMetrics } from "../run-state/run-metrics.ts";
import type { RunRecord } from "../run-state/run-record.ts";
import type { DataPlan } from "../threads/generation-spec.ts";

/** What the next action depends on: where the run is, and what is asked of it. */
export interface RunPosition {
  readonly job: JobSpec;
  readonly record: Pick<RunRecord, "isCheckpointAsked" | "cuts">;
  /** All steps of the run; undefined before the data is prepared. */
  readonly schedule: Schedule | undefined;
  /** Steps that are done. */
  readonly step: number;
  /** The cut that is being reached or made; undefined between cuts. */
  readonly cut: Cut | undefined;
  readonly metrics: RunMetrics;
  /** The checkpoint that the generation began with. */
  readonly latest: { readonly cut: number } | undefined;
  /** Cancelled: the run ends after a checkpoint of this step. */
  readonly isCancelAsked: boolean;
  /** And that checkpoint is made, or was there. */
  readonly isCancelled: boolean;
  /** The generation is to end here: to go on with other devices, or to give these up. */
  readonly isScaleAsked: boolean;
}

/**
 * run: train up to the cut. evaluate: measure the held-out samples. test: measure those of the
 * test. checkpoint: save the state after this step. pass: the cut is done, choose the next one.
 * end: the generation is over.
 */
export type Action = "run" | "evaluate" | "test" | "checkpoint" | "pass" | "end";

/** The next action at this step. Evaluation and test come before the checkpoint of a cut (T2). */
export function nextAction(position: RunPosition): Action {
  if (mustRun(position)) return "run";
  if (mustEvaluate(position)) return "evaluate";
  if (mustTest(position)) return "test";
  if (mustSave(position)) return "checkpoint";
  return isOver(position) ? "end" : "pass";
}

function mustRun(position: RunPosition): boolean {
  const { cut, step, isCancelAsked, isScaleAsked } = position;
  if (cut === undefined || step >= cut.step) return false;
  return !isCancelAsked && !isScaleAsked && !isSaveAsked(position);
}

function mustEvaluate({ cut, metrics, step }: RunPosition): boolean {
  return cut?.evaluate === true && step === cut.step && metrics.evaluatedStep !== step;
}

/**
 * The test is of models that a run may return: the last one; and, where the best is kept, each one
 * that becomes the best, as it may be gone when the run ends. A replay tests nothing.
 */
function mustTest({ job, record, cut, step, metrics, schedule }: RunPosition): boolean {
  const { test, earlyStopping } = job.evaluation ?? {};
  if (test === undefined || record.cuts !== undefined || metrics.testedStep === step) return false;
  if (metrics.isBest && metrics.evaluatedStep === step) return true;
  const isEnd = cut?.step === step && step === schedule?.steps;
  return isEnd && (earlyStopping === undefined || metrics.earlyStopping.bestCut === null);
}

/** A checkpoint is due for the run itself, on request, or to go on with other devices. */
function mustSave(position: RunPosition): boolean {
  const { metrics, step, isScaleAsked, latest } = position;
  if (metrics.savedStep === step) return false;
  if (isDueForRun(position) || isSaveAsked(position)) return true;
  return isScaleAsked && step > (latest?.cut ?? 0);
}

/**
 * Whether the run has a checkpoint at this step whatever becomes of its devices. Only such a
 * checkpoint is a point of the run's history.
 */
export function isDueForRun({ cut, step, metrics, isCancelAsked }: RunPosition): boolean {
  const isDue = cut?.checkpoint === true && cut.step === step;
  return isDue || metrics.isBest || metrics.earlyStopping.stopped || isCancelAsked;
}

/** Whether a user asked for a checkpoint, and there are steps to save. */
function isSaveAsked({ record, step, metrics }: RunPosition): boolean {
  return record.isCheckpointAsked && step > (metrics.savedStep ?? 0);
}

/** Whether the generation ends here: the run is done, or goes on with other devices. */
export function isOver(position: RunPosition): boolean {
  return position.cut === undefined && (isRunDone(position) || position.isScaleAsked);
}

/** Whether nothing is left to do for the run. */
export function isRunDone(position: RunPosition): boolean {
  const { schedule, step, metrics, isCancelled } = position;
  if (schedule === undefined) return false; // The run yielded before its data was prepared.
  return isCancelled || step >= schedule.steps || metrics.earlyStopping.stopped;
}

/** The steps of the run's data; a replay ends at its last planned cut. */
export function scheduleFor(
  { job, record }: Pick<RunPosition, "job" | "record">,
  { training: { samples } }: DataPlan,
): Schedule {
  const { batchSize, passes } = job.data;
  const schedule = scheduleOf({ samples, batchSize, passes, begin: stepBefore(job) });
  return { ...schedule, steps: record.cuts?.at(-1)?.step ?? schedule.steps };
}

/** The cut that comes next; undefined before the data is prepared. */
export function cutAfter({ schedule, job, step, record }: RunPosition): Cut | undefined {
  if (schedule === undefined) return undefined;
  return record.cuts === undefined ? nextCut(schedule, job, step) : nextPlanned(record.cuts, step);
}

/**
 * The job with its interval between checkpoints; a job may state the loss that it bears instead
 * (CPR's portion of lost samples), which gives the interval for a number of devices.
 */
export function withInterval(job: JobSpec, devices: number): JobSpec {
  const { pls, failureSteps } = job.checkpoint.partial ?? {};
  if (pls === undefined || failureSteps === undefined) return job;
  const everySteps = stepsForPls(pls, devices, failureSteps);
  return { ...job, checkpoint: { ...job.checkpoint, everySteps } };
}
