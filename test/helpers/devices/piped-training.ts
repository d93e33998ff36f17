// Trains through the pipeline on devices in one thread, in a random interleaving: window after
// window, with an evaluation after each, like a run.

import { createSimulatedCells } from "../../../src/exchange/simulated-cells.ts";
import type { Kernels } from "../../../src/kernels/contract/kernels.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import { scoreAll } from "../../../src/training/loop/evaluation.ts";
import { createPipeline } from "../../../src/training/loop/pipeline.ts";
import type { PipelineSpec } from "../../../src/training/loop/pipeline-options.ts";
import { createStepMeter, meterWords } from "../../../src/training/meters/step-meter.ts";
import type { Recipe } from "../../../src/training/step/device-state.ts";
import type { TopologyInput } from "../../../src/training/topology/topology.ts";
import type { WholeBatch } from "./local-devices.ts";
import { type PipedDevice, pipedCells, startPipedDevices } from "./piped-devices.ts";

export interface Interleaving {
  readonly devices: number;
  readonly hostOf?: readonly number[];
  readonly depth: PipelineSpec["depth"];
  readonly seed?: number;
  /**
   * The steps after which, within a window, device 0 is asked to stop, once; then training resumes.
   */
  readonly pauseAt?: number;
}

export async function trainPiped(
  options: Interleaving & {
    readonly input: TopologyInput;
    readonly recipe: Recipe;
    readonly batches: readonly WholeBatch[];
    /** Full batches, except for the last. */
    readonly heldOut: readonly WholeBatch[];
    /** The number of steps of a window. */
    readonly window: number;
    /** The kernels of the devices. @default the reference */
    readonly kernels?: () => Kernels;
  },
) {
  const { input, recipe, batches, heldOut, window, devices: count, depth } = options;
  const { seed = 1, pauseAt, hostOf, kernels = createReference } = options;
  const steps = batches.length;
  const evaluated = heldOut.reduce((sum, { samples }) => sum + samples, 0);
  const cells = createSimulatedCells({ cells: pipedCells(input, count, hostOf), seed });
  const clock = new SimulatedClock();
  const place = startPipedDevices({
    ...{ input, recipe, devices: count, hostOf, kernels },
    cellsOf: (participant) => cells.cellsOf(participant),
    meterOf: () => createStepMeter(new BigInt64Array(meterWords), clock),
  });
  const losses: number[] = [];
  const scores: number[] = [];
  const cuts: number[] = [];
  const trainOn = async ({ state, intake }: PipedDevice) => {
    const meter = createStepMeter(new BigInt64Array(meterWords), clock);
    const pipeline = createPipeline({ device: state, intake, depth, steps, meter });
    let hasPaused = false;
    for (let step = 0; step < steps; ) {
      const toStep = Math.min(steps, (Math.floor(step / window) + 1) * window);
      for (let isPaused = false; step < toStep && !isPaused; ) {
        const now = step;
        const asked = () => (!hasPaused && state.rank === 0 && now >= (pauseAt ?? steps) ? 0 : -1);
        const { loss, stopAfter } = await pipeline.run(step++, toStep, asked);
        if (state.rank === 0) losses.push(loss);
        isPaused = stopAfter >= 0 && step >= stopAfter;
        hasPaused ||= isPaused;
      }
      const found = await scoreAll(state, intake, evaluated, "evaluation");
      if (state.rank !== 0) continue;
      cuts.push(step);
      if (step === steps) scores.push(...(found?.logits ?? []));
    }
  };
  const evaluations = Math.ceil(steps / window) + (pauseAt === undefined ? 0 : 1);
  const readAll = [
    () => place.serve("training", batches),
    () => place.serve("evaluation", Array.from({ length: evaluations }, () => heldOut).flat()),
  ];
  let error: unknown;
  try {
    await cells.run([...place.devices.map((device) => () => trainOn(device)), ...readAll]);
  } catch (thrown) {
    error = thrown;
  }
  const counts = place.devices.map(({ state }) => state.staleRows.counts);
  const staleRows = input.model.tables.map((_, table) =>
    counts.reduce((sum, own) => sum + (own[table] ?? 0), 0),
  );
  const sumOf = (name: "deferred" | "read") =>
    place.devices.reduce((sum, { state }) => sum + state.deferred.counts[name], 0);
  const ahead = { read: sumOf("read"), deferred: sumOf("deferred") };
  return { losses, scores, cuts, staleRows, ahead, digest: await place.digest(), error };
}
