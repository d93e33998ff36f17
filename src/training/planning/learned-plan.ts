// The plan of a job by learned costs: its tables as the cost networks know them, the search, and
// what it found as shards. Columns are halved in whole quanta; rows stay whole.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import { InvalidOptionError } from "../../errors/errors.ts";
import { openKernels } from "../../kernels/index.ts";
import { featuresOf } from "../../model/features.ts";
import { costOf, type Setting } from "../../planner/cost/cost.ts";
import { type LearnedSearch, originsOf, searchLearned } from "../../planner/learned/beam-search.ts";
import { type CostNetworks, slowestOf } from "../../planner/learned/cost-networks.ts";
import type { CostTable } from "../../planner/learned/cost-table.ts";
import type { DeviceRoom } from "../../planner/learned/greedy.ts";
import { reuseOf, sharesOf } from "../../planner/learned/reuse.ts";
import { networkCosts } from "../../planner/policies/network-costs.ts";
import { type PlacementPolicy, placeByPolicy } from "../../planner/policies/placement-policy.ts";
import type { SizedTable } from "../../planner/policies/table-pool.ts";
import { roomOf } from "../../planner/search.ts";
import {
  deviceCount,
  type PlacedShard,
  type Plan,
  type PlannedTable,
  quantaOf,
  quantumColumns,
  type Tile,
} from "../../planner/shards.ts";
import type { PlannableJob } from "./workload.ts";

/** What the search by learned costs found. */
export interface LearnedJobPlan {
  /** Undefined where nothing that was tried has room. */
  readonly plan: Plan | undefined;
  readonly search: LearnedSearch;
}

export interface LearnedWays {
  readonly costs: CostNetworks;
  /** Places the tables instead of the search; undefined: they are searched. */
  readonly policy?: PlacementPolicy | undefined;
}

/** The option that names the file of the networks. */
const option = "--cost-model";

/**
 * Plans the tables of a setting.
 * @throws InvalidOptionError where the networks are not of this setting, or a table may be cut in
 * no way that they know
 */
export function planLearned(
  job: PlannableJob,
  setting: Setting,
  { costs: networks, policy }: LearnedWays,
  statistics?: readonly FeatureStatistics[],
): LearnedJobPlan {
  checkNetworks(setting, networks);
  const { tables } = setting.workload;
  const costTables = tables.map((table, i) => costTableOf(job, table, i, statistics));
  const room = { devices: deviceCount(setting.devices), bytes: roomOf(setting).bytes };
  const bytesOf = ({ dim }: CostTable, source: number) => {
    const table = tables[source];
    const quanta = Math.ceil(dim / quantumColumns);
    if (table === undefined) return 0;
    const tile = { firstBlock: 0, blocks: table.rowBlocks, firstQuantum: 0, quanta };
    return costOf(setting, table, "table-wise", "memory", tile).bytes;
  };
  const sized = costTables.map((table, i) => ({ ...table, bytes: bytesOf(table, i) }));
  const search =
    policy === undefined
      ? searchLearned(networks, costTables, room, {
          canHalve: (table, source) => {
            const isCut = tables[source]?.schemes.includes("column-wise") ?? false;
            return isCut && table.dim % (2 * quantumColumns) === 0;
          },
          bytesOf,
        })
      : placedByPolicy(networks, policy, sized, room);
  if (search.best === undefined) return { plan: undefined, search };
  const { steps, placed } = search.best;
  return { plan: { devices: setting.devices, shards: shardsOf(tables, steps, placed) }, search };
}

/** Whole tables as the policy places them, with what the networks say that it costs. */
function placedByPolicy(
  networks: CostNetworks,
  policy: PlacementPolicy,
  tables: readonly SizedTable[],
  room: DeviceRoom,
): LearnedSearch {
  const placed = placeByPolicy(openKernels("auto"), policy, tables, room);
  const cost = placed && slowestOf(networkCosts(networks, tables)(placed));
  const best = placed && cost !== undefined ? { steps: [], placed, cost } : undefined;
  const cache = { asked: 0, computed: 0 };
  return { best, whole: cost, published: cost, placements: 1, isComplete: true, cache };
}

