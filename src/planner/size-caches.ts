// Plans with caches: decides which tables lie in memory as a whole, which in a backing store, and
// how many rows of the latter a device caches (embedding offloading of TorchRec, "Toward 100TB",
// RecSys 2024). A random search after Luus and Jaakola finds the amount of memory for caches: each
// amount is shared among the caches, planned with and scored. Then the caches of a device take its
// remaining memory. The result is a function of the arguments, as the draws are seeded.

import { purposes, RandomStream } from "../ports/random.ts";
import { assessPlan } from "./assess.ts";
import {
  type CacheableTable,
  type Claim,
  priorityOf,
  shareBytes,
  withCurve,
} from "./cache-share.ts";
import { costOf, memoryOf, placeBytesOf, reserveOf, type Setting } from "./cost/cost.ts";
import { roomOfAll } from "./partition.ts";
import { roomOf, type SearchResult, searchPlan } from "./search.ts";
import {
  deviceCount,
  type PlacedShard,
  type Plan,
  type PlannedTable,
  type Tile,
  tileColumns,
  tileRows,
} from "./shards.ts";

/** Number of amounts of memory that are tried, both ends included. */
const amountsMax = 16;
/** Factor that narrows the search radius after a draw without improvement. */
const narrowing = 0.75;
/** Rows of a set: the least that a cache holds (src/kernels/contract/row-cache.ts). */
const leastRows = 32;

/** Whether a table may be cached; the setting must come from `withCurves`. */
function isCacheable(table: PlannedTable): table is CacheableTable {
  return table.tiers.includes("cached") && table.missCurve !== undefined;
}

/** Returns the setting with a miss-ratio curve for each table that may be cached. */
export function withCurves(setting: Setting): Setting {
  return withTables(setting, (table) =>
    table.tiers.includes("cached") ? withCurve(setting, table) : table,
  );
}

/**
 * Returns the setting with the smallest possible caches: if a plan fits with them, some caches fit.
 */
export function withLeastCaches(setting: Setting): Setting {
  return withTables(setting, (table) => {
    if (!table.tiers.includes("cached") || setting.workload.budgets === undefined) return table;
    return { ...table, cacheLoad: Math.min(1, (leastRows * table.rowBlocks) / table.rows) };
  });
}

function withTables(setting: Setting, change: (table: PlannedTable) => PlannedTable): Setting {
  const { workload } = setting;
  return { ...setting, workload: { ...workload, tables: workload.tables.map(change) } };
}

/**
 * Returns the best plan that fits, with caches for tables that may be cached and benefit from it.
 */
export function planWithCaches(setting: Setting): SearchResult {
  if (!hasCaches(setting)) return searchPlan(setting);
  if (lacksOf(setting) > 0) return { best: undefined, considered: [] };
  const { low, high } = amountsOf(setting);
  const stream = new RandomStream(0, purposes.cacheSizes);
  const tried: { amount: number; result: SearchResult; score: number }[] = [];
  /** Upper bound of the amount: no plan fits with more. */
  let most = high;
  const attempt = (amount: number): number => {
    const result = planAt(setting, amount);
    const score = result.best?.score ?? Infinity;
    tried.push({ amount, result, score });
    if (result.best === undefined && amount > low) most = Math.min(most, amount);
    return score;
  };
  let [at, best] = [high, attempt(high)];
  if (low < high) {
    const score = attempt(low);
    if (score < best) [at, best] = [low, score];
  }
  let radius = (high - low) / 2;
  while (tried.length < amountsMax && low < high) {
    const drawn = at + radius * (2 * stream.uniform() - 1);
    const amount = Math.min(most, Math.max(low, drawn));
    const score = attempt(amount);
    if (score < best) [at, best] = [amount, score];
    else radius *= narrowing;
  }
  const found = tried.reduce((a, b) => (b.score < a.score ? b : a));
  const considered = tried.flatMap(({ result }) => result.considered);
  return { best: found.result.best, considered: firstOfEach(considered) };
}

/** Returns the bytes that the budgets lack for the least caches of tables that must be cached. */
export function lacksOf(setting: Setting): number {
  const { tables, budgets } = setting.workload;
  if (budgets === undefined) return 0;
  const least = tables.reduce((sum, table) => {
    return table.tiers.includes("memory")
      ? sum
      : sum + claimOf(setting, withCurve(setting, table)).leastBytes;
  }, 0);
  return Math.max(0, least - deviceCount(setting.devices) * budgets.hbmBytes);
}

function hasCaches(setting: Setting): boolean {
  return setting.workload.budgets !== undefined && setting.workload.tables.some(isCacheable);
}

