// The seconds of each task of a device's step, from its timeline: means over steps, because the
// time of a run is a sum over steps, including those that wait for a core or collect garbage.

import { stepTasks, type TimelineRecord, waitedFor } from "../../../internal.ts";

/** Seconds by task without its waits, by wait (`wait.NAME`), and outside tasks (`between`). */
export type TaskTimes = Readonly<Record<string, number>>;

type TimedRecord = Pick<TimelineRecord, "kind" | "what" | "fromMs" | "toMs">;

/** The task after which the timeline is cut into steps: every step has it once, near its end. */
const lastTask = stepTasks.indexOf("losses");

/** The first steps touch memory for the first time. */
const coldSteps = 2;

/**
 * Mean times of the steps in `records`, oldest first. `lastMs`: only steps that began within this
 * time before the last record count, or else the last step. Empty: there is no whole step.
 */
export function taskTimesOf(
  records: Iterable<TimedRecord>,
  lastMs = Number.POSITIVE_INFINITY,
): TaskTimes {
  const steps: Map<string, number>[] = [];
  const beganMs: number[] = [];
  let step: Map<string, number> | undefined;
  let waits: { readonly name: string; readonly ms: number }[] = [];
  let endedMs: number | undefined;
  for (const { kind, what, fromMs, toMs } of records) {
    // A wait is recorded at its end, before the task that contains it.
    if (kind === "wait") waits.push({ name: `wait.${waitedFor[what]}`, ms: toMs - fromMs });
    if (kind !== "task") continue;
    const waited = waits.reduce((sum, { ms }) => sum + ms, 0);
    for (const { name, ms } of waits) add(step, name, ms);
    add(step, stepTasks[what] ?? "", toMs - fromMs - waited);
    if (endedMs !== undefined) add(step, "between", fromMs - endedMs);
    [waits, endedMs] = [[], toMs];
    if (what !== lastTask) continue;
    step = new Map();
    steps.push(step);
    beganMs.push(toMs);
  }
  steps.pop(); // Not a whole step.
  const early = beganMs.filter((ms) => ms < (endedMs ?? 0) - lastMs).length;
  const cold = Math.min(coldSteps, Math.floor(steps.length / 2));
  steps.splice(0, Math.min(Math.max(early, cold), steps.length - 1));
  return meanTimes(steps.map((own) => Object.fromEntries([...own].map(inSeconds))));
}

const inSeconds = ([name, ms]: readonly [string, number]) => [name, ms / 1000] as const;

/** The mean of each task and wait. Times that do not name a task count as 0 s of it. */
export function meanTimes(all: readonly TaskTimes[]): TaskTimes {
  const names = new Set(all.flatMap((times) => Object.keys(times)));
  return Object.fromEntries(
    [...names].map((name) => {
      return [name, all.reduce((sum, times) => sum + (times[name] ?? 0), 0) / all.length];
    }),
  );
}

function add(step: Map<string, number> | undefined, name: string, ms: number): void {
  step?.set(name, (step.get(name) ?? 0) + Math.max(0, ms));
}
