// Shard placement of a run: the shards of its newest generation and the pins of its owner. Plain
// data and pure functions.

import type { SparseOptimizerSpec } from "../../../src/embedding/tables/options.ts";
import { rowStateWidth } from "../../../src/embedding/tables/row-state.ts";
import { packedBytes } from "../../../src/kernels/contract/precision.ts";
import { overlap, type ShardPin, type TablePart } from "../../../src/planner/pins.ts";
import type { HeldShard } from "../../../src/training/topology/held-shard.ts";
import { type Topology, tableOf } from "../../../src/training/topology/topology.ts";
import type { HostShare } from "../../host/membership.ts";

/** A shard, the device that holds it, and its rows and columns. */
export interface ShardPlace extends TablePart {
  readonly shard: number;
  readonly device: number | "all";
  readonly firstRow: number;
  readonly rows: number;
  readonly firstColumn: number;
  readonly columns: number;
  /**
   * Bytes of device memory for its rows; 0 for a cached shard, since the cache has a fixed size.
   */
  readonly bytes: number;
  /** Whether a cache holds its rows, so that its device has a tier. */
  readonly isCached: boolean;
}

/** A pin that its generation does not follow; `reason` is a clause. */
export interface IgnoredPin {
  readonly pin: ShardPin;
  readonly reason: string;
}

export interface ShardPlaces {
  readonly generation: number;
  readonly hosts: readonly HostShare[];
  /** Memory limit of the process of a host. */
  readonly memoryBytes: number;
  /** All of them, by number. */
  readonly shards: readonly ShardPlace[];
  /** The pins that this generation considered; a restart would not follow more of these. */
  readonly pins: readonly ShardPin[];
}

/**
 * A change of devices or placement in progress: the generation that it ends, its number of devices,
 * and the time of the pause command.
 */
export interface Scaling {
  readonly generation: number;
  readonly from: number;
  readonly atMs: number;
  /** The shards that move in this change. */
  readonly moves: readonly ShardPin[];
  /** Whether the change is to a plan made from measured times (adapting-plan.ts). */
  readonly isAdapted?: boolean;
}

/** All shards of a topology, by number. */
export function shardPlacesOf(topology: Topology, sparse: SparseOptimizerSpec): ShardPlace[] {
  const { heldBy, distinctBy, replicated } = topology;
  return [...heldBy.flat(), ...distinctBy.flat(), ...replicated]
    .map((shard) => placeOf(topology, shard, sparse))
    .sort((a, b) => a.shard - b.shard);
}

function placeOf({ input }: Topology, held: HeldShard, sparse: SparseOptimizerSpec): ShardPlace {
  const { shard, name: table, device, tier, firstBlock, blocks, firstQuantum, quanta } = held;
  const { firstRow, rows, firstColumn, columns } = held;
  const { precision } = tableOf(input.model.tables, held.table);
  const row = packedBytes(1, columns, precision) + 4 * rowStateWidth(sparse, columns);
  const isCached = tier === "cached";
  const bytes = isCached ? 0 : rows * row;
  const tile = { table, firstBlock, blocks, firstQuantum, quanta };
  return { shard, ...tile, device, firstRow, rows, firstColumn, columns, bytes, isCached };
}

/** Pins that a new generation would follow and this one does not, so that a shard would move. */
export function pinsToFollow(places: ShardPlaces, pins: readonly ShardPin[]): ShardPin[] {
  if (pins.length === 0) return [];
  const { shards, hosts, pins: known } = places;
  const devices = hosts.reduce((sum, host) => sum + host.devices, 0);
  return pins.filter((pin) => {
    if (pin.device >= devices || known.some((other) => isSame(other, pin))) return false;
    return shards.some(
      (one) =>
        one.table === pin.table &&
        one.device !== pin.device &&
        one.device !== "all" &&
        overlap(one, pin) !== undefined,
    );
  });
}

/** Whether two pins place the same part on the same device. */
function isSame(a: ShardPin, b: ShardPin): boolean {
  const text = ({ table, device, firstBlock, blocks, firstQuantum, quanta }: ShardPin) =>
    JSON.stringify([table, device, firstBlock, blocks, firstQuantum, quanta]);
  return text(a) === text(b);
}
