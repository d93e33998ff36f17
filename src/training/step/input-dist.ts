// Stage 2 of a step, the input dist: the device of the samples maps ids to rows and sends the row
// numbers. In stage 3 the device that holds the rows receives them and builds bags.

import { axesIn, bagFrameBytesOf, writeBagFrame } from "../../embedding/lookup/bag-frames.ts";
import {
  type DistinctBags,
  distinctFrameBytesOf,
  distinctFrameInts,
  type ShardLookups,
  writeDistinctFrame,
} from "../../embedding/lookup/dedup-rows.ts";
import type { SampleRows } from "../../embedding/lookup/sample-rows.ts";
import type { LocalBatch } from "../../exchange/batch-ring.ts";
import type { Region } from "../../exchange/exchange.ts";
import type { Bags } from "../../kernels/contract/kernels.ts";
import { distinctTreesIn } from "../topology/gradient-trees.ts";
import { slicesIn } from "../topology/topology.ts";
import type { Axes } from "./axes.ts";
import { type DynamicIdsDevice, findersOf } from "./dynamic-ids.ts";
import type { StageDevice } from "./stage-device.ts";
import type { StepPlan } from "./step-plan.ts";

/** The part of a device that the input dist needs. */
export interface InputDistDevice extends StageDevice<never, "ids">, Pick<DynamicIdsDevice, "ids"> {}

/**
 * Returns the rows that this device's samples look up. @throws IdOutOfRangeError naming table and
 * sample
 */
export function rowsOfSamples(device: StageDevice, batch: LocalBatch, plan: StepPlan): SampleRows {
  const { topology } = device;
  const firstWith = firstSampleWith(batch, plan, topology);
  const rows = plan.lane.localRows.take(batch, topology.bagTables, plan.firstSample, firstWith);
  return { ...rows, axes: plan.axes };
}

/**
 * Returns a function that finds the first sample with the bag at a place of a feature, for error
 * messages: if lists of the feature are deduplicated, the first sample with that distinct list.
 * Undefined without deduplication.
 */
function firstSampleWith(
  { inverse, samples }: LocalBatch,
  { axes }: StepPlan,
  { input }: StageDevice["topology"],
): ((feature: number, place: number) => number) | undefined {
  const groups = input.ikjt ?? [];
  if (inverse === undefined) return undefined;
  return (feature, place) => {
    const group = groups.findIndex((own) => own.includes(feature));
    if (group < 0) return place;
    let row = 0;
    for (const { first, count } of axes[group + 1]?.runs ?? []) {
      if (place < first + count)
        return inverse.indexOf(row + place - first, group * samples) - group * samples;
      row += count;
    }
    return place;
  };
}

/** Returns the distinct rows of tables with `dedup` among `rows`. */
export function distinctOfSamples(
  { topology, rank }: StageDevice,
  rows: SampleRows,
  { lane, mine }: StepPlan,
): DistinctBags {
  const ends = distinctTreesIn(topology, rank).map(({ first, count }) => {
    return mine.bounds[first - mine.first + count] ?? 0;
  });
  return lane.distinct.take(rows, topology.distinctBy.flat(), ends);
}

/** Sends each device the bags of its shards, together with `stopAfter`. */
export async function sendBags(
  device: InputDistDevice,
  rows: SampleRows,
  requested: DistinctBags,
  plan: StepPlan,
  stopAfter: number,
): Promise<void> {
  const { topology } = device;
  const { ids } = device.frames;
  await ids.open(plan.bytes.ids);
  let first = 0;
  const used = topology.lookupsBy.map((lookups, peer) => {
    const count = topology.distinctBy[peer]?.length ?? 0;
    const room = distinctFrameBytesOf(requested, first, count) + bagFrameBytesOf(rows, lookups);
    const ints = intsOf(ids.outbox(peer, room));
    const bytes = writeDistinctFrame(ints, requested, first, count);
    first += count;
    return bytes + writeBagFrame(ints.subarray(bytes / 4), rows, lookups, stopAfter);
  });
  ids.start((peer) => used[peer] ?? 0);
}

/**
 * Receives the bags of this device's shards for the samples of all devices, the lookups of shards
 * with `dedup`, the axes of each device, and the step after which device 0 wants to stop.
 */
export async function receiveBags(
  device: InputDistDevice,
  plan: StepPlan,
): Promise<{ bags: Bags; lookups: ShardLookups[]; axes: Axes[]; stopAfter: number }> {
  const { topology, rank } = device;
  const received = await device.frames.ids.finish();
  const shards = topology.distinctBy[rank] ?? [];
  const batchSamples = plan.all.bounds.at(-1) ?? 0;
  const groups = topology.input.ikjt?.length ?? 0;
  const parts = received.map((frame, peer) => {
    const bounds = groups > 0 ? slicesIn(topology, peer, batchSamples).bounds : undefined;
    const subtrees = distinctTreesIn(topology, peer);
    return { ints: intsOf(frame), samples: plan.counts[peer] ?? 0, bounds, subtrees };
  });
  const lookups = plan.lane.lookups.gather(parts, shards, topology.input.slices);
  const frames = parts.map((part) => {
    return { ...part, ints: part.ints.subarray(distinctFrameInts(part, shards.length)) };
  });
  const finders = findersOf(device, plan);
  const axes = frames.map((frame) => axesIn(frame, groups));
  const bags = plan.lane.bags.gather(frames, topology.lookupsBy[rank] ?? [], finders, groups);
  const stopAfter = frames[0]?.ints[0] ?? -1;
  device.frames.ids.close();
  return { bags, lookups, axes, stopAfter };
}

function intsOf({ buffer, byteOffset, byteLength }: Region): Int32Array {
  return new Int32Array(buffer, byteOffset, byteLength / 4);
}