/** Returns the least and the largest useful bytes for the caches of all devices together. */
export function amountsOf(setting: Setting): { low: number; high: number } {
  const claims = setting.workload.tables
    .filter(isCacheable)
    .map((table) => claimOf(setting, table));
  const sumOf = (size: "leastBytes" | "wholeBytes") =>
    claims.reduce((sum, claim) => sum + claim[size], 0);
  const room = roomOf(setting);
  const { hbmBytes = 0 } = setting.workload.budgets ?? {};
  const free = roomOfAll({ ...room, bytes: Math.min(hbmBytes, room.bytes) });
  const low = sumOf("leastBytes");
  return { low, high: Math.max(low, Math.min(free, sumOf("wholeBytes"))) };
}

/** The claim of a table on the caches of all devices, or of a shard on its device's caches. */
function claimOf(setting: Setting, table: CacheableTable, tile: Tile = wholeOf(table)): Claim {
  const columns = tileColumns(table, tile);
  const rows = tileRows(table, tile);
  const placeBytes = placeBytesOf(setting, table, columns);
  const share = (rows / table.rows) * (columns / table.dim);
  return {
    leastBytes: Math.min(rows, leastRows * tile.blocks) * placeBytes,
    wholeBytes: rows * placeBytes,
    priority: share * priorityOf(setting, table),
  };
}

function wholeOf({ rowBlocks, dim }: PlannedTable): Tile {
  return { firstBlock: 0, blocks: rowBlocks, firstQuantum: 0, quanta: Math.ceil(dim / 32) };
}

/**
 * Returns the best plan with `amount` bytes of caches; the caches then also get the memory that is
 * left on their devices.
 */
export function planAt(setting: Setting, amount: number): SearchResult {
  const cacheable = setting.workload.tables.filter(isCacheable);
  const claims = cacheable.map((table) => claimOf(setting, table));
  const bytes = shareBytes(claims, amount);
  const loadOf = new Map(
    cacheable.map((table, i) => [table.name, (bytes[i] ?? 0) / (claims[i]?.wholeBytes ?? 1)]),
  );
  const loaded = withTables(setting, (table) => {
    const cacheLoad = loadOf.get(table.name);
    return cacheLoad === undefined ? table : promoted(setting, { ...table, cacheLoad });
  });
  const result = searchPlan(loaded);
  if (result.best === undefined) return result;
  const plan = fillCaches(setting, result.best.plan);
  const { score, lacksBytes } = assessPlan(setting, plan);
  if (lacksBytes > 0) return { ...result, best: undefined };
  return { ...result, best: { plan, score } };
}

/** Moves a table into memory if its cache and buffers would take as much as all its rows. */
function promoted(setting: Setting, table: PlannedTable): PlannedTable {
  if (!table.tiers.includes("memory")) return table;
  const bytes = (tier: "memory" | "cached") =>
    costOf(setting, table, "table-wise", tier, wholeOf(table)).bytes;
  return bytes("cached") < bytes("memory") ? table : { ...table, tiers: ["memory"] };
}

/** Returns the plan with caches that take all memory left on their devices, within the budgets. */
export function fillCaches(setting: Setting, plan: Plan): Plan {
  const { budgets } = setting.workload;
  const tables = new Map(setting.workload.tables.map((table) => [table.name, table]));
  if (budgets === undefined || !hasCaches(setting)) return plan;
  const cacheOf = new Map<PlacedShard, PlacedShard["cache"]>();
  for (let device = 0; device < deviceCount(plan.devices); device++) {
    let free = Math.max(0, memoryOf(setting, device) - reserveOf(setting));
    const cached: { shard: PlacedShard; claim: Claim; hostBytes: number }[] = [];
    for (const shard of plan.shards) {
      const table = tables.get(shard.table);
      if (table === undefined || (shard.device !== "all" && shard.device !== device)) continue;
      const { bytes, hostBytes } = costOf(setting, table, shard.scheme, shard.tier, shard, 0);
      free -= bytes;
      if (shard.tier !== "cached" || !isCacheable(table)) continue;
      cached.push({ shard, claim: claimOf(setting, table, shard), hostBytes });
    }
    const claims = cached.map(({ claim }) => claim);
    const hbm = shareBytes(claims, Math.min(budgets.hbmBytes, free));
    const ddr = shareBytes(claims, budgets.ddrBytes);
    for (const [i, { shard, hostBytes }] of cached.entries()) {
      // Memory that devices share has all rows; each device's own has a cache of them.
      const hasAll = setting.constants.hostMemoryBytes !== undefined;
      const ddrBytes = hasAll ? hostBytes : budgets.ddrBytes && (ddr[i] ?? 0);
      cacheOf.set(shard, { hbmBytes: hbm[i] ?? 0, ddrBytes });
    }
  }
  const shards = plan.shards.map((shard) => ({ ...shard, cache: cacheOf.get(shard) }));
  return { ...plan, shards };
}

/** The best result of each proposer, among the results for several amounts. */
function firstOfEach(considered: SearchResult["considered"]): SearchResult["considered"] {
  const sorted = [...considered].sort((a, b) => (a.score ?? Infinity) - (b.score ?? Infinity));
  const seen = new Set<string>();
  return sorted.filter(({ proposer }) => !seen.has(proposer) && seen.add(proposer));
}
