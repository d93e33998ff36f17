// The seconds of each task of a device's step, from its timeline: means of the steps, as the time
// of a run is a sum over steps, of which some wait for a core or collect garbage.

import { stepTasks, type TimelineRecord, waitedFor } from "../../../internal.ts";

/** Seconds by task without its waits, by wait (`wait.NAME`), and outside tasks (`between`). */
export type TaskTimes = Readonly<Record<string, number>>;

type TimedRecord = Pick<TimelineRecord, "kind" | "what" | "fromMs" | "toMs">;

/** The last tasks of a step, in which the timeline is cut: every step has it once. */
const lastTask = stepTasks.indexOf("losses");

/** The first steps touch memory for the first time. */
const coldSteps = 2;

/**
 * `records`: oldest first. `lastMs`: counts only steps that began so long before the last record,
 * and else the last step. Empty: no whole step is there.
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
    // A wait is noted when it ends, before the task that it lies in.
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
