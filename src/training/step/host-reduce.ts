// The host reduce: exchanges the parts of host sums (shard-groups.ts) inside a host. In stage 4 the
// devices that hold parts of the same columns send their vectors to the aggregator, which adds the
// vectors up and sends the sums to other hosts. In stage 6 the aggregator returns the gradients of
// the sums to each of these devices. On both routes a message has one section for each device with
// samples, by rank; a section has the host sums of the host, in their order.

import { axisAt } from "../../data/sessions/ikjt.ts";
import type { Region } from "../../exchange/exchange.ts";
import type { PooledPart } from "../../kernels/contract/kernels.ts";
import { packedBytes } from "../../kernels/contract/precision.ts";
import type { Read } from "../topology/fresh-and-stale.ts";
import type { HeldLookup } from "../topology/held-shard.ts";
import {
  aggregatorOf,
  type ShardGroup,
  sendListOf,
  type VectorRoutes,
  vectorBytes,
  vectorFloats,
} from "../topology/shard-groups.ts";
import type { Axes } from "./axes.ts";
import { type PackingDevice, packSums, unpackGradient, unpackSums } from "./group-vectors.ts";
import type { StageDevice } from "./stage-device.ts";
import type { StepPlan } from "./step-plan.ts";

/**
 * The channels inside a host, and the channels between hosts, into which sums are written directly.
 */
export type HostReduceChannel =
  | "partials"
  | "stalePartials"
  | "dPartials"
  | "pooled"
  | "stalePooled";

/** The part of a device that the host reduce needs. */
export interface HostReduceDevice extends StageDevice<HostReduceChannel>, PackingDevice {}

/** Position of the next bytes of a part. */
interface Cursor {
  readonly buffer: ArrayBufferLike;
  byteOffset: number;
}

/** Whether any host adds vectors up for others: the same on all devices of a generation. */
export function addsOnHosts({ hostSumsOf }: Pick<VectorRoutes, "hostSumsOf">): boolean {
  return hostSumsOf.some((hostSums) => hostSums.length > 0);
}

/**
 * This device's parts of the host sums for the samples of device `samples`, and their aggregators.
 */
function partsTo(
  { rank, topology }: StageDevice,
  samples: number,
  routes: VectorRoutes,
): { part: ShardGroup; aggregator: number }[] {
  if (topology.hostOf[samples] === topology.hostOf[rank]) return [];
  return (routes.hostSumsOf[topology.hostOf[rank] ?? 0] ?? []).flatMap((hostSum) => {
    const part = hostSum.parts.get(rank);
    if (part === undefined) return [];
    return { part, aggregator: aggregatorOf(hostSum, topology.places[samples] ?? 0) };
  });
}

// Vectors ----

/** Begins a round of partial sums; returns the position for each aggregator's sums. */
export async function openPartials(
  device: HostReduceDevice,
  plan: StepPlan,
  read: Read,
): Promise<Cursor[]> {
  if (!addsOnHosts(read)) return [];
  const partials = device.exchange[read.partials];
  await partials.open(plan.bytes[read.partials]);
  return plan.counts.map((_, peer) => ({ ...partials.outbox(peer) }));
}

/**
 * Writes the pooled vectors of `peer`'s samples to the aggregators for `peer`. `partOf` finds the
 * vectors of a lookup; `axes` are those of `peer`.
 */
export function packPartials(
  device: HostReduceDevice,
  peer: number,
  partOf: (lookup: HeldLookup) => PooledPart,
  axes: Axes,
  outboxes: readonly Cursor[],
  read: Read,
): void {
  const { forward } = device.topology.exchange;
  for (const { part, aggregator } of partsTo(device, peer, read)) {
    const to = outboxes[aggregator];
    if (to === undefined) continue;
    packSums(device, part, part.shards.map(partOf), to);
    to.byteOffset += vectorBytes(part, axisAt(axes, part.axis).rows, forward);
  }
}

/**
 * As an aggregator: adds up the received sums, and writes them after this device's own vectors.
 * `used` has the bytes written for each device, and is updated.
 */
