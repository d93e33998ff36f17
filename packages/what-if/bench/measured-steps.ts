// Measures the steps of a job as `osiris train` runs it: windows of about a second each once the
// programs are compiled, and the seconds of each stage of a step, from the threads' timelines.

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Cluster, JobOptions, Run, RunTimelines } from "../../../internal.ts";
import { type RandomJob, randomJob } from "../tasks/random-jobs.ts";
import { type TaskTimes, taskTimesOf } from "../tasks/task-times.ts";

/** Where a job trains: devices of this process, or two machines with a cable of that many Gb/s. */
export type Place = "alone" | "1g" | "10g";

/** A job of the validation. */
export interface PlacedJob extends RandomJob {
  readonly name: string;
  readonly place: Place;
}

/**
 * Job number `index` of a seed. A step takes at most some 100 ms on one core: a window of a second
 * then has several steps. On machines each of two has a device, and no table is cached.
 */
export function placedJob(seed: number, index: number, place: Place): PlacedJob {
  const isAlone = place === "alone";
  const devices = isAlone ? [1, 2] : [2];
  const limits = { idsMax: 400_000, flopMax: 8e9 };
  const job = randomJob({ seed, index, devices, mayCache: isAlone, ...limits });
  const cable = isAlone ? "" : `, cable ${place}`;
  return { ...job, name: `${isAlone ? "alone" : "links"}.${index}`, place, text: job.text + cable };
}

/** Windows of a job, and their length. */
const windowsOfJob = 4;
export const windowMs = 900;
/**
 * Before them, V8 compiles the programs: it takes processor time beside the devices, and their
 * steps become shorter, for as many steps as here; at most for this time.
 */
const warmSteps = 700;
export const warmMsMax = 12_000;
const warmMsMin = 4000;
/** A checkpoint never falls into a measurement. */
const everySteps = 1_000_000;
/** Steps whose timelines are collected. */
const tracedSteps = 100;

export interface MeasuredSteps {
  /** Seconds of a step, window by window. */
  readonly windows: readonly number[];
  /** Of the device that works longest. */
  readonly stages: TaskTimes;
  /** Seconds that a reader takes for a batch. */
  readonly reading: number;
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

/** Trains a job on devices of this process for some seconds. */
export async function measureAlone(
  cluster: Cluster,
  home: string,
  job: RandomJob,
  plan: object,
): Promise<MeasuredSteps> {
  const own = mkdtempSync(join(home, "job-"));
  try {
    const run = await cluster.submit({ ...jobIn(own, job, plan), devices: job.devices });
    const { windows, reading } = await windowsOf(run);
    const stages = longestOf(await run.timelines({ steps: tracedSteps }));
    await run.cancel();
    await run.result();
    return { windows, stages, reading };
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}

async function windowsOf(run: Run): Promise<Omit<MeasuredSteps, "stages">> {
  const windows: number[] = [];
  let [warmMs, warm, ms, steps, reading] = [0, 0, 0, 0, 0];
  const isWarm = () => warmMs >= (warm >= warmSteps ? warmMsMin : warmMsMax);
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
    windows.push(ms / steps / 1000);
    reading = times.readMs / 1000;
    [ms, steps] = [0, 0];
    if (windows.length === windowsOfJob) break;
  }
  return { windows, reading };
}

/** The task times of the device that works longest. */
function longestOf({ threads }: RunTimelines): TaskTimes {
  const byDevice = threads
    .filter(({ actor }) => actor.startsWith("device"))
    .map(({ records }) => {
      return taskTimesOf(
        records.map(([kind, what, , fromMs, toMs]) => ({ kind, what, fromMs, toMs })),
      );
    });
  const workOf = (times: TaskTimes) =>
    Object.entries(times).reduce(
      (sum, [name, own]) => sum + (name.startsWith("wait.") ? 0 : own),
      0,
    );
  const [first = {}] = byDevice.sort((a, b) => workOf(b) - workOf(a));
  return first;
}
