// The schedule: the steps of a run, and the steps at which training pauses for a cut. A pure
// function of the job and the number of samples, so that a restored run continues with the same
// schedule.

/** Largest number of steps that devices run without a pause: the capacity of the loss ring. */
export const windowStepsMax = 1024;

export interface Schedule {
  readonly batchSize: number;
  readonly samples: number;
  readonly stepsPerEpoch: number;
  /** The number of the step before the first: above 0 after a warm start. */
  readonly begin: number;
  /** The number of the last step. */
  readonly steps: number;
}

/** The actions once step `step` has been reached. */
export interface Cut {
  readonly step: number;
  readonly evaluate: boolean;
  readonly checkpoint: boolean;
  readonly isLast: boolean;
}

/** The part of a job that decides its cuts. */
export interface CutOptions {
  readonly evaluation?: { readonly everySteps: number } | undefined;
  readonly checkpoint: { readonly everySteps: number };
}

export function scheduleOf(options: {
  readonly samples: number;
  readonly batchSize: number;
  readonly passes: number;
  /** @default 0 */
  readonly begin?: number;
}): Schedule {
  const { samples, batchSize, passes, begin = 0 } = options;
  const stepsPerEpoch = Math.ceil(samples / batchSize); // The short last batch is kept.
  return { batchSize, samples, stepsPerEpoch, begin, steps: begin + stepsPerEpoch * passes };
}

/**
 * Returns the next cut after `step` steps, or a pause without actions if the window ends earlier.
 */
export function nextCut(schedule: Schedule, job: CutOptions, step: number): Cut {
  const { evaluation, checkpoint } = job;
  const every = evaluation?.everySteps || schedule.stepsPerEpoch;
  const evaluateAt = evaluation === undefined ? schedule.steps : after(schedule, step, every);
  const checkpointAt = after(schedule, step, checkpoint.everySteps);
  const at = Math.min(evaluateAt, checkpointAt, step + windowStepsMax, schedule.steps);
  const isLast = at === schedule.steps;
  return {
    step: at,
    evaluate: evaluation !== undefined && (isLast || at === evaluateAt),
    checkpoint: isLast || at === checkpointAt,
    isLast,
  };
}

/** A cut that is known in advance: a replay makes the cuts of the run that it replays. */
export type PlannedCut = Pick<Cut, "step" | "evaluate" | "checkpoint">;

/**
 * Returns the first of `cuts` after `step` steps, or a pause without actions if the window ends
 * earlier.
 */
export function nextPlanned(cuts: readonly PlannedCut[], step: number): Cut {
  const next = cuts.find((cut) => cut.step > step);
  const at = step + windowStepsMax;
  if (next !== undefined && next.step <= at) return { ...next, isLast: next === cuts.at(-1) };
  return { step: at, evaluate: false, checkpoint: false, isLast: false };
}

/** The samples of a step: `count` places of epoch `epoch`, from place `first`. */
export function placesOf(
  schedule: Schedule,
  step: number,
): { epoch: number; first: number; count: number } {
  const own = step - schedule.begin;
  const epoch = Math.floor(own / schedule.stepsPerEpoch);
  const first = (own % schedule.stepsPerEpoch) * schedule.batchSize;
  return { epoch, first, count: Math.min(schedule.batchSize, schedule.samples - first) };
}

/** The next multiple of `every`, counted from the first step of the run. */
function after({ begin }: Schedule, step: number, every: number): number {
  return begin + (Math.floor((step - begin) / every) + 1) * every;
}
