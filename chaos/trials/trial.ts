// A trial: one schedule, run on one job, with a verdict. A failed trial is repeated with fewer and
// fewer faults until a minimal failing set is left.

import type { Incident } from "../../actors/runtime/incident.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { type DrawOptions, drawSchedule } from "../faults/draw.ts";
import type { Fault, FaultKind, Schedule } from "../faults/schedule.ts";
import { shrink } from "../faults/shrink.ts";
import {
  type FaultedRun,
  type FaultedRunOptions,
  type FaultOutcome,
  runSchedule,
} from "./faulted-run.ts";
import { type ReferenceRun, type TrialVerdict, verdictOf } from "./verdict.ts";

/** The schedule of a trial and its outcome. Plain data. */
export interface Trial extends TrialVerdict {
  readonly schedule: Schedule;
  /** Outcome of each fault of the schedule. */
  readonly faults: readonly FaultOutcome[];
  /** Incidents of the run, then those outside it. */
  readonly incidents: readonly Incident[];
  readonly digest: string | undefined;
  readonly referenceDigest: string;
  readonly generations: number;
  readonly submissions: number;
  readonly seconds: number;
  /** Whether it was aborted by `signal`: then its verdict means nothing. */
  readonly isCancelled: boolean;
}

/** Runs a schedule on a job and compares the run with its reference run. */
export async function runTrial(
  job: JobOptions,
  schedule: Schedule,
  reference: ReferenceRun,
  options: FaultedRunOptions = {},
): Promise<Trial> {
  using faulted = await runSchedule(job, schedule, options);
  const verdict = await verdictOf(job, schedule, faulted, reference);
  return {
    ...verdict,
    schedule,
    faults: faulted.faults,
    incidents: incidentsOf(faulted),
    digest: faulted.result?.digest,
    referenceDigest: reference.result.digest,
    generations: Math.max(0, ...faulted.events.map(({ event }) => event.generation)),
    submissions: faulted.submissions,
    seconds: faulted.seconds,
    isCancelled: faulted.end === "cancelled",
  };
}

/**
 * Shrinks a failed trial's schedule to a minimal one that fails in the same way; each attempt is a
 * new trial.
 */
export async function shrinkTrial(
  job: JobOptions,
  failed: Trial,
  reference: ReferenceRun,
  options: FaultedRunOptions & { readonly onTrial?: (trial: Trial) => void } = {},
): Promise<Schedule> {
  const { schedule, verdict } = failed;
  const fails = async (faults: readonly Fault[]) => {
    options.signal?.throwIfAborted();
    const trial = await runTrial(job, { ...schedule, faults: [...faults] }, reference, options);
    options.onTrial?.(trial);
    return trial.verdict === verdict;
  };
  return { ...schedule, faults: await shrink(schedule.faults, fails) };
}

/** Draws a schedule for a job, whose number of steps is taken from its reference run. */
export function drawFor(
  job: JobOptions,
  reference: ReferenceRun,
  options: Pick<DrawOptions, "seed" | "environment"> & { readonly kinds?: readonly FaultKind[] },
): Schedule {
  const spec = resolveJob(job);
  return drawSchedule({
    ...options,
    steps: reference.result.step,
    everySteps: spec.checkpoint.everySteps,
    readers: spec.readers,
    workers: spec.preprocessing?.workersMin,
    hasEvaluation: spec.evaluation !== undefined,
    isTiered: spec.model.tables.some(({ tier }) => tier !== "memory"),
  });
}

function incidentsOf({ events, incidents }: FaultedRun): Incident[] {
  const ofRun = events.flatMap(({ event }): Incident[] => {
    if (event.type !== "run.incident") return [];
    const { offender, supervisor, context, error } = event;
    return [{ offender, supervisor, context, reason: error }];
  });
  return [...ofRun, ...incidents];
}
