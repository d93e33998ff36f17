// The job service's methods `move`, `freeze` and `thaw`: check the request against the shards of
// the run's newest generation, and compute the new pins. ../run/control/scaling.ts applies them to
// the run.

import { RunStateError } from "../../src/errors/errors.ts";
import { pinOf, pinsMax, type ShardPin, withoutPin, withPin } from "../../src/planner/pins.ts";
import { expected } from "../../src/ports/check-options.ts";
import { devicesOf } from "../host/membership.ts";
import type { RunRecord } from "../run/state/run-record.ts";
import type { ShardPlace, ShardPlaces } from "../run/state/shard-places.ts";
import { hostPlaces } from "../threads/generation-spec.ts";
import type { NamedShard } from "./job-api.ts";

/** All pins of a run after the request, and the named shard. */
export interface PinChange {
  readonly pins: readonly ShardPin[];
  readonly shard: NamedShard;
}

/** A shard on one device, as opposed to a copy on every device. */
interface OwnedShard extends ShardPlace {
  readonly device: number;
}

/**
 * Pins a shard to another device.
 * @throws InvalidOptionError, RunStateError if it may not be placed there
 */
export function moveShard(record: RunRecord, shard: number, device: number): PinChange {
  const places = placesOf(record, "move a shard of");
  const own = shardOf(places, shard);
  if (pinOf(record.pins, own)?.isFrozen === true) {
    throw expected("shard", "one that is not frozen; `osiris shard thaw` lets it be moved", shard);
  }
  const devices = devicesOf(places.hosts);
  if (device >= devices) {
    throw expected("device", `one of the run's devices, 0 to ${devices - 1}`, device);
  }
  checkRoom(places, own, device);
  return pinTo(record, own, { device, isFrozen: false });
}

/** Pins a shard to its device and forbids to move it. @throws as `moveShard` */
export function freezeShard(record: RunRecord, shard: number): PinChange {
  const own = shardOf(placesOf(record, "freeze a shard of"), shard);
  const { device } = pinOf(record.pins, own) ?? own;
  return pinTo(record, own, { device, isFrozen: true });
}

/** Removes a shard's pin: the next plan may place it anywhere. @throws as `moveShard` */
export function thawShard(record: RunRecord, shard: number): PinChange {
  const own = shardOf(placesOf(record, "thaw a shard of"), shard);
  return { pins: withoutPin(record.pins, own), shard: named(own) };
}

function pinTo(
  { pins }: RunRecord,
  own: OwnedShard,
  pin: Pick<ShardPin, "device" | "isFrozen">,
): PinChange {
  const { table, firstBlock, blocks, firstQuantum, quanta, shard } = own;
  const all = withPin(pins, { table, firstBlock, blocks, firstQuantum, quanta, ...pin });
  if (all.length > pinsMax) {
    throw expected("shard", `one of at most ${pinsMax} that are pinned; thaw others first`, shard);
  }
  return { pins: all, shard: { ...named(own), pin } };
}

/** The placement of the run's shards. @throws RunStateError if no generation was assembled yet */
function placesOf({ shards, run, status }: RunRecord, request: string): ShardPlaces {
  if (shards !== undefined) return shards;
  throw new RunStateError(run, request, "running with placed shards", `${status}, without`);
}

/**
 * Looks up a shard. @throws InvalidOptionError if it does not exist, or each device has a copy of
 * it
 */
function shardOf({ shards }: ShardPlaces, shard: number): OwnedShard {
  const found = shards.find((one) => one.shard === shard);
  if (found === undefined) {
    throw expected("shard", `one of the run's shards, 0 to ${shards.length - 1}`, shard);
  }
  const { device, table } = found;
  if (device !== "all") return { ...found, device };
  throw expected("shard", `of a table without a copy on every device, as ${table} has`, shard);
}

/** Checks the memory of the target host. @throws InvalidOptionError if its rows would not fit */
function checkRoom({ hosts, shards, memoryBytes }: ShardPlaces, own: OwnedShard, to: number): void {
  const places = hostPlaces({ hosts: [...hosts] });
  const isIn = ({ first, count }: (typeof places)[number], device: number) =>
    first <= device && device < first + count;
  const host = places.find((one) => isIn(one, to));
  if (host === undefined || isIn(host, own.device)) return; // The host already has it in memory.
  const held = shards.reduce((sum, { device, bytes }) => {
    if (device === "all") return sum + host.count * bytes;
    return isIn(host, device) ? sum + bytes : sum;
  }, 0);
  if (held + own.bytes <= memoryBytes) return;
  const [needed, used, most] = [own.bytes, held, memoryBytes].map((one) => (one / 1e9).toFixed(3));
  const room = `with room for the shard's ${needed} GB: host:${host.host} uses ${used} of ${most} GB`;
  throw expected("device", `one ${room}`, to);
}

function named({ shard, table, firstRow, rows, firstColumn, columns, device }: OwnedShard) {
  return { shard, table, firstRow, rows, firstColumn, columns, device };
}
