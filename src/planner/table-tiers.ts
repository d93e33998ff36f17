// The effect of a plan on each table: the tier of its rows, and the reason; for a cached table, the
// expected share of row accesses that each tier serves, now and with one more GiB.

import { withCurve } from "./cache-share.ts";
import { loadOf, type Setting } from "./cost/cost.ts";
import { distinctRows } from "./cost/distinct-rows.ts";
import { missRatioAt } from "./cost/miss-curve.ts";
import {
  type PlacedShard,
  type Plan,
  type PlannedTable,
  type Tier,
  tileColumns,
  tileRows,
} from "./shards.ts";
import { fillCaches } from "./size-caches.ts";

/** Shares of the rows that batches need, by tier. They add up to 1. */
export interface RowShares {
  readonly hbm: number;
  readonly ddr: number;
  /** Read from disk, or newly initialised. */
  readonly ssd: number;
}

/** A table in a plan. */
export interface PlannedTiers {
  readonly table: string;
  readonly tier: Tier;
  /** The reason, in a sentence. */
  readonly reason: string;
  /** Bytes of all its rows, with their optimizer's state. */
  readonly wholeBytes: number;
  /** Expected distinct rows of a batch. */
  readonly batchRows: number;
  /** Bytes of all its caches in the plan. */
  readonly hbmBytes: number;
  readonly ddrBytes: number;
  /** Left out if the table is in memory. */
  readonly rows?: RowShares;
  /** With one GiB more of HBM, or of DDR, on every device. */
  readonly moreHbm?: RowShares;
  readonly moreDdr?: RowShares;
}

const moreBytes = 2 ** 30;

/**
 * Returns the tiers of each table of a plan, which must cover the setting's tables. Caches without
 * a size in the plan share the memory that is left, as in a plan of the planner. Empty if no table
 * may be cached.
 */
export function plannedTiers(setting: Setting, given: Plan): PlannedTiers[] {
  const { tables, budgets } = setting.workload;
  const isCached = given.shards.some(({ tier }) => tier === "cached");
  if (budgets === undefined || (!isCached && tables.every(({ tiers }) => tiers.length === 1))) {
    return [];
  }
  const filled = fillCaches(setting, given).shards;
  const shards = given.shards.map((own, i) => ({ ...own, cache: own.cache ?? filled[i]?.cache }));
  const plan: Plan = { ...given, shards };
  const more = (tier: "hbmBytes" | "ddrBytes") => {
    const next = { ...budgets, [tier]: budgets[tier] + moreBytes };
    const workload = { ...setting.workload, budgets: next };
    const memoryBytes = setting.constants.memoryBytes + (tier === "hbmBytes" ? moreBytes : 0);
    const constants = { ...setting.constants, memoryBytes };
    return fillCaches({ ...setting, workload, constants }, plan);
  };
  const [moreHbm, moreDdr] = [more("hbmBytes"), more("ddrBytes")];
  return tables.map((table): PlannedTiers => {
    const own = (of: Plan) => of.shards.filter((shard) => shard.table === table.name);
    const shards = own(plan);
    const tier = shards.some((shard) => shard.tier === "cached") ? "cached" : "memory";
    const sumOf = (size: "hbmBytes" | "ddrBytes") =>
      shards.reduce((sum, { cache }) => sum + (cache?.[size] ?? 0), 0);
    const rowBytes = table.dim * (table.weightBytes + table.stateBytes) + table.rowBytes;
    const placed = {
      table: table.name,
      tier,
      reason: reasonOf(table, tier),
      wholeBytes: table.rows * rowBytes,
      batchRows: distinctRows(table, setting.workload.batchSize),
      hbmBytes: sumOf("hbmBytes"),
      ddrBytes: sumOf("ddrBytes"),
    } as const;
    if (tier === "memory") return placed;
    const rows = (of: Plan) => rowSharesOf(setting, table, own(of));
    return { ...placed, rows: rows(plan), moreHbm: rows(moreHbm), moreDdr: rows(moreDdr) };
  });
}

function reasonOf({ tiers }: PlannedTable, tier: Tier): string {
  if (!tiers.includes("cached")) return "the job keeps it in memory";
  if (!tiers.includes("memory")) return "the job keeps it below memory";
  return tier === "memory"
    ? "its rows fit, and memory is fastest"
    : "memory cannot hold the rows of all tables, and a cache costs this one least";
}

/** DDR also holds most rows that are in HBM, so the larger of the two caches counts for both. */
function rowSharesOf(
  setting: Setting,
  table: PlannedTable,
  shards: readonly PlacedShard[],
): RowShares {
  const { missCurve } = withCurve(setting, table);
  let [hbm, ssd] = [0, 0];
  for (const shard of shards) {
    const share = (tileRows(table, shard) * tileColumns(table, shard)) / (table.rows * table.dim);
    const load = loadOf(setting, table, shard);
    const { hbmBytes = 0, ddrBytes = 0 } = shard.cache ?? {};
    const below = hbmBytes === 0 ? load : Math.min(1, (load * ddrBytes) / hbmBytes);
    hbm += share * (1 - missRatioAt(missCurve, table.rows * load));
    ssd += share * missRatioAt(missCurve, table.rows * Math.max(load, below));
  }
  return { hbm, ddr: Math.max(0, 1 - hbm - ssd), ssd };
}