function checkNetworks({ workload, devices }: Setting, networks: CostNetworks): void {
  const refuse = (expectation: string, got: string) => {
    const measure = "`osiris plan --calibrate --learn` measures others";
    const message = `Expected \`${option}\` to have costs of ${expectation}, got ${got}; ${measure}`;
    return new InvalidOptionError(option, message);
  };
  const count = deviceCount(devices);
  if (networks.devices !== count) {
    throw refuse(`the plan's ${count} devices`, `those of ${networks.devices}`);
  }
  if (networks.batchSize !== workload.batchSize) {
    throw refuse(
      `the job's batches of ${workload.batchSize} samples`,
      `those of ${networks.batchSize}`,
    );
  }
  const other = workload.tables.find(({ schemes, tiers, pins }) => {
    const isWhole = schemes.includes("table-wise") || schemes.includes("column-wise");
    return !isWhole || !tiers.includes("memory") || pins !== undefined;
  });
  if (other === undefined) return;
  const message =
    `Expected tables that may lie whole, or in columns, in memory, as \`${option}\` knows no other ` +
    `costs; ${other.name} may not: let the job say \`sharding: auto\` of it, or leave the option out`;
  throw new InvalidOptionError(option, message);
}

/** Its reuse is counted, where its data have a cache; else as Zipf's law has it. */
function costTableOf(
  { model }: PlannableJob,
  { rows, dim, poolingFactor, zipf }: PlannedTable,
  index: number,
  statistics: readonly FeatureStatistics[] | undefined,
): CostTable {
  const counted: number[] = [];
  for (const [feature, { table }] of featuresOf(model).entries()) {
    if (table !== index) continue;
    for (const [bin, ids] of statistics?.[feature]?.window.reuse.entries() ?? []) {
      counted[bin] = (counted[bin] ?? 0) + ids;
    }
  }
  const bins = counted.length > 0 ? sharesOf(counted) : reuseOf({ rows, poolingFactor, zipf });
  return { rows, dim, poolingFactor, bins };
}

/** The shards, tables in the job's order, then by columns. */
function shardsOf(
  tables: readonly PlannedTable[],
  steps: readonly number[],
  placed: readonly (readonly number[])[],
): PlacedShard[] {
  const tiles = tilesOf(tables, steps);
  const deviceOf = new Map(placed.flatMap((own, device) => own.map((part) => [part, device])));
  const origins = originsOf(tables.length, steps);
  const shards = tiles.map((tile, part) => {
    const origin = origins[part] ?? 0;
    const table = tables[origin];
    const isWhole = table !== undefined && tile.quanta === quantaOf(table);
    const scheme = isWhole ? ("table-wise" as const) : ("column-wise" as const);
    const place = { table: table?.name ?? "", scheme, tier: "memory" as const };
    return { origin, shard: { ...place, ...tile, device: deviceOf.get(part) ?? 0 } };
  });
  return shards
    .sort((a, b) => a.origin - b.origin || a.shard.firstQuantum - b.shard.firstQuantum)
    .map(({ shard }) => shard);
}

/** The tile of each table after the steps: the second half of a halved one is at the end. */
function tilesOf(tables: readonly PlannedTable[], steps: readonly number[]): Tile[] {
  const tiles = tables.map((table): Tile => {
    return { firstBlock: 0, blocks: table.rowBlocks, firstQuantum: 0, quanta: quantaOf(table) };
  });
  for (const step of steps) {
    const tile = tiles[step];
    if (tile === undefined) continue;
    const quanta = tile.quanta / 2;
    tiles[step] = { ...tile, quanta };
    tiles.push({ ...tile, firstQuantum: tile.firstQuantum + quanta, quanta });
  }
  return tiles;
}
