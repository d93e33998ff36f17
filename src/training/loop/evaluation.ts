// Evaluation at a cut: every device scores its slices of the held-out samples, in file order, and
// sends logits and labels to device 0, which computes the metrics over all of them. Creates and
// dirties nothing.

import type { BatchIntake, LocalBatch } from "../../exchange/batch-ring.ts";
import type { Tensor } from "../../kernels/contract/kernels.ts";
import { predictedBy } from "../../model/loss.ts";
import type { DeviceState } from "../step/device-state.ts";
import { forwardStep } from "../step/step.ts";
import { partBytesOf, samplesOf } from "../topology/topology.ts";

/** All held-out samples in file order: (samples) each. */
export interface Scores {
  readonly logits: Float32Array;
  readonly labels: Float32Array;
}

/**
 * Scores the `samples` held-out samples of a stream, batch by batch. Resolves to the scores of all
 * devices on device 0, and to undefined on the others.
 */
export async function scoreAll(
  device: DeviceState,
  intake: Pick<BatchIntake, "next" | "release" | "grant">,
  samples: number,
  stream: "evaluation" | "test",
): Promise<Scores | undefined> {
  const { batchSize } = device.topology.input;
  const batches = Math.ceil(samples / batchSize);
  const scores =
    device.rank === 0
      ? { logits: new Float32Array(samples), labels: new Float32Array(samples) }
      : undefined;
  intake.grant(stream, batches);
  for (let index = 0; index < batches; index++) {
    const batch = await intake.next(stream);
    await sendScores(device, batch, await forwardStep(device, batch));
    await receiveScores(device, batch.batchSamples, scores, index * batchSize);
    intake.release(stream);
  }
  return scores;
}

/** A device's part: its logits (b), then its labels (b). */
async function sendScores(device: DeviceState, batch: LocalBatch, logits: Tensor): Promise<void> {
  const { exchange, kernels, topology } = device;
  await exchange.scores.open(partBytesOf(topology, batch.batchSamples).scores);
  const { buffer, byteOffset, byteLength } = exchange.scores.outbox(0);
  const part = new Float32Array(buffer, byteOffset, byteLength / 4);
  part.set(predictedBy(topology.graph, kernels.read(logits)));
  part.set(batch.labels, batch.samples);
  exchange.scores.start();
}

/** Parts lie in the order of the devices, which is that of the batch; its first sample is `at`. */
async function receiveScores(
  { exchange, topology }: DeviceState,
  batchSamples: number,
  scores: Scores | undefined,
  at: number,
): Promise<void> {
  const { buffer, byteOffset } = await exchange.scores.finish();
  if (scores !== undefined) {
    const parts = new Float32Array(buffer, byteOffset, 2 * batchSamples);
    for (let peer = 0; peer < topology.devices; peer++) {
      const { first, count } = samplesOf(topology, peer, batchSamples);
      scores.logits.set(parts.subarray(2 * first, 2 * first + count), at + first);
      scores.labels.set(parts.subarray(2 * first + count, 2 * (first + count)), at + first);
    }
  }
  exchange.scores.close();
}
