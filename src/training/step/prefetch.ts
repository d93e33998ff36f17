// Stage 3 of a step, the prefetch: brings the rows of a batch into device memory, HBM ← DDR ← SSD,
// before the lookup. Tables that lie in memory as a whole need no prefetch.

import type { ShardLookups } from "../../embedding/lookup/dedup-rows.ts";
import type { BackingStore } from "../../embedding/rows/backing-store.ts";
import type { RowStore } from "../../embedding/rows/row-store.ts";
import type { Slab } from "../../embedding/rows/slab.ts";
import type { StagedBags } from "../../embedding/rows/staging.ts";
import type { TierCounts } from "../meters/step-meter.ts";
import type { Axes } from "./axes.ts";
import { type DistinctState, slabAt } from "./dedup/dedup-state.ts";
import { type InputDistDevice, receiveBags } from "./input-dist.ts";
import type { StepPlan } from "./step-plan.ts";

/** The lookups of one shard by all devices, as slots of its cache or as rows. */
export interface StagedLookups extends Omit<ShardLookups, "bags"> {
  readonly bags: StagedBags;
}

/** The lookups of this device's rows in a step. */
export interface StagedRows {
  readonly bags: StagedBags;
  readonly lookups: readonly StagedLookups[];
  /** The axes of each device. */
  readonly axes: readonly Axes[];
  /** The step after which device 0 wants to stop; -1: none. */
  readonly stopAfter: number;
}

/** The part of a device that the prefetch needs. */
export interface PrefetchDevice extends InputDistDevice {
  /** Rows of the shards that this device holds and pools. */
  readonly slab: Pick<RowStore, "stage" | "arrive" | "release">;
  /** Rows of the shards on this device that it sends row by row. */
  readonly distinct: Pick<DistinctState, "slabs">;
}

/** The part of a device that the count of tier accesses needs. */
interface TieredDevice {
  readonly slab: Pick<Slab, "cached">;
  readonly distinct: Pick<DistinctState, "slabs">;
  readonly backing: Pick<BackingStore, "counts"> | undefined;
}

/** Returns the accesses of this device's tiers so far; undefined if all its rows are in memory. */
export function tierCountsOf({ slab, distinct, backing }: TieredDevice): TierCounts | undefined {
  if (backing === undefined) return undefined;
  const counts = [slab, ...distinct.slabs].flatMap(({ cached }) => cached.map((one) => one.counts));
  const sumOf = (name: "distinct" | "missed" | "conflicts") =>
    counts.reduce((sum, own) => sum + own[name], 0);
  const [rows, missed, conflicts] = [sumOf("distinct"), sumOf("missed"), sumOf("conflicts")];
  return { rows, missed, ddrHits: backing.counts.hits, conflicts };
}

/** Receives the bags of a step and requests the rows that are not in device memory. */
export async function stageRows(device: PrefetchDevice, plan: StepPlan): Promise<StagedRows> {
  const { bags, lookups, axes, stopAfter } = await receiveBags(device, plan);
  const staged: StagedLookups[] = [];
  const ofSlab = await device.slab.stage(bags);
  for (const [i, one] of lookups.entries()) {
    staged.push({ ...one, bags: await slabAt(device, i).stage(one.bags) });
  }
  return { bags: ofSlab, lookups: staged, axes, stopAfter };
}

/** Waits for the requested rows. Steps arrive in the order in which they were staged. */
export async function arriveRows(device: PrefetchDevice, staged: StagedRows): Promise<void> {
  await device.slab.arrive(staged.bags);
  for (const [i, { bags }] of staged.lookups.entries()) await slabAt(device, i).arrive(bags);
}

/** Releases the rows of a finished step. */
export async function releaseRows(device: PrefetchDevice, staged: StagedRows): Promise<void> {
  await device.slab.release(staged.bags);
  for (const [i, { bags }] of staged.lookups.entries()) await slabAt(device, i).release(bags);
}
