// The quality of a model during training, on held-out batches.

import { evaluate } from "../../../src/training/loop/metrics.ts";
import type { LocalDevices, WholeBatch } from "../devices/local-devices.ts";

/** The mean log loss of the devices' model over some batches. */
export async function logLossOf(
  local: LocalDevices,
  batches: readonly WholeBatch[],
): Promise<number> {
  const [logits, labels]: [number[], number[]] = [[], []];
  for (const batch of batches) {
    logits.push(...(await local.score(batch)));
    labels.push(...batch.labels);
  }
  return evaluate(Float32Array.from(logits), Float32Array.from(labels)).logLoss;
}
