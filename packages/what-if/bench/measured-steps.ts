// Measures the steps of a job as `osiris train` runs it: windows of about a second each once the
// programs are compiled, each with the seconds of every stage of a step, from the threads'
// timelines, and with the level of the machine's speed (tasks/machine-level.ts).

import { join } from "node:path";
import type { Cluster, JobOptions, Run, RunTimelines } from "../../../internal.ts";
import { temporaryHome } from "../../../internal.ts";
import { fasterHalf, isOfLevel, type ReadLevel } from "../tasks/machine-level.ts";
import { type RandomJob, randomJob } from "../tasks/random-jobs.ts";
import { meanTimes, type TaskTimes, taskTimesOf } from "../tasks/task-times.ts";

/** Where a job trains: devices of this process, or two machines with a cable of that many Gb/s. */
export type Place = "alone" | "1g" | "10g";

/** A job of the validation. */
export interface PlacedJob extends RandomJob {
  readonly name: string;
  readonly place: Place;
}

/**
 * Job number `index` of a seed. A step takes at most some 100 ms on one core, so that a window of a
 * second has several steps. Over a cable, each of two machines has a device; no table is cached.
 */
export function placedJob(seed: number, index: number, place: Place): PlacedJob {
  const isAlone = place === "alone";
  const devices = isAlone ? [1, 2] : [2];
  const limits = { idsMax: 400_000, flopMax: 8e9 };
  const cachedBatches = isAlone ? 64 : 0;
  const job = randomJob({ seed, index, devices, cachedBatches, ...limits });
  const cable = isAlone ? "" : `, cable ${place}`;
  return { ...job, name: `${isAlone ? "alone" : "links"}.${index}`, place, text: job.text + cable };
}

/** Wanted windows at the level of the prediction, most windows of a job, and their length. */
const [windowsOfJob, windowsMax] = [8, 12] as const;
export const windowMs = 900;
/**
 * Steps before the windows, while V8 compiles the programs: the compiler takes processor time, and
 * steps become shorter. This warm-up ends after `warmMsMax` at the latest.
 */
const warmSteps = 700;
export const warmMsMax = 12_000;
const warmMsMin = 4000;
/** A checkpoint never falls into a measurement. */
const everySteps = 1_000_000;
/** Steps whose timelines are collected. */
const tracedSteps = 100;

/** The mean step of about a second of a job. */
export interface StepWindow {
  /** Seconds of a step. */
  readonly seconds: number;
  /** The level at the window's end, in operations per second; 0: it was not read. */
  readonly level: number;
  /** The tasks and waits of its last steps, device by device. */
  readonly stages: readonly TaskTimes[];
}

export interface MeasuredSteps {
  readonly windows: readonly StepWindow[];
  /** Seconds that a reader takes for a batch. */
  readonly reading: number;
}

/**
 * Means over the faster half of the windows at the level of the prediction, or of all windows if
 * none is at that level.
 */
export function meanSteps({ windows }: MeasuredSteps, level: number) {
  const same = windows.filter((window) => isOfLevel(window.level, level));
  const faster = fasterHalf(same.length > 0 ? same : windows, ({ seconds }) => seconds);
  const meanOf = (values: readonly number[]) =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  return {
    seconds: meanOf(faster.map(({ seconds }) => seconds)),
    level: meanOf(faster.map((window) => window.level)),
    windows: same.length,
    stages: meanTimes(faster.map(longestStages)),
  };
}

/** The tasks of the device that works longest. */
function longestStages({ stages }: StepWindow): TaskTimes {
  const workOf = (times: TaskTimes) =>
    Object.entries(times).reduce(
      (sum, [name, own]) => sum + (name.startsWith("wait.") ? 0 : own),
      0,
    );
  const [first = {}] = [...stages].sort((a, b) => workOf(b) - workOf(a));
  return first;
}

/** The job with its directories in `home`, and its plan. */
export function jobIn(home: string, { options }: RandomJob, plan?: object): JobOptions {
  return {
    ...options,
    data: { ...options.data, cache: join(home, "cache") } as JobOptions["data"],
    checkpoint: { directory: join(home, "run"), everySteps },
    ...(plan !== undefined && { plan: plan as JobOptions["plan"] }),
  };
}

/** Trains a job on devices of this process for some seconds, until some windows are of `level`. */
export async function measureAlone(
  cluster: Cluster,
  home: string,
  job: RandomJob,
  plan: object,
  { read, level }: { readonly read: ReadLevel; readonly level: number },
): Promise<MeasuredSteps> {
  using own = temporaryHome("job-", home);
  const run = await cluster.submit({ ...jobIn(own.path, job, plan), devices: job.devices });
  const measured = await windowsOf(run, read, level);
  await run.cancel();
  await run.result();
  return measured;
}

async function windowsOf(run: Run, read: ReadLevel, level: number): Promise<MeasuredSteps> {
  const windows: StepWindow[] = [];
  let [warmMs, warm, ms, steps, reading] = [0, 0, 0, 0, 0];
  const isWarm = () => warmMs >= (warm >= warmSteps ? warmMsMin : warmMsMax);
  const isEnough = () =>
    windows.length === windowsMax ||
    windows.filter((window) => isOfLevel(window.level, level)).length === windowsOfJob;
  for await (const event of run.events()) {
    if (event.type === "run.failed") throw new Error(event.error.message);
    if (event.type !== "run.progress" || event.times === undefined) continue;
    const { times } = event;
    if (!isWarm()) {
      warmMs += times.steps * times.stepMs;
      warm += times.steps;
      continue;
    }
    ms += times.steps * times.stepMs;
    steps += times.steps;
    if (ms < windowMs) continue;
    const stages = stagesOf(await run.timelines({ steps: tracedSteps }));
    windows.push({ seconds: ms / steps / 1000, level: read(), stages });
    reading = times.readMs / 1000;
    [ms, steps] = [0, 0];
    if (isEnough()) break;
  }
  return { windows, reading };
}

function stagesOf({ threads }: RunTimelines): TaskTimes[] {
  return threads
    .filter(({ actor }) => actor.startsWith("device"))
    .map(({ records }) =>
      taskTimesOf(records.map(([kind, what, , fromMs, toMs]) => ({ kind, what, fromMs, toMs }))),
    );
}
