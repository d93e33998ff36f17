// Evaluation at a cut: every device scores its slices of the held-out samples, in file order, into
// shared memory; device 0 then computes the metrics over all of them. Creates and dirties nothing.

import type { BatchIntake } from "../exchange/batch-ring.ts";
import type { DeviceState } from "./device-state.ts";
import { forwardStep } from "./step.ts";
import { samplesOf } from "./topology.ts";

/** Memory for the scores of one evaluation, shared by all devices: (samples) each. */
export interface Scores {
  readonly logits: Float32Array;
  readonly labels: Float32Array;
}

/** Bytes that the scores of `samples` samples need. */
export function scoresBytes(samples: number): number {
  return 8 * samples;
}

export function scoresOver(memory: ArrayBufferLike, samples: number): Scores {
  return {
    logits: new Float32Array(memory, 0, samples),
    labels: new Float32Array(memory, 4 * samples, samples),
  };
}

/**
 * Scores all held-out samples, batch by batch. When it resolves, every device's part of `scores` is
 * written, and any device may read all of it.
 */
export async function scoreAll(
  device: DeviceState,
  intake: BatchIntake,
  scores: Scores,
): Promise<void> {
  const { batchSize } = device.topology.input;
  const samples = scores.logits.length;
  const batches = Math.ceil(samples / batchSize);
  if (device.rank === 0) intake.grant("evaluation", batches);
  for (let index = 0; index < batches; index++) {
    const batch = await intake.next("evaluation");
    const logits = await forwardStep(device, batch);
    const { first } = samplesOf(device.topology, device.rank, batch.batchSamples);
    const at = index * batchSize + first;
    scores.logits.set(device.kernels.read(logits), at);
    scores.labels.set(batch.labels, at);
    intake.release("evaluation");
  }
  await meet(device);
}

/** A round without content: who comes back knows that all have come. */
async function meet({ exchange }: DeviceState): Promise<void> {
  await exchange.losses.open(() => 0);
  exchange.losses.start();
  await exchange.losses.finish();
  exchange.losses.close();
}
