// Hop 3 of a step: the rows of a batch come into device memory, HBM ← DDR ← SSD, before they are
// looked up. Of tables that are all in memory they are there already, and nothing here waits.

import type { ShardLookups } from "../embedding/distinct.ts";
import type { StagedBags } from "../embedding/staging.ts";
import { receiveBags } from "./bags-hop.ts";
import type { DeviceState } from "./device-state.ts";
import { slabAt } from "./rows-hop.ts";
import type { StepPlan } from "./step-plan.ts";

/** What all devices look up of one shard, by places. */
export interface StagedLookups extends Omit<ShardLookups, "bags"> {
  readonly bags: StagedBags;
}

/** What the rows of this device are asked for in a step. */
export interface StagedRows {
  readonly bags: StagedBags;
  readonly lookups: readonly StagedLookups[];
  /** What device 0 said of a stop. */
  readonly stopAfter: number;
}

/** Receives the bags of a step and asks for the rows that are not there. */
export async function stageRows(device: DeviceState, plan: StepPlan): Promise<StagedRows> {
  const { bags, lookups, stopAfter } = await receiveBags(device, plan);
  const staged: StagedLookups[] = [];
  const ofSlab = await device.slab.stage(bags);
  for (const [i, one] of lookups.entries()) {
    staged.push({ ...one, bags: await slabAt(device, i).stage(one.bags) });
  }
  return { bags: ofSlab, lookups: staged, stopAfter };
}

/** Waits for them: steps in the order in which they were staged. */
export async function arriveRows(device: DeviceState, staged: StagedRows): Promise<void> {
  await device.slab.arrive(staged.bags);
  for (const [i, { bags }] of staged.lookups.entries()) await slabAt(device, i).arrive(bags);
}

/** The step is done with its rows. */
export async function releaseRows(device: DeviceState, staged: StagedRows): Promise<void> {
  await device.slab.release(staged.bags);
  for (const [i, { bags }] of staged.lookups.entries()) await slabAt(device, i).release(bags);
}
