// The pipeline of steps: up to three batches in flight on a device.
//
//   depth 1   read, exchange, compute, then the next batch
//   depth 2   the next batches are read while one computes
//   depth 3   and the bags of the next one travel to the rows while one computes
//
// It changes no bit: weights are read and changed in the computing step alone, in the order of the
// steps (papers.md 1.6). Tables with `staleness: 1` are read one update before that: at any depth,
// in every step but the first of a window, so that their vectors travel while the step before ends
// ("semi-sync"). At the end of a window, and at a stop, nothing is left in flight but batches that
// were read: a cut finds the model between two steps. A batch with an id that is refused ends the
// run in its own step, not in the one that ran beside its reading; where tables are stale, in the
// step before, which waits for its bags.

import { z } from "zod";
import { IdOutOfRangeError } from "../errors.ts";
import type { BatchIntake, LocalBatch } from "../exchange/batch-ring.ts";
import type { DeviceState } from "./device-state.ts";
import {
  type BegunStep,
  beginStep,
  finishStep,
  type ReceivedStep,
  readAhead,
  type StepOutcome,
} from "./step.ts";
import type { StepMeter } from "./step-meter.ts";

export const pipelineOptions = z.strictObject({
  /** Batches in flight: one; 2: reading ahead; 3: and exchanging ids ahead. Changes no bit. */
  depth: z.literal([1, 2, 3]).default(3),
});

export type PipelineSpec = z.output<typeof pipelineOptions>;

export interface Pipeline {
  /**
   * Runs step `step` of a window that ends before `toStep`. `askedStop` is read where the step
   * begins: the step after which device 0 was asked to stop, or -1.
   * @throws IdOutOfRangeError naming table and sample
   */
  run(step: number, toStep: number, askedStop: () => number): Promise<StepOutcome>;
}

/** A pipeline that takes `steps` batches from the intake, and tells the meter how long it took. */
export function createPipeline(options: {
  readonly device: DeviceState;
  readonly intake: BatchIntake;
  readonly depth: PipelineSpec["depth"];
  readonly steps: number;
  readonly meter: StepMeter;
}): Pipeline {
  const { device, intake, depth, steps, meter } = options;
  const { isStale } = device.topology.reads;
  /** The step that comes next, where it has begun, or what was wrong with its batch. */
  let ahead: BegunStep | ReceivedStep | IdOutOfRangeError | undefined;
  if (depth > 1) intake.grant("training", steps);

  const begin = (batch: LocalBatch, step: number, askedStop: () => number) =>
    meter.exchangeInput(() => beginStep(device, batch, step, askedStop()));

  const beginNow = async (step: number, askedStop: () => number) => {
    if (depth === 1) intake.grant("training", 1);
    return begin(await intake.next("training"), step, askedStop);
  };

  const beginAhead = async (step: number, askedStop: () => number) => {
    const batch = intake.nextIfThere("training");
    if (batch === undefined) return;
    try {
      ahead = await begin(batch, step, askedStop);
    } catch (error) {
      if (!(error instanceof IdOutOfRangeError)) throw error;
      ahead = error; // The step before it must end as it would without a pipeline.
    }
  };

  /** The step that has begun ahead, if any; it is then no longer ahead. */
  const takeAhead = (): BegunStep | ReceivedStep | undefined => {
    const begun = ahead;
    ahead = undefined;
    if (begun instanceof IdOutOfRangeError) throw begun;
    return begun;
  };

  return {
    async run(step, toStep, askedStop) {
      meter.begin(intake.waiting("training") + (ahead === undefined ? 0 : 1));
      const current = takeAhead() ?? (await beginNow(step, askedStop));
      let isLast = true;
      const outcome = await finishStep(device, current, {
        async begin(stopAfter) {
          isLast = step + 1 >= toStep || (stopAfter >= 0 && step + 1 >= stopAfter);
          if (depth === 3 && !isLast) await beginAhead(step + 1, askedStop);
        },
        async read() {
          if (isLast || !isStale) return;
          ahead = await readAhead(device, takeAhead() ?? (await beginNow(step + 1, askedStop)));
        },
      });
      intake.release("training");
      meter.end();
      return outcome;
    },
  };
}
