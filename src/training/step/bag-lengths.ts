// Stage 4 of a step, for dynamic ids: the lengths of bags are sent beside the vectors. Ids without
// a row are dropped from their bags, and only the devices of the rows know how many. Where a table
// has several row blocks, the device of the samples takes the mean over all blocks and needs the
// lengths.
//
//   int32: for each counted lookup in a shard of the sender, the lengths (b) of the receiver's bags

import type { Bags } from "../../kernels/contract/kernels.ts";
import { isCounted, type Topology } from "../topology/topology.ts";
import type { StageDevice } from "./stage-device.ts";
import type { StepPlan } from "./step-plan.ts";

/** The part of a device that the exchange of bag lengths needs. */
export interface BagLengthsDevice extends StageDevice<"bagLengths"> {
  /** By lookup, (bmax): lengths of this device's bags, without dynamic ids that have no row. */
  readonly bagLengths: ReadonlyMap<number, Int32Array>;
}

/** Memory for the lengths of the counted lookups: by lookup, (bmax). */
export function createBagLengths(
  { countedLookups }: Topology,
  samplesMax: number,
): ReadonlyMap<number, Int32Array> {
  return new Map(countedLookups.map((lookup) => [lookup, new Int32Array(samplesMax)]));
}

/** Sends each device the lengths of its bags, without the ids that have no row. */
export async function sendBagLengths(
  { exchange, topology, rank }: BagLengthsDevice,
  { samples: all, offsets }: Bags,
  plan: StepPlan,
): Promise<void> {
  if (topology.countedLookups.length === 0) return;
  await exchange.bagLengths.open(plan.bytes.bagLengths);
  let first = 0;
  for (const [peer, count] of plan.counts.entries()) {
    const { buffer, byteOffset, byteLength } = exchange.bagLengths.outbox(peer);
    const lengths = new Int32Array(buffer, byteOffset, byteLength / 4);
    let next = 0;
    for (const [i, { lookup }] of (topology.lookupsBy[rank] ?? []).entries()) {
      if (!isCounted(topology, lookup)) continue;
      for (let bag = i * all + first; bag < i * all + first + count; bag++) {
        lengths[next++] = (offsets[bag + 1] ?? 0) - (offsets[bag] ?? 0);
      }
    }
    first += count;
  }
  exchange.bagLengths.start();
}

/** Receives the lengths, and adds them up over the shards of a lookup's table. */
export async function receiveBagLengths(device: BagLengthsDevice, plan: StepPlan): Promise<void> {
  const { exchange, topology, rank, bagLengths } = device;
  if (topology.countedLookups.length === 0) return;
  for (const sums of bagLengths.values()) sums.fill(0);
  const { buffer, byteOffset } = await exchange.bagLengths.finish();
  let start = byteOffset;
  for (const [peer, lookups] of topology.lookupsBy.entries()) {
    const bytes = plan.bytes.bagLengths(peer, rank);
    const lengths = new Int32Array(buffer, start, bytes / 4);
    let next = 0;
    for (const { lookup } of lookups) {
      const sums = bagLengths.get(lookup);
      if (sums === undefined) continue;
      for (let b = 0; b < plan.samples; b++) sums[b] = (sums[b] ?? 0) + (lengths[next++] ?? 0);
    }
    start += bytes;
  }
  exchange.bagLengths.close();
}
