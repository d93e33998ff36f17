// The trace of a device's steps: which task runs at what time. The last steps are in the device's
// timeline (src/ports/timeline.ts). Every `everySteps`-th step is exported, too: the step before a
// multiple of `everySteps`, so that the trace shows a checkpoint after it. No computation reads the
// trace, so no weight depends on it.
//
// A device does one thing at a time. `enter` sets the task that the device begins, and the step
// that the task serves: with a pipeline, that may be a step after the one that it computes.

import type { Clock } from "../../ports/clock.ts";
import type { Timeline } from "../../ports/timeline.ts";
import { type StepTaskName, stepTasks } from "../step/step-graph.ts";

/** The time of a task, in milliseconds since 1970. */
export interface Interval {
  readonly name: StepTaskName | "read";
  readonly fromMs: number;
  readonly toMs: number;
}

/** The tasks of one thread in a step. Plain data. */
export interface TracedStep {
  readonly step: number;
  readonly intervals: readonly Interval[];
}

export interface StepTrace {
  /** A step begins: the traces of all steps before it are complete. */
  begin(): void;
  /** The device begins a task for a step; undefined: for a step that is not traced. */
  enter(step: number | undefined, task: StepTaskName): void;
  /** The step is over. */
  end(step: number): void;
  /**
   * Traces the capture of the checkpoint after `step` steps as a part of the last of these steps.
   */
  cut<Result>(step: number, take: () => Promise<Result>): Promise<Result>;
}

/** A trace that records nothing. */
export const noTrace: StepTrace = {
  begin() {},
  enter() {},
  end() {},
  cut: (_step, take) => take(),
};

/** Whether a step is traced; 0: never. */
export function isTraced(step: number, everySteps: number): boolean {
  return everySteps > 0 && (step + 1) % everySteps === 0;
}

/**
 * A trace that passes every `everySteps`-th step to `report` once the step is complete, and notes
 * the tasks of all steps in `timeline`.
 */
export function createStepTrace(options: {
  readonly everySteps: number;
  readonly clock: Clock;
  readonly report: (traced: TracedStep) => void;
  readonly timeline?: Timeline | undefined;
}): StepTrace {
  const { everySteps, clock, report, timeline } = options;
  if (everySteps === 0 && timeline === undefined) return noTrace;
  const open = new Map<number, Interval[]>();
  let current: {
    readonly step: number;
    readonly name: StepTaskName;
    readonly fromMs: number;
  } | null = null;
  /** A finished step that a checkpoint may still extend. */
  let last: TracedStep | undefined;

  const close = (toMs: number) => {
    if (current === null) return;
    const { step, name, fromMs } = current;
    current = null;
    timeline?.add("task", stepTasks.indexOf(name), step, fromMs, toMs);
    if (!isTraced(step, everySteps)) return;
    const intervals = open.get(step) ?? [];
    intervals.push({ name, fromMs, toMs });
    open.set(step, intervals);
  };
  const enter = (step: number | undefined, name: StepTaskName) => {
    const isOurs = step !== undefined && (timeline !== undefined || isTraced(step, everySteps));
    if (!isOurs && current === null) return;
    const fromMs = clock.epochMs();
    close(fromMs);
    if (isOurs) current = { step, name, fromMs };
  };
  const end = (step: number) => {
    close(clock.epochMs());
    const intervals = open.get(step);
    open.delete(step);
    if (intervals !== undefined) last = { step, intervals };
  };
  const begin = () => {
    if (last !== undefined) report(last);
    last = undefined;
  };
  return {
    begin,
    enter,
    end,
    async cut(step, take) {
      if (last !== undefined) open.set(last.step, [...last.intervals]);
      enter(step - 1, "checkpoint");
      const result = await take();
      end(step - 1);
      begin();
      return result;
    },
  };
}
