// Inspection of one actor of a run: a shard, or the tier of a device. The actor itself answers over
// NATS; the pins of a shard are added from the run's record.

import { z } from "zod";
import { pinOf } from "../../src/planner/pins.ts";
import { checkOptions, expected } from "../../src/ports/check-options.ts";
import type { ShardReport } from "../host/shard.ts";
import type { TierReport } from "../host/tier-report.ts";
import { checkTier, requestActor, runNamed } from "../jobs/request-actor.ts";
import type { Registry } from "../run/state/registry.ts";
import type { RunRecord } from "../run/state/run-record.ts";
import type { Network } from "../runtime/mailbox.ts";

interface InspectedCluster {
  readonly network: Network;
  readonly registry: Registry;
}

const run = z.string();
const number = z.int().min(0);
const ofShard = z.strictObject({ run, shard: number });
const ofTier = z.strictObject({ run, device: number });

/** The inspections of single actors. @throws InvalidOptionError, RunStateError, StepTimeoutError */
export const actorInspections: Readonly<
  Record<"shard" | "tier", (cluster: InspectedCluster, body: unknown) => Promise<unknown>>
> = {
  async shard({ network, registry }, body) {
    const { run: name, shard } = checkOptions(ofShard, body);
    const record = runNamed(registry, name);
    checkShard(record, shard);
    const report = await requestActor(network, {
      ...{ record, type: "shard.inspect", index: shard },
      answerIn: (message, command) =>
        message.type === "shard.inspected" && message.body.command === command
          ? (message.body.report as ShardReport)
          : undefined,
    });
    return withPin(report, record);
  },
  async tier({ network, registry }, body) {
    const { run: name, device } = checkOptions(ofTier, body);
    const record = runNamed(registry, name);
    checkTier(record, device);
    return await requestActor(network, {
      ...{ record, type: "tier.inspect", index: device },
      answerIn: (message, command) =>
        message.type === "tier.inspected" && message.body.command === command
          ? (message.body.report as TierReport)
          : undefined,
    });
  },
};

/** Adds the shard's pin to its report. */
export function withPin(report: ShardReport, record: RunRecord | undefined): ShardReport {
  const { shards: places, pins = [] } = record ?? {};
  if (places?.generation !== report.generation) return { ...report, pin: null };
  const place = places.shards[Number(report.actor.slice("shard:".length))]; // By their number.
  const pin = place && pinOf(pins, place);
  const own = pin === undefined ? null : { device: pin.device, isFrozen: pin.isFrozen };
  return { ...report, pin: own };
}

function checkShard({ shards }: RunRecord, shard: number): void {
  if (shards === undefined) return; // A later check reports that the run has no devices.
  const place = shards.shards[shard];
  if (place === undefined) {
    throw expected("shard", `one of the run's shards, 0 to ${shards.shards.length - 1}`, shard);
  }
  if (place.device !== "all") return;
  const table = `of a table without a copy on every device, as ${place.table} has`;
  throw expected("shard", table, shard);
}
