// The trace of a device's steps: what it does when. Every `everySteps`-th step is traced, the one
// before a multiple of it, so that a checkpoint after it is seen. No computation reads it: no
// weight depends on it.
//
// A device does one thing at a time. `enter` says what the device turns to, and for which step:
// with a pipeline, also for steps after the one that it computes.

import type { Clock } from "../../ports/clock.ts";

/** What a device does for a step. */
export const stepStages = [
  "batch", // waits for a batch that its readers have not read yet
  "ids", // turns ids into rows, and sends them to where the rows lie
  "compute", // layers, forward and backward, and the loss
  "tiers", // receives ids, and lets rows come up from below device memory
  "lookup", // reads rows, adds them up, and sends the vectors
  "exchange", // waits for vectors, gradients or losses of other devices
  "update", // rows and dense weights take their gradients
  "allReduce", // waits for the dense gradients of all
  "checkpoint", // hands its part of the model to its writer, after the step
] as const;

export type StepStage = (typeof stepStages)[number];

/** When something was done, in milliseconds since 1970. */
export interface Interval {
  readonly name: StepStage | "read";
  readonly fromMs: number;
  readonly toMs: number;
}

/** What a thread did for a step. Plain data. */
export interface TracedStep {
  readonly step: number;
  readonly intervals: readonly Interval[];
}

export interface StepTrace {
  /** A step begins: the traces of all steps before it are complete. */
  begin(): void;
  /** From now on the device does this, for a step; undefined: for none that is traced. */
  enter(step: number | undefined, stage: StepStage): void;
  /** The step is over. */
  end(step: number): void;
  /** The cut after `step` steps was handed over: it belongs to the last of them. */
  cut<Result>(step: number, take: () => Promise<Result>): Promise<Result>;
}

/** Where nothing is traced. */
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

/** A trace of every `everySteps`-th step, which is told once it is complete. */
export function createStepTrace(options: {
  readonly everySteps: number;
  readonly clock: Clock;
  readonly tell: (traced: TracedStep) => void;
}): StepTrace {
  const { everySteps, clock, tell } = options;
  if (everySteps === 0) return noTrace;
  const now = epochClock(clock);
  const open = new Map<number, Interval[]>();
  let current: { readonly step: number; readonly name: StepStage; readonly fromMs: number } | null =
    null;
  /** A step that is over, and may yet be followed by its checkpoint. */
  let last: TracedStep | undefined;

  const close = (toMs: number) => {
    if (current === null) return;
    const { step, name, fromMs } = current;
    const intervals = open.get(step) ?? [];
    intervals.push({ name, fromMs, toMs });
    open.set(step, intervals);
    current = null;
  };
  const enter = (step: number | undefined, name: StepStage) => {
    const isOurs = step !== undefined && isTraced(step, everySteps);
    if (!isOurs && current === null) return;
    const fromMs = now();
    close(fromMs);
    if (isOurs) current = { step, name, fromMs };
  };
  const end = (step: number) => {
    close(now());
    const intervals = open.get(step);
    open.delete(step);
    if (intervals !== undefined) last = { step, intervals };
  };
  const begin = () => {
    if (last !== undefined) tell(last);
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

/** Milliseconds since 1970 that never run backwards: the day as it was, and what has gone since. */
export function epochClock(clock: Clock): () => number {
  const offset = clock.date().getTime() - clock.now();
  return () => offset + clock.now();
}
