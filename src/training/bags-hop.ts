// Hop 2 of a step: ids become rows where the samples are, and rows become bags where they lie.

import { writeBagFrame } from "../embedding/bags.ts";
import type { SampleRows } from "../embedding/local-rows.ts";
import type { LocalBatch } from "../exchange/batch-ring.ts";
import type { Region } from "../exchange/exchange.ts";
import type { Bags } from "../kernels/kernels.ts";
import type { DeviceState } from "./device-state.ts";
import type { StepPlan } from "./step-plan.ts";

/**
 * The rows that this device's samples look up. @throws IdOutOfRangeError naming table and sample
 */
export function rowsOfSamples(device: DeviceState, batch: LocalBatch, plan: StepPlan): SampleRows {
  return plan.lane.localRows.take(batch, device.topology.bagTables, plan.dropout.firstSample);
}

/** Sends each device the bags of its shards; `stopAfter` travels with them. */
export async function sendBags(
  device: DeviceState,
  rows: SampleRows,
  plan: StepPlan,
  stopAfter: number,
): Promise<void> {
  const { exchange, topology } = device;
  await exchange.ids.open(plan.bytes.ids);
  for (const [peer, shards] of topology.heldBy.entries()) {
    writeBagFrame(intsOf(exchange.ids.outbox(peer)), rows, shards, stopAfter);
  }
  exchange.ids.start();
}

/** The bags of this device's shards, of all samples, and what device 0 said of a stop. */
export async function receiveBags(
  device: DeviceState,
  plan: StepPlan,
): Promise<{ bags: Bags; stopAfter: number }> {
  const { exchange, topology, rank } = device;
  const inbox = await exchange.ids.finish();
  let { byteOffset } = inbox;
  const frames = plan.counts.map((samples, peer) => {
    const byteLength = plan.bytes.ids(peer, rank);
    const ints = intsOf({ buffer: inbox.buffer, byteOffset, byteLength });
    byteOffset += byteLength;
    return { ints, samples };
  });
  const bags = plan.lane.bags.gather(frames, topology.heldBy[rank] ?? []);
  const stopAfter = frames[0]?.ints[0] ?? -1;
  exchange.ids.close();
  return { bags, stopAfter };
}

function intsOf({ buffer, byteOffset, byteLength }: Region): Int32Array {
  return new Int32Array(buffer, byteOffset, byteLength / 4);
}
