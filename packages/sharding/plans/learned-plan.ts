// Plans a job by learned costs: searches over the parts of its tables, and turns the result into
// shards.

import {
  deviceCount,
  type FeatureStatistics,
  fillCaches,
  InvalidOptionError,
  lacksOf,
  openKernels,
  type Paused,
  type PlacedShard,
  type Plan,
  type PlannableJob,
  type PlannedTable,
  type PlanSource,
  roomOf,
  type Setting,
  withLeastCaches,
} from "../../../internal.ts";
import { type PlacementPolicy, placeByPolicy } from "../policies/placement-policy.ts";
import { type LearnedSearch, searchingParts } from "../search/beam-search.ts";
import { type CostNetworks, networkCosts, slowestOf } from "../search/cost-networks.ts";
import type { DeviceRoom } from "../search/greedy.ts";
import { moved, type TablePart } from "../search/parts.ts";
import { jobParts, type PartPlace, schemeOfTile } from "./learned-parts.ts";

/** The result of the search by learned costs. */
interface LearnedJobPlan {
  /** Undefined if no placement that was tried fits into memory. */
  readonly plan: Plan | undefined;
  readonly search: LearnedSearch;
}

export interface LearnedWays {
  readonly costs: CostNetworks;
  /** A policy that places the tables instead of the search; undefined: the search places them. */
  readonly policy?: PlacementPolicy | undefined;
  /** Called repeatedly during a search: true ends the search with the best plan so far. */
  readonly isOver?: (() => boolean) | undefined;
}

/**
 * Limits of the moves of a search, in all and per device: a table too large for any device may need
 * a cut for each device, and some moves more.
 */
const stepsLeast = 10;
const stepsOfDevice = 2;

/**
 * A source of plans by learned costs, for `planJob`. It plans the tables of a setting whose miss
 * curves are known (`withCurves`). Where caches of the usual size do not fit, caches of the least
 * size are tried; afterwards the caches grow into the memory that is left. It yields during its
 * search, so that the caller's thread can do other work.
 * @throws InvalidOptionError where the networks were trained for another setting, or a table allows
 * no scheme that they know
 */
export function learnedPlans(ways: LearnedWays): PlanSource<LearnedSearch> {
  return (job, setting, statistics) => planning(job, setting, ways, statistics);
}

function* planning(
  job: PlannableJob,
  setting: Setting,
  { costs: networks, policy, isOver }: LearnedWays,
  statistics?: readonly FeatureStatistics[],
): Paused<LearnedJobPlan> {
  checkNetworks(setting, networks);
  const isCached = setting.workload.tables.some(({ tiers }) => tiers.includes("cached"));
  const usual = yield* planIn(setting);
  if (usual.plan !== undefined || !isCached || lacksOf(setting) > 0) return usual;
  return yield* planIn(withLeastCaches(setting));

  function* planIn(own: Setting): Paused<LearnedJobPlan> {
    const parts = jobParts(job, own, statistics);
    const devices = deviceCount(own.devices);
    const room = { devices, bytes: roomOf(own).bytes };
    const steps = Math.max(stepsLeast, stepsOfDevice * devices);
    const search =
      policy === undefined
        ? yield* searchingParts(networks, parts, room, { steps, ...(isOver && { isOver }) })
        : placedByPolicy(networks, policy, parts, room);
    if (search.best === undefined) return { plan: undefined, search };
    const shards = shardsOf(
      own.workload.tables,
      moved(parts, search.best.steps),
      search.best.placed,
    );
    return { plan: fillCaches(own, { devices: own.devices, shards }), search };
  }
}

/** Parts as the policy places them, without a move, and the networks' prediction of the cost. */
function placedByPolicy(
  networks: CostNetworks,
  policy: PlacementPolicy,
  parts: readonly TablePart[],
  { devices, bytes }: DeviceRoom,
): LearnedSearch {
  const free = [...parts.entries()].filter(([, { isCopied }]) => !isCopied);
  const copies = parts.reduce((sum, part) => sum + (part.isCopied ? part.bytes : 0), 0);
  const tables = free.map(([, part]) => ({ ...part.table, bytes: part.bytes }));
  const room = { devices, bytes: bytes - copies };
  const found = placeByPolicy(openKernels("auto"), policy, tables, room);
  const placed = found?.map((own) => own.map((index) => free[index]?.[0] ?? index));
  const cost = found && slowestOf(networkCosts(networks, tables)(found));
  const best = placed && cost !== undefined ? { steps: [], placed, cost } : undefined;
  const cache = { asked: 0, computed: 0 };
  return { best, whole: cost, published: cost, placements: 1, isComplete: true, cache };
}

/** The command-line option that names the file of the networks, for error messages. */
const option = "--cost-model";

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
  const { hosts = 1 } = networks;
  if (hosts !== devices.hosts) {
    throw refuse(`devices on ${devices.hosts} hosts, as the plan has them`, `those on ${hosts}`);
  }
  if (networks.batchSize !== workload.batchSize) {
    throw refuse(
      `the job's batches of ${workload.batchSize} samples`,
      `those of ${networks.batchSize}`,
    );
  }
}

/** Returns the shards, ordered by table as in the job, then by columns, then by rows. */
function shardsOf(
  tables: readonly PlannedTable[],
  parts: readonly TablePart<PartPlace>[],
  placed: readonly (readonly number[])[],
): PlacedShard[] {
  const deviceOf = new Map(placed.flatMap((own, device) => own.map((part) => [part, device])));
  const ordered = [...parts.entries()].sort(([, { place: a }], [, { place: b }]) => {
    const byColumns = a.tile.firstQuantum - b.tile.firstQuantum;
    return a.index - b.index || byColumns || a.tile.firstBlock - b.tile.firstBlock;
  });
  return ordered.map(([part, { place, isCopied }]): PlacedShard => {
    const { index, tile, tier } = place;
    const table = tables[index] as PlannedTable;
    const device = isCopied ? ("all" as const) : (deviceOf.get(part) ?? 0);
    const scheme = isCopied ? ("data-parallel" as const) : schemeOfTile(table, tile);
    return { table: table.name, scheme, tier, ...tile, device };
  });
}
