// The pipeline of steps: up to three batches in flight on a device.
//
//   depth 1   read, exchange, compute, then the next batch
//   depth 2   the next batches are read while one computes
//   depth 3   and the bags of the next one travel to the rows while one computes
//
// It changes no bit: weights are read and changed in the computing step alone, in the order of the
// steps (papers.md 1.6). At the end of a window, and at a stop, nothing is left in flight but
// batches that were read: a cut finds the model between two steps.

import { z } from "zod";
import type { BatchIntake } from "../exchange/batch-ring.ts";
import type { DeviceState } from "./device-state.ts";
import { type BegunStep, beginStep, finishStep, type StepOutcome } from "./step.ts";

export const pipelineOptions = z.strictObject({
  /** Batches in flight: one; 2: reading ahead; 3: and exchanging ids ahead. Changes no bit. */
  depth: z.literal([1, 2, 3]).default(3),
});

export type PipelineSpec = z.output<typeof pipelineOptions>;

export interface Pipeline {
  /**
   * Runs step `step` of a window that ends before `toStep`. `askedStop` is read where the step
   * begins: the step after which device 0 was asked to stop, or -1.
   */
  run(step: number, toStep: number, askedStop: () => number): Promise<StepOutcome>;
}

/** A pipeline that takes `steps` batches from the intake. */
export function createPipeline(options: {
  readonly device: DeviceState;
  readonly intake: BatchIntake;
  readonly depth: PipelineSpec["depth"];
  readonly steps: number;
}): Pipeline {
  const { device, intake, depth, steps } = options;
  let begun: BegunStep | undefined;
  if (depth > 1) intake.grant("training", steps);
  return {
    async run(step, toStep, askedStop) {
      if (begun === undefined) {
        if (depth === 1) intake.grant("training", 1);
        begun = await beginStep(device, await intake.next("training"), step, askedStop());
      }
      const current = begun;
      begun = undefined;
      const outcome = await finishStep(device, current, async (stopAfter) => {
        const isLast = step + 1 >= toStep || (stopAfter >= 0 && step + 1 >= stopAfter);
        if (depth < 3 || isLast) return;
        const batch = intake.nextIfThere("training");
        if (batch !== undefined) begun = await beginStep(device, batch, step + 1, askedStop());
      });
      intake.release("training");
      return outcome;
    },
  };
}
