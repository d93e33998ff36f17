// Plans without a planner, which consider no cost. `naivePlan` places tables in the order of the
// job, each whole on the next device with room (round robin); a table that no device has room for
// is cut by rows over the devices with most room. `rowWisePlan`, for tables that no host has room
// for, cuts each by rows over all hosts.

import {
  costOf,
  fillCaches,
  type JobSpec,
  type MachineConstants,
  type PlacedShard,
  type Plan,
  roomOf,
  type Tile,
  withCurves,
  workloadOf,
} from "../../../../internal.ts";
import type { ClusterDevices } from "../../hardware/hardware.ts";

/** @throws RangeError if the tables have no room in this way */
export function naivePlan(
  job: JobSpec,
  devices: ClusterDevices,
  constants: MachineConstants,
): Plan {
  const workload = workloadOf(job);
  const setting = { workload, devices, constants };
  const free = new Array<number>(devices.hosts * devices.perHost).fill(roomOf(setting).bytes);
  let turn = 0;
  const shards = workload.tables.flatMap((table): PlacedShard[] => {
    const { rowBlocks, dim, name } = table;
    const columns = { firstQuantum: 0, quanta: Math.ceil(dim / 32) };
    const bytesOf = (scheme: PlacedShard["scheme"], tile: Tile) =>
      costOf(setting, table, scheme, "memory", tile).bytes;
    const take = (device: number, scheme: PlacedShard["scheme"], tile: Tile): PlacedShard => {
      const left = (free[device] ?? 0) - bytesOf(scheme, tile);
      if (left < 0) throw new RangeError(`No device has room for table ${name}`);
      free[device] = left;
      return { table: name, scheme, tier: "memory", ...tile, device };
    };
    const whole = { firstBlock: 0, blocks: rowBlocks, ...columns };
    const bytes = bytesOf("table-wise", whole);
    for (let tried = 0; tried < free.length; tried++) {
      const device = turn;
      turn = (turn + 1) % free.length;
      if ((free[device] ?? 0) >= bytes) return [take(device, "table-wise", whole)];
    }
    const emptiest = [...free.keys()].sort((a, b) => (free[b] ?? 0) - (free[a] ?? 0) || a - b);
    const parts = Math.min(rowBlocks, free.length);
    return emptiest.slice(0, parts).map((device, i) => {
      const first = Math.floor((i * rowBlocks) / parts);
      const blocks = Math.floor(((i + 1) * rowBlocks) / parts) - first;
      return take(device, "row-wise", { firstBlock: first, blocks, ...columns });
    });
  });
  return { devices, shards };
}

/**
 * Cuts each table by rows, and deals the parts to devices in turn. A table with fewer parts than
 * devices begins one device after the table before, so that no device gets more parts than others.
 * The cache of a device is divided equally among its tables.
 */
export function rowWisePlan(
  job: JobSpec,
  devices: ClusterDevices,
  constants: MachineConstants,
): Plan {
  const workload = workloadOf(job, { cache: true });
  const W = devices.hosts * devices.perHost;
  const shards = workload.tables.flatMap((table, turn) => {
    const { rowBlocks, dim, name } = table;
    const parts = Math.min(rowBlocks, W);
    const apart = Math.floor(W / parts);
    return Array.from({ length: parts }, (_, i): PlacedShard => {
      const first = Math.floor((i * rowBlocks) / parts);
      const blocks = Math.floor(((i + 1) * rowBlocks) / parts) - first;
      return {
        ...{ table: name, scheme: "row-wise", tier: "cached", device: i * apart + (turn % apart) },
        ...{ firstBlock: first, blocks, firstQuantum: 0, quanta: Math.ceil(dim / 32) },
      };
    });
  });
  return fillCaches(withCurves({ workload, devices, constants }), { devices, shards });
}
