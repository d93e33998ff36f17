// The ways of relays (bundles.ts) inside a host. In hop 3 devices that have parts of the same
// columns send their vectors to the gateway, which adds them up and sends the sums to other hosts;
// in hop 6 it passes on to each of them the gradients that come back. Both ways a part holds one
// samples' device after the other, and of each the host's relays in their order.

import type { Region } from "../exchange/exchange.ts";
import type { Tensor } from "../kernels/kernels.ts";
import { packedBytes } from "../kernels/precision.ts";
import { packSums, partIn, unpackGradient, unpackSums } from "./bundle-vectors.ts";
import { type Bundle, gatewayOf, parcelOf, vectorBytes, vectorFloats } from "./bundles.ts";
import type { DeviceState } from "./device-state.ts";
import type { StepPlan } from "./step-plan.ts";

/** Where the next bytes of a part lie. */
interface Cursor {
  readonly buffer: ArrayBufferLike;
  byteOffset: number;
}

/** Whether nothing is relayed: all devices of a generation agree on it. */
function isIdle({ topology }: DeviceState): boolean {
  return topology.relaysOf.every((relays) => relays.length === 0);
}

/** What this device has of relays to the device of some samples, and who adds it up. */
function partsTo(device: DeviceState, samples: number): { part: Bundle; gateway: number }[] {
  const { rank, topology } = device;
  if (topology.hostOf[samples] === topology.hostOf[rank]) return [];
  return (topology.relaysOf[topology.hostOf[rank] ?? 0] ?? []).flatMap((relay) => {
    const part = relay.parts.get(rank);
    if (part === undefined) return [];
    return { part, gateway: gatewayOf(relay, topology.places[samples] ?? 0) };
  });
}

// Vectors ----

/** Begins a round of partial sums: where those for each gateway are to be written. */
export async function openPartials(device: DeviceState, plan: StepPlan): Promise<Cursor[]> {
  if (isIdle(device)) return [];
  const { partials } = device.exchange;
  await partials.open(plan.bytes.partials);
  return plan.counts.map((_, peer) => ({ ...partials.outbox(peer) }));
}

/** Writes what was pooled (b,C) of the samples of `peer` to the gateways to it. */
export function packPartials(
  device: DeviceState,
  peer: number,
  pooled: Tensor,
  outboxes: readonly Cursor[],
): void {
  const { forward } = device.topology.exchange;
  for (const { part, gateway } of partsTo(device, peer)) {
    const to = outboxes[gateway];
    if (to === undefined) continue;
    packSums(device, part, part.shards.map(partIn(pooled)), to);
    to.byteOffset += vectorBytes(part, pooled.shape[0] ?? 0, forward);
  }
}

/** As a gateway: adds up what came, and writes it behind this device's own vectors. */
export async function addPartials(device: DeviceState, plan: StepPlan): Promise<void> {
  if (isIdle(device)) return;
  const { exchange, rank, topology } = device;
  const { forward } = topology.exchange;
  exchange.partials.start();
  const inbox = await exchange.partials.finish();
  const inboxes = cursorsIn(inbox, plan.counts, (holder) => plan.bytes.partials(holder, rank));
  for (const [peer, samples] of plan.counts.entries()) {
    const { own, relays } = parcelOf(topology, rank, peer);
    if (relays.length === 0) continue;
    const { buffer, byteOffset } = exchange.pooled.outbox(peer);
    let at = own.reduce((sum, one) => sum + vectorBytes(one, samples, forward), byteOffset);
    for (const relay of relays) {
      let floats = 0;
      const sums = [...relay.parts].flatMap(([holder, part]) => {
        const from = inboxes[holder];
        if (from === undefined) return [];
        const parts = unpackSums(device, part, samples, from, floats);
        from.byteOffset += vectorBytes(part, samples, forward);
        floats += vectorFloats(part, samples);
        return parts;
      });
      sums.sort((a, b) => a.tree.first - b.tree.first);
      packSums(device, relay, sums, { buffer, byteOffset: at });
      at += vectorBytes(relay, samples, forward);
    }
  }
  exchange.partials.close();
}

// Their gradients ----

/**
 * As a gateway passes on the gradients of relays that came in `dPooled`; then puts those of what
 * this device has of relays into `rounded.heldGradients`.
 */
export async function relayGradients(
  device: DeviceState,
  plan: StepPlan,
  dPooled: Region,
): Promise<void> {
  if (isIdle(device)) return;
  const { exchange, kernels, rank, rounded, topology } = device;
  const { backward } = topology.exchange;
  await exchange.dPartials.open(plan.bytes.dPartials);
  const outboxes = plan.counts.map((_, peer): Cursor => ({ ...exchange.dPartials.outbox(peer) }));
  const parcels = cursorsIn(dPooled, plan.counts, (peer) => plan.bytes.dPooled(peer, rank));
  for (const [peer, samples] of plan.counts.entries()) {
    const { own, relays } = parcelOf(topology, rank, peer);
    let at = own.reduce(
      (sum, { columns }) => sum + packedBytes(samples, columns, backward),
      parcels[peer]?.byteOffset ?? 0,
    );
    for (const { columns, devices } of relays) {
      const bytes = packedBytes(samples, columns, backward);
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
    for (const { part, gateway } of partsTo(device, peer)) {
      const from = inboxes[gateway];
      if (from === undefined) continue;
      unpackGradient(device, part, kernels.part(rounded.heldGradients, first, samples), from);
      from.byteOffset += packedBytes(samples, part.columns, backward);
    }
    first += samples;
  }
  exchange.dPartials.close();
}

/** Where the part of each device begins in an inbox. */
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
