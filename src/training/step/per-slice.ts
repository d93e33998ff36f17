// One number for each slice of the batch, sent by the device that runs the slice to all others: its
// loss, or the first bad sample of a failed step. Every device folds the numbers in the same order.

import type { PartBytes } from "../../exchange/exchange.ts";
import type { StageDevice } from "./stage-device.ts";

/** Begins a round: `values` belong to this device's slices; `bytes` as `StepBytes.losses`. */
export async function sendPerSlice(
  device: StageDevice<"losses">,
  bytes: PartBytes,
  values: Float64Array,
): Promise<void> {
  const { exchange } = device;
  await exchange.losses.open(bytes);
  const { buffer, byteOffset } = exchange.losses.outbox();
  new Float64Array(buffer, byteOffset, values.length).set(values);
  exchange.losses.start();
}

/** Ends the round: the values of all slices of the batch, in order. */
export async function receivePerSlice(device: StageDevice<"losses">): Promise<Float64Array> {
  const { exchange, topology } = device;
  const { buffer, byteOffset } = await exchange.losses.finish();
  const values = new Float64Array(buffer, byteOffset, topology.input.slices).slice();
  exchange.losses.close();
  return values;
}

/** The sum by the tree over slices. */
export function foldSlices(values: Float64Array): number {
  let sums = Array.from(values);
  while (sums.length > 1) {
    const pairs = sums;
    sums = pairs.filter((_, i) => i % 2 === 0).map((left, i) => left + (pairs[2 * i + 1] ?? 0));
  }
  return sums[0] ?? 0;
}
