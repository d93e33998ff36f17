// A trial: one schedule carried out on one job, and judged. A trial that fails is carried out again
// with fewer and fewer faults, until only those are left that it takes.

import type { Incident } from "../../actors/runtime/incident.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { type DrawOptions, drawSchedule } from "../faults/draw.ts";
import type { Fault, FaultKind, Schedule } from "../faults/schedule.ts";
import { shrink } from "../faults/shrink.ts";
import { type FaultOutcome, type Played, type PlayOptions, playSchedule } from "./faulted-run.ts";
import { type Judgement, judge, type Twin } from "./verdict.ts";

/** What was done to a job, and what came of it. Plain data. */
export interface Trial extends Judgement {
  readonly schedule: Schedule;
  /** One for each fault of the schedule. */
  readonly faults: readonly FaultOutcome[];
  /** Of the run, first cause first, each failure once. */
  readonly incidents: readonly Incident[];
  readonly digest: string | undefined;
  readonly twinDigest: string;
  readonly generations: number;
  readonly submissions: number;
  readonly seconds: number;
  /** Whether it was broken off from outside (`signal`): then it says nothing. */
  readonly isCancelled: boolean;
}

/** Carries out a schedule and judges what came of it. */
export async function runTrial(
  job: JobOptions,
  schedule: Schedule,
  twin: Twin,
  options: PlayOptions = {},
): Promise<Trial> {
  using played = await playSchedule(job, schedule, options);
  const judgement = await judge(job, schedule, played, twin);
  return {
    ...judgement,
    schedule,
    faults: played.faults,
    incidents: incidentsOf(played),
    digest: played.result?.digest,
    twinDigest: twin.result.digest,
    generations: Math.max(0, ...played.events.map(({ event }) => event.generation)),
    submissions: played.submissions,
    seconds: played.seconds,
    isCancelled: played.end === "cancelled",
  };
}

/** The least of a failed trial's schedule that fails in the same way; each part is a new trial. */
export async function shrinkTrial(
  job: JobOptions,
  failed: Trial,
  twin: Twin,
  options: PlayOptions & { readonly onTrial?: (trial: Trial) => void } = {},
): Promise<Schedule> {
  const { schedule, verdict } = failed;
  const fails = async (faults: readonly Fault[]) => {
    options.signal?.throwIfAborted();
    const trial = await runTrial(job, { ...schedule, faults: [...faults] }, twin, options);
    options.onTrial?.(trial);
    return trial.verdict === verdict;
  };
  return { ...schedule, faults: await shrink(schedule.faults, fails) };
}

/** What a draw has to know of a job; its twin has counted the steps. */
export function drawFor(
  job: JobOptions,
  twin: Twin,
  options: Pick<DrawOptions, "seed" | "stage"> & { readonly kinds?: readonly FaultKind[] },
): Schedule {
  const spec = resolveJob(job);
  return drawSchedule({
    ...options,
    steps: twin.result.step,
    everySteps: spec.checkpoint.everySteps,
    readers: spec.readers,
    hasEvaluation: spec.evaluation !== undefined,
    isTiered: spec.model.tables.some(({ tier }) => tier !== "memory"),
  });
}

function incidentsOf({ events, incidents }: Played): Incident[] {
  const ofRun = events.flatMap(({ event }): Incident[] => {
    if (event.type !== "run.incident") return [];
    const { offender, supervisor, context, error } = event;
    return [{ offender, supervisor, context, reason: error }];
  });
  return [...ofRun, ...incidents];
}
