// The pipeline of steps: batches in flight on a device.
//
//   depth 1   read, exchange, compute, then the next batch
//   depth 2   the next batches are read while one computes
//   depth 3   and the input dist of the next batch runs while one computes; bags of cached tables
//             are sent earlier, so that their rows are prefetched in time (`tiers.prefetch`)
//
// The pipeline changes no bit of the result: only the computing step reads and changes weights, in
// the order of the steps (as in Neo's pipeline: Mudigere et al., arXiv 2104.05158). Tables with
// `staleness: 1` are read one update before that: at any depth, in every step but the first of a
// window, so that their vectors are sent while the previous step ends ("semi-sync"). With `ahead`,
// other tables are read as early, too, and the bags that the update changes are read again after
// it; then bags arrive a step earlier than at depth 3 alone. At the end of a window, and at a stop,
// only batches that were read are left in flight, so that a cut finds the model between two steps.
// A batch with a refused id ends the run in the batch's own step, not in the step that ran while
// the batch was read; with tables that are read early, in the previous step, which waits for the
// batch's bags.
//
// At an eviction step the pipeline is empty, as at the end of a window: no later step is staged
// before the eviction (dynamic-ids.ts).

import { nextEvictionStep } from "../../embedding/dynamic-ids/shard-ids.ts";
import { IdOutOfRangeError } from "../../errors/errors.ts";
import type { BatchIntake } from "../../exchange/batch-intake.ts";
import type { LocalBatch } from "../../exchange/batch-ring.ts";
import type { StepMeter } from "../meters/step-meter.ts";
import type { DeviceState } from "../step/device-state.ts";
import { evictIds } from "../step/dynamic-ids.ts";
import { tierCountsOf } from "../step/prefetch.ts";
import {
  type BegunStep,
  type LateStep,
  readAhead,
  readRest,
  type StagedStep,
  stageStep,
} from "../step/reads.ts";
import { beginStep, finishStep, type StepOutcome } from "../step/step.ts";
import { prefetchOf } from "../topology/topology.ts";
import type { PipelineSpec } from "./pipeline-options.ts";

export interface Pipeline {
  /**
   * Runs step `step` of a window that ends before `toStep`. `requestedStop` is called when the step
   * begins: it returns the step after which device 0 was requested to stop, or -1.
   * @throws IdOutOfRangeError naming table and sample
   */
  run(step: number, toStep: number, requestedStop: () => number): Promise<StepOutcome>;
}

/**
 * Creates a pipeline that takes `steps` batches from the intake, and reports its times to the
 * meter.
 */
export function createPipeline(options: {
  readonly device: DeviceState;
  readonly intake: BatchIntake;
  readonly depth: PipelineSpec["depth"];
  readonly steps: number;
  readonly meter: StepMeter;
}): Pipeline {
  const { device, intake, depth, steps, meter } = options;
  const { trace } = device;
  const { ids } = device.frames;
  const stagedMax = depth === 3 ? prefetchOf(device.topology) : 0;
  const { isStale, isAhead } = device.topology.reads;
  const { tables } = device.topology.input.model;
  /**
   * Steps whose rows are being prefetched, in order; rows of the first of them may have been read
   * already.
   */
  const staged: (StagedStep | LateStep)[] = [];
  /** The step after `staged`, once it has begun, or the error in its batch. */
  let begun: BegunStep | { readonly refused: IdOutOfRangeError } | undefined;
  if (depth > 1) intake.grant("training", steps);

  const begin = (batch: LocalBatch, step: number, requestedStop: () => number) =>
    meter.exchangeInput(() => beginStep(device, batch, step, requestedStop()));

  const beginAhead = async (batch: LocalBatch, step: number, requestedStop: () => number) => {
    try {
      return await begin(batch, step, requestedStop);
    } catch (error) {
      if (!(error instanceof IdOutOfRangeError)) throw error;
      return { refused: error }; // Thrown in its own step, as without a pipeline.
    }
  };

  /** Begins and stages the steps after `step`, as far as that is possible without waiting. */
  const goAhead = async (
    step: number,
    toStep: number,
    stop: number,
    requestedStop: () => number,
  ) => {
    for (;;) {
      if (begun === undefined) {
        const next = step + 1 + staged.length;
        const stopAfter = staged.at(-1)?.staged.stopAfter ?? stop;
        if (next >= toStep || (stopAfter >= 0 && next >= stopAfter) || !ids.isFree()) return;
        const batch = intake.nextIfThere("training");
        if (batch === undefined) return;
        trace.enter(next, "batch");
        begun = await beginAhead(batch, next, requestedStop);
      } else if (!("refused" in begun) && staged.length < stagedMax && (await ids.isThere())) {
        staged.push(await stageStep(device, begun));
        begun = undefined;
      } else {
        return;
      }
    }
  };

  /** Returns the step: taken from the steps ahead if it has begun, else begun now. */
  const take = async (step: number, requestedStop: () => number) => {
    const next = staged.shift() ?? begun;
    if (next === undefined) {
      if (depth === 1) intake.grant("training", 1);
      trace.enter(step, "batch");
      return begin(await intake.next("training"), step, requestedStop);
    }
    if (next === begun) begun = undefined;
    if ("refused" in next) throw next.refused;
    return next;
  };

  return {
    async run(step, windowEnd, requestedStop) {
      const ahead = staged.length + (begun === undefined ? 0 : 1);
      meter.begin(intake.waiting("training") + ahead);
      trace.begin();
      const toStep = Math.min(windowEnd, nextEvictionStep(tables, step));
      await evictIds(device, step);
      const current = await take(step, requestedStop);
      let isLast = true;
      const outcome = await finishStep(device, current, {
        async begin(stopAfter) {
          isLast = step + 1 >= toStep || (stopAfter >= 0 && step + 1 >= stopAfter);
          if (depth === 3) await goAhead(step, toStep, stopAfter, requestedStop);
        },
        async read(current) {
          if (isLast || !(isStale || isAhead)) return;
          staged.unshift(await readAhead(device, await take(step + 1, requestedStop), current));
        },
        async readRest() {
          const [next] = staged;
          if (isAhead && next !== undefined && "isLate" in next) {
            staged[0] = await readRest(device, next);
          }
        },
      });
      intake.release("training");
      trace.end(step);
      meter.end(tierCountsOf(device));
      return outcome;
    },
  };
}