export async function addPartials(
  device: HostReduceDevice,
  axes: readonly Axes[],
  plan: StepPlan,
  read: Read,
  used: number[],
): Promise<void> {
  if (!addsOnHosts(read)) return;
  const { exchange, rank, topology } = device;
  const { forward } = topology.exchange;
  const partials = exchange[read.partials];
  partials.start();
  const inbox = await partials.finish();
  const bytes = plan.bytes[read.partials];
  const inboxes = cursorsIn(inbox, plan.counts, (holder) => bytes(holder, rank));
  for (const peer of plan.counts.keys()) {
    const { hostSums } = sendListOf(read, rank, peer);
    if (hostSums.length === 0) continue;
    const { buffer, byteOffset } = exchange[read.vectors].outbox(peer);
    let at = byteOffset + (used[peer] ?? 0);
    for (const hostSum of hostSums) {
      const { rows: samples } = axisAt(axes[peer] ?? [], hostSum.axis);
      let floats = 0;
      const sums = [...hostSum.parts].flatMap(([holder, part]) => {
        const from = inboxes[holder];
        if (from === undefined) return [];
        const parts = unpackSums(device, part, samples, from, floats);
        from.byteOffset += vectorBytes(part, samples, forward);
        floats += vectorFloats(part, samples);
        return parts;
      });
      sums.sort((a, b) => a.tree.first - b.tree.first);
      packSums(device, hostSum, sums, { buffer, byteOffset: at });
      at += vectorBytes(hostSum, samples, forward);
    }
    used[peer] = at - byteOffset;
  }
  partials.close();
}

// Their gradients ----

/**
 * As an aggregator: forwards the gradients of host sums that arrived in `dPooled`. Then writes the
 * gradients of this device's parts of host sums to `rounded.heldGradients`.
 */
export async function broadcastGradients(
  device: HostReduceDevice,
  axes: readonly Axes[],
  plan: StepPlan,
  dPooled: Region,
): Promise<void> {
  if (!addsOnHosts(device.topology)) return;
  const { exchange, kernels, rank, rounded, topology } = device;
  const { backward } = topology.exchange;
  await exchange.dPartials.open(plan.bytes.dPartials);
  const outboxes = plan.counts.map((_, peer): Cursor => ({ ...exchange.dPartials.outbox(peer) }));
  const sendLists = cursorsIn(dPooled, plan.counts, (peer) => plan.bytes.dPooled(peer, rank));
  for (const peer of plan.counts.keys()) {
    const { own, hostSums } = sendListOf(topology, rank, peer);
    const bytesOf = ({ columns, axis }: ShardGroup) => {
      return packedBytes(axisAt(axes[peer] ?? [], axis).rows, columns, backward);
    };
    let at = own.reduce((sum, one) => sum + bytesOf(one), sendLists[peer]?.byteOffset ?? 0);
    for (const hostSum of hostSums) {
      const { devices } = hostSum;
      const bytes = bytesOf(hostSum);
      const gradient = new Uint8Array(dPooled.buffer, at, bytes);
      for (const holder of devices) {
        const to = outboxes[holder];
        if (to === undefined) continue;
        new Uint8Array(to.buffer, to.byteOffset, bytes).set(gradient);
        to.byteOffset += bytes;
      }
      at += bytes;
    }
  }
  exchange.dPartials.start();
  const inbox = await exchange.dPartials.finish();
  const inboxes = cursorsIn(inbox, plan.counts, (peer) => plan.bytes.dPartials(peer, rank));
  let first = 0;
  for (const [peer, samples] of plan.counts.entries()) {
    for (const { part, aggregator } of partsTo(device, peer, topology)) {
      const from = inboxes[aggregator];
      if (from === undefined) continue;
      const own = axes[peer] ?? [];
      unpackGradient(device, part, kernels.part(rounded.heldGradients, first, samples), from, own);
      from.byteOffset += packedBytes(axisAt(own, part.axis).rows, part.columns, backward);
    }
    first += samples;
  }
  exchange.dPartials.close();
}

/** The start of each device's part in an inbox. */
function cursorsIn(
  { buffer, byteOffset }: Region,
  counts: readonly number[],
  bytesOf: (peer: number) => number,
): Cursor[] {
  let at = byteOffset;
  return counts.map((_, peer) => {
    const cursor = { buffer, byteOffset: at };
    at += bytesOf(peer);
    return cursor;
  });
}
