// The shards of a device: the messages to them, their reports, and the input of their actors. A
// shard's actor starts with the first message to it (D3 of device.ts), because starting thousands
// of actors at once would block the host's thread.

import { fromCallback } from "xstate";
import { partNameOf } from "../../src/training/checkpoint/part-names.ts";
import type { HeldShard } from "../../src/training/topology/held-shard.ts";
import { type ActorMessage, type Network, subscribe } from "../runtime/mailbox.ts";
import type { Generation } from "../threads/generation-memory.ts";
import { reportShard, type ShardInput, type ShardPart, type ShardReport } from "./shard.ts";
import { cachedRowsOf } from "./tier-report.ts";
import type { PartsSaved } from "./writer.ts";

/** The part of a device's context that concerns its shards. */
export interface DeviceShards {
  readonly network: Network;
  readonly generation: Generation;
  readonly device: number;
  readonly shards: readonly HeldShard[];
  /** Undefined until its rows are restored. */
  readonly ready: object | undefined;
  /** The parts of the newest checkpoint written by this device. */
  readonly saved: PartsSaved | undefined;
}

/** A message to a shard, which its actor receives as soon as it exists. */
export interface ShardMessage {
  readonly type: "shard.message";
  readonly shard: number;
  readonly message: ActorMessage;
}

/** Receives the messages to all shards of the generation, for those of this device. */
export const hearingShards = fromCallback<{ type: string }, DeviceShards>(({ input, sendBack }) => {
  const { network, generation, shards } = input;
  const { run, generation: number } = generation.spec;
  const own = new Set(shards.map(({ shard }) => shard));
  const pattern = { run, generation: number, role: "shard" as const };
  const subscription = subscribe(network, pattern, (message, { index: shard }) => {
    if (own.has(shard)) sendBack({ type: "shard.message", shard, message } as ShardMessage);
  });
  return () => subscription.unsubscribe();
});

/** The id of a shard's actor below its device. */
export function shardId(shard: number): string {
  return `shard:${shard}`;
}

/** The input of a shard's actor. */
export function shardOf(context: DeviceShards, shard: HeldShard): ShardInput {
  const { network, generation, device, ready } = context;
  const common = { network, generation, shard, device };
  return { ...common, isRestored: ready !== undefined, part: partsOf(context)(shard) };
}

/** The reports of all shards of a device, made without their actors. */
export function reportShards(context: DeviceShards): ShardReport[] {
  const { generation, device, ready, shards } = context;
  const partOf = partsOf(context);
  const state = ready === undefined ? "restoring" : "serving";
  const cachedRows = cachedRowsOf(generation, device);
  return shards.map((shard) => {
    return reportShard({ generation, device, shard, part: partOf(shard) }, state, cachedRows);
  });
}

/** Finds the part of a shard in the newest checkpoint of its device. */
export function partsOf({
  saved,
  generation,
}: DeviceShards): (shard: HeldShard) => ShardPart | undefined {
  const { tables } = generation.spec.job.model;
  const byName = new Map(saved?.parts.map((part) => [part.name, part]));
  return (shard) => {
    const part = byName.get(partNameOf(shard, tables));
    if (part === undefined) return undefined;
    const { name, bytes, sha256 } = part;
    return { cut: saved?.cut ?? 0, name, bytes, sha256 };
  };
}
