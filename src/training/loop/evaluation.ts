// Evaluation at a cut: every device scores its slices of the held-out samples, in file order, and
// sends logits, labels and groups to device 0, which computes the metrics over all of them. Creates
// and dirties nothing.
//
// b = samples of a device, L = labels of a sample.

import { groupWords, oneLabel, scoreWords } from "../../data/targets.ts";
import type { BatchIntake } from "../../exchange/batch-intake.ts";
import type { LocalBatch } from "../../exchange/batch-ring.ts";
import type { Tensor } from "../../kernels/contract/kernels.ts";
import { predictedBy } from "../../model/loss.ts";
import type { DeviceState } from "../step/device-state.ts";
import { forwardStep } from "../step/step.ts";
import { partBytesOf } from "../topology/exchange-shape.ts";
import { samplesOf } from "../topology/topology.ts";
import type { Scores } from "./metrics.ts";

/**
 * Scores the `samples` held-out samples of a stream, batch by batch. Resolves to the scores of all
 * devices, in file order, on device 0, and to undefined on the others.
 */
export async function scoreAll(
  device: DeviceState,
  intake: Pick<BatchIntake, "next" | "release" | "grant">,
  samples: number,
  stream: "evaluation" | "test",
): Promise<Scores | undefined> {
  const { batchSize, targets = oneLabel } = device.topology.input;
  const batches = Math.ceil(samples / batchSize);
  const scores = device.rank === 0 ? createScores(samples, targets) : undefined;
  intake.grant(stream, batches);
  for (let index = 0; index < batches; index++) {
    const batch = await intake.next(stream);
    await sendScores(device, batch, await forwardStep(device, batch));
    await receiveScores(device, batch.batchSamples, scores, index * batchSize);
    intake.release(stream);
  }
  return scores;
}

/** Scores to be filled. */
export function createScores(
  samples: number,
  { labels, hasGroups }: { readonly labels: number; readonly hasGroups: boolean },
): Scores {
  return {
    samples,
    logits: new Float32Array(samples * labels),
    labels: new Float32Array(samples * labels),
    ...(hasGroups ? { groups: new Float32Array(groupWords * samples) } : {}),
  };
}

/** Sends a device's part: its logits (b,L), its labels (b,L), then its groups (2,b), if any. */
async function sendScores(device: DeviceState, batch: LocalBatch, logits: Tensor): Promise<void> {
  const { exchange, kernels, topology } = device;
  await exchange.scores.open(partBytesOf(topology, batch.batchSamples).scores);
  const { buffer, byteOffset, byteLength } = exchange.scores.outbox(0);
  const part = new Float32Array(buffer, byteOffset, byteLength / 4);
  part.set(predictedBy(topology.graph, kernels.read(logits)));
  part.set(batch.labels, batch.labels.length);
  if (batch.groups !== undefined) part.set(batch.groups, 2 * batch.labels.length);
  exchange.scores.start();
}

/**
 * Receives the parts, which lie in device order, the order of the batch. The batch's first sample
 * is number `at` of the stream.
 */
async function receiveScores(
  { exchange, topology }: DeviceState,
  batchSamples: number,
  scores: Scores | undefined,
  at: number,
): Promise<void> {
  const { buffer, byteOffset } = await exchange.scores.finish();
  if (scores !== undefined) {
    const words = scoreWords(topology.input.targets);
    const { labels } = topology.input.targets ?? oneLabel;
    const parts = new Float32Array(buffer, byteOffset, words * batchSamples);
    for (let peer = 0; peer < topology.devices; peer++) {
      const { first, count } = samplesOf(topology, peer, batchSamples);
      const part = parts.subarray(words * first, words * (first + count));
      const place = labels * (at + first);
      scores.logits.set(part.subarray(0, labels * count), place);
      scores.labels.set(part.subarray(labels * count, 2 * labels * count), place);
      for (let half = 0; scores.groups !== undefined && half < groupWords; half++) {
        const own = (2 * labels + half) * count;
        scores.groups.set(part.subarray(own, own + count), half * scores.samples + at + first);
      }
    }
  }
  exchange.scores.close();
}
