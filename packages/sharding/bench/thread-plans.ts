// Random sets of tables for this machine's threads, and the plan of each way to place a set: the
// learned search, the planner by formulas, a planner like TorchRec's, the greedy ways that
// NeuroShard compares itself with, and random placement. All place whole tables, or columns of
// them.

import type { ProbedTable } from "../../../actors/threads/costs/cost-probes.ts";
import { rankedJob } from "../../../bench/planner/ranked-tables.ts";
import type { FeatureStatistics } from "../../../src/data/cache/feature-statistics.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { shapesOf } from "../../../src/model/features.ts";
import { defaultConstants, type MachineConstants } from "../../../src/planner/cost/constants.ts";
import type { Setting } from "../../../src/planner/cost/cost.ts";
import { untilDone } from "../../../src/planner/paused.ts";
import type { CostTable } from "../../../src/planner/reuse.ts";
import { searchPlan } from "../../../src/planner/search.ts";
import { type Plan, tableQuanta, tileColumns } from "../../../src/planner/shards.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { workloadOf } from "../../../src/training/planning/workload.ts";
import { costTableOf } from "../plans/learned-parts.ts";
import { learnedPlans } from "../plans/learned-plan.ts";
import type { CostNetworks } from "../search/cost-networks.ts";
import { greedyCosts, placeAtRandom, placeByCost, type TablesOfDevices } from "../search/greedy.ts";
import { type HeldOutTable, heldOutTables } from "../training/held-out-jobs.ts";

const greedyWays = Object.keys(greedyCosts) as (keyof typeof greedyCosts)[];

const randomWays = ["random.0", "random.1", "random.2"] as const;

/** The ways, by name. */
export const ways = ["learned", "formulas", "torchrec", ...greedyWays, ...randomWays] as const;

export type Way = (typeof ways)[number];

/** Tables, a job over them, and their data. */
export interface ThreadSet {
  readonly kinds: readonly HeldOutTable[];
  readonly job: ReturnType<typeof rankedJob>;
  readonly cache: string;
  readonly idsMax: readonly number[];
  readonly statistics: readonly FeatureStatistics[] | undefined;
  readonly setting: Setting;
  /**
   * The tables as inputs of cost networks, with ids and popularity as counted by the data cache.
   */
  readonly tables: readonly CostTable[];
}

/** The tables of set number `index`, and their data in `home`. */
export async function threadSet(
  { seed, index, devices, home }: { seed: number; index: number; devices: number; home: string },
  constants: MachineConstants,
): Promise<ThreadSet> {
  const kinds = heldOutTables(seed, index, devices);
  const job = rankedJob(kinds, new RandomStream(seed, index), home);
  const {
    path: cache,
    idsMax,
    statistics,
  } = await prepareCache(job.data, shapesOf(job.model), realDisk);
  const workload = workloadOf(job, { statistics, schemes: ["table-wise", "column-wise"] });
  const setting = { workload, devices: { hosts: 1, perHost: devices }, constants };
  const tables = workload.tables.map((table, i) => costTableOf(job, table, i, statistics));
  return { kinds, job, cache, idsMax, statistics, setting, tables };
}

/** The plan of each way for the set. Memory is unlimited, so that every plan fits. */
export function plansOf(set: ThreadSet, networks: CostNetworks, seed: number): Map<Way, Plan> {
  const { job, setting, tables, statistics } = set;
  const { devices } = networks;
  const plans = new Map<Way, Plan | undefined>();
  const learned = untilDone(learnedPlans({ costs: networks })(job, setting, statistics));
  plans.set("learned", learned.plan);
  plans.set("formulas", searchPlan(setting).best?.plan);
  // TorchRec's greedy proposer and partitioner: each table's cheapest cut by the formulas of a GPU,
  // the most expensive part first, each to the device with the least cost.
  const { memoryBytes } = setting.constants;
  const ofGpu = { ...setting, constants: { ...defaultConstants, memoryBytes } };
  plans.set("torchrec", searchPlan(ofGpu, "first").best?.plan);
  const room = { devices, bytes: Number.POSITIVE_INFINITY };
  for (const way of greedyWays) plans.set(way, wholeTables(set, placeByCost(tables, room, way)));
  for (const [draw, way] of randomWays.entries()) {
    const placed = placeAtRandom(tables.length, devices, randomWays.length * seed + draw);
    plans.set(way, wholeTables(set, placed));
  }
  return new Map(
    [...plans].map(([way, plan]) => {
      if (plan === undefined) throw new RangeError(`Every set has room, but ${way} found no plan`);
      return [way, plan];
    }),
  );
}

function wholeTables({ setting }: ThreadSet, placed: TablesOfDevices | undefined): Plan {
  const { tables } = setting.workload;
  const deviceOf = new Map(
    (placed ?? []).flatMap((own, device) => own.map((table) => [table, device])),
  );
  const shards = tables.map((table, i) => ({
    ...{ table: table.name, scheme: "table-wise", tier: "memory", device: deviceOf.get(i) ?? 0 },
    ...{ firstBlock: 0, blocks: table.rowBlocks, firstQuantum: 0, quanta: tableQuanta(table) },
  })) satisfies Plan["shards"];
  return { devices: setting.devices, shards };
}

/** A part of a table on a device, as measured and as an input of cost networks. */
export interface PlacedPart {
  readonly probed: ProbedTable;
  readonly table: CostTable;
}

/** The parts that a plan puts on each device. */
export function partsOf({ kinds, setting, tables }: ThreadSet, plan: Plan): PlacedPart[][] {
  const parts: PlacedPart[][] = Array.from({ length: setting.devices.perHost }, () => []);
  for (const shard of plan.shards) {
    const at = setting.workload.tables.findIndex(({ name }) => name === shard.table);
    const [planned, kind, table] = [setting.workload.tables[at], kinds[at], tables[at]];
    if (planned === undefined || kind === undefined || table === undefined) continue;
    const dim = tileColumns(planned, shard);
    const { rows, idsMean: poolingFactor, zipf } = kind;
    const probed = { rows, dim, poolingFactor, zipf };
    if (shard.device !== "all") parts[shard.device]?.push({ probed, table: { ...table, dim } });
  }
  return parts;
}
