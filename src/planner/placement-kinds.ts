// Plans by the placement of a job: where its rows are stored (placement.ts). Servers are the last
// devices of a run. Two separate plans are made: one for the tables on servers, and one for the
// tables on all other devices.

import { costOf, memoryOf, reserveOf, type Setting } from "./cost/cost.ts";
import { withWholeTables } from "./kept-schemes.ts";
import { type PlacementSpec, serversOf } from "./placement.ts";
import type { SearchResult } from "./search.ts";
import {
  type Devices,
  deviceCount,
  type Plan,
  type PlannedDevice,
  type PlannedTable,
  tableQuanta,
} from "./shards.ts";
import { planWithCaches } from "./size-caches.ts";

/** Whether plans of this placement may keep any table behind a cache. */
export function mayCache({ kind, servers }: PlacementSpec): boolean {
  return kind === "hybrid" && servers === 0;
}

/** The setting with the devices of a placement: no server has a share of the samples. */
export function withServers(setting: Setting, placement: PlacementSpec | undefined): Setting {
  const devices = deviceCount(setting.devices);
  const trainers = devices - serversOf(placement, devices);
  if (trainers === devices) return setting;
  const fleet = fleetOf(setting).map((own, rank) => {
    return rank < trainers ? own : { ...own, denseSpeed: 0 };
  });
  return { ...setting, fleet };
}

/** A plan for a placement. Without a plan: the setting of the part that does not fit. */
export interface PlacedSearch extends SearchResult {
  readonly setting: Setting;
}

/** Searches the best plan of a placement that fits. */
export function planByPlacement(setting: Setting, placement: PlacementSpec): PlacedSearch {
  const { kind } = placement;
  const servers = serversOf(placement, deviceCount(setting.devices));
  if (servers > 0) return planBesideServers(setting, servers, kind === "hybrid");
  const isLimited = kind === "device" || kind === "hybrid";
  const own = isLimited ? withinBudget(setting) : setting;
  return { ...planWithCaches(own), setting: own };
}

/** The setting with no more memory for rows on a device than `tiers.hbmBytes`. */
function withinBudget(setting: Setting): Setting {
  const { constants, workload, fleet } = setting;
  const { hbmBytes = Number.POSITIVE_INFINITY } = workload.budgets ?? {};
  const memoryBytes = Math.min(constants.memoryBytes, hbmBytes + reserveOf(setting));
  const own = fleet?.map((device, rank) => {
    return { ...device, memory: Math.min(1, memoryOf(setting, rank) / memoryBytes) };
  });
  return { ...setting, constants: { ...constants, memoryBytes }, fleet: own };
}

/** With `isHybrid`, the tables with most lookups per byte are planned on the other devices. */
function planBesideServers(setting: Setting, servers: number, isHybrid: boolean): PlacedSearch {
  const devices = deviceCount(setting.devices);
  const trainers = devices - servers;
  const { tables } = setting.workload;
  const near = withinBudget(onRanks(setting, 0, trainers, tables));
  const sorted = isHybrid ? byDensity(near) : [];
  for (let count = countThatFits(near, sorted); ; count = Math.floor((7 / 8) * count)) {
    const chosen = new Set(sorted.slice(0, count).map(({ name }) => name));
    const held = tables.filter(({ name }) => chosen.has(name));
    const rest = tables.filter(({ name }) => !chosen.has(name));
    const ofTrainers = planOn(withinBudget(onRanks(setting, 0, trainers, held)));
    if (ofTrainers.best === undefined && count > 0) continue;
    const ofServers = planOn(onRanks(setting, trainers, servers, rest));
    if (ofTrainers.best === undefined || ofServers.best === undefined) {
      return ofTrainers.best ? ofServers : ofTrainers;
    }
    const plan = joined(setting, [ofTrainers.best.plan, shifted(ofServers.best.plan, trainers)]);
    const score = Math.max(ofTrainers.best.score, ofServers.best.score);
    return { best: { plan, score }, considered: ofServers.considered, setting };
  }
}

/** Plans these tables on these devices; without tables, the plan is empty. */
function planOn(setting: Setting): PlacedSearch {
  const { workload, devices } = setting;
  if (workload.tables.length > 0) return { ...planWithCaches(setting), setting };
  return { best: { plan: { devices, shards: [] }, score: 0 }, considered: [], setting };
}

/** The setting of these tables on `count` devices from rank `first` on, renumbered from 0. */
function onRanks(
  setting: Setting,
  first: number,
  count: number,
  tables: readonly PlannedTable[],
): Setting {
  const fleet = setting.fleet?.slice(first, first + count);
  const { perHost } = setting.devices;
  const isOfWholeHosts = count % perHost === 0;
  const devices: Devices = isOfWholeHosts
    ? { hosts: count / perHost, perHost }
    : { hosts: 1, perHost: count };
  const own = tables.map((table): PlannedTable => {
    const pins = table.pins
      ?.map((pin) => ({ ...pin, device: pin.device - first }))
      .filter(({ device }) => device >= 0 && device < count);
    // A data-parallel table would need copies on all devices, not only on these.
    const schemes = table.schemes.filter((scheme) => scheme !== "data-parallel");
    return { ...table, schemes: schemes.length > 0 ? schemes : table.schemes, pins };
  });
  const workload = { ...setting.workload, tables: withWholeTables(own, devices) };
  return { ...setting, workload, devices, fleet };
}

/** The tables sorted by lookups per byte, descending; equal tables in the order of the job. */
function byDensity(setting: Setting): PlannedTable[] {
  const density = (table: PlannedTable) => {
    return (table.poolingFactor * table.dim) / Math.max(1, bytesOf(setting, table));
  };
  const { tables } = setting.workload;
  const densities = new Map(tables.map((table) => [table, density(table)]));
  return tables.toSorted((a, b) => (densities.get(b) ?? 0) - (densities.get(a) ?? 0));
}

/** Number of tables, from the first on, that fit into the memory of all devices together. */
function countThatFits(setting: Setting, tables: readonly PlannedTable[]): number {
  const reserve = reserveOf(setting);
  let room = 0;
  for (let rank = 0; rank < deviceCount(setting.devices); rank++) {
    room += Math.max(0, memoryOf(setting, rank) - reserve);
  }
  const at = tables.findIndex((table) => {
    room -= bytesOf(setting, table);
    return room < 0;
  });
  return at < 0 ? tables.length : at;
}

function bytesOf(setting: Setting, table: PlannedTable): number {
  const whole = { firstBlock: 0, blocks: table.rowBlocks, firstQuantum: 0 };
  const tile = { ...whole, quanta: tableQuanta(table) };
  return costOf(setting, table, "table-wise", "memory", tile).bytes;
}

function shifted(plan: Plan, by: number): Plan {
  const shards = plan.shards.map((shard) => {
    return shard.device === "all" ? shard : { ...shard, device: shard.device + by };
  });
  return { ...plan, shards };
}

/** The shards of both plans, by table as in the job. */
function joined({ devices, workload }: Setting, plans: readonly Plan[]): Plan {
  const places = new Map(workload.tables.map(({ name }, place) => [name, place]));
  const shards = plans.flatMap((plan) => plan.shards);
  const placeOf = ({ table }: (typeof shards)[number]) => places.get(table) ?? 0;
  return { devices, shards: shards.toSorted((a, b) => placeOf(a) - placeOf(b)) };
}

function fleetOf({ fleet, devices }: Setting): readonly PlannedDevice[] {
  const alike = { memory: 1, rowSpeed: 1, denseSpeed: 1 };
  return fleet ?? new Array<PlannedDevice>(deviceCount(devices)).fill(alike);
}
