// What more memory would buy the cached tables of a run: of their rows, how many come from which
// tier with the caches that there are, and with one more GiB of each on every device, as the curves
// say that the run has counted (miss-curve.ts).

import { cacheShapesOf } from "../../embedding/rows/cache-sizes.ts";
import { curveWords, missCurveOf } from "../../embedding/rows/miss-curve.ts";
import type { SparseOptimizerSpec } from "../../embedding/tables/options.ts";
import type { TiersSpec } from "../../embedding/tables/tier-options.ts";
import { cacheWays } from "../../kernels/contract/row-cache.ts";
import { type MissPoint, missRatioAt } from "../../planner/cost/miss-curve.ts";
import type { DeviceState } from "../step/device-state.ts";
import { cacheDemandsOf } from "../topology/device-cache-sizes.ts";
import { type Topology, tableOf } from "../topology/topology.ts";

/** Memory of a table in each tier, and what of its rows is expected to come from where. */
export interface TierExpectation {
  /** Over all devices. */
  readonly hbmBytes: number;
  readonly ddrBytes: number;
  /** Shares of the rows that batches need; they add up to 1. */
  readonly hbm: number;
  readonly ddr: number;
  /** From the disk, or born. */
  readonly ssd: number;
}

/** What is known of a cached table. */
export interface TableTiers {
  readonly table: string;
  /** Distinct rows of batches that were counted, device by device. */
  readonly accesses: number;
  /** Bytes of a row with its optimizer's state in a cache. */
  readonly rowBytes: number;
  /** Miss ratios of a cache of the least recently used, by its rows. */
  readonly curve: readonly MissPoint[];
  readonly now: TierExpectation;
  /** With so much more `tiers.hbmBytes`, or `tiers.ddrBytes`. */
  readonly moreHbm: TierExpectation;
  readonly moreDdr: TierExpectation;
}

/** The step of advice: one GiB. */
export const moreBytes: number = 2 ** 30;

/** Writes what this device has counted, table after table of the job (tables * curveWords). */
export function writeCurves({ slab, distinct }: DeviceState, words: Float64Array): void {
  words.fill(0);
  for (const { shard, reuse } of [slab, ...distinct.slabs].flatMap(({ cached }) => cached)) {
    const own = words.subarray(shard.table * curveWords, (shard.table + 1) * curveWords);
    for (let word = 0; word < curveWords; word++) {
      own[word] = (own[word] ?? 0) + (reuse.counts[word] ?? 0);
    }
  }
}

/** Counts of each table, added up; without the zeros behind them. */
export function addCurves(counts: readonly ArrayLike<number>[], tables: number): number[][] {
  return Array.from({ length: tables }, (_, table) => {
    const sums: number[] = [];
    for (let word = 0; word < curveWords; word++) {
      const at = table * curveWords + word;
      sums.push(counts.reduce((sum, own) => sum + (own[at] ?? 0), 0));
    }
    return sums.slice(0, sums.findLastIndex((count) => count > 0) + 1);
  });
}

/** What is known of each cached table; `hosts`: for each host, the counts of each table. */
export function adviseTiers(
  topology: Topology,
  optimizer: SparseOptimizerSpec,
  hosts: readonly (readonly (readonly number[])[])[],
): TableTiers[] {
  const { tiers, model } = topology.input;
  if (tiers === undefined) return [];
  const more = (tier: "hbmBytes" | "ddrBytes") => {
    return sizesOf(topology, optimizer, { ...tiers, [tier]: tiers[tier] + moreBytes });
  };
  const [now, moreHbm, moreDdr] = [
    sizesOf(topology, optimizer, tiers),
    more("hbmBytes"),
    more("ddrBytes"),
  ];
  return [...now]
    .sort(([a], [b]) => a - b)
    .map(([table, sizes]): TableTiers => {
      const { name } = tableOf(model.tables, table);
      const counts = Array.from({ length: curveWords }, (_, word) =>
        hosts.reduce((sum, own) => sum + (own[table]?.[word] ?? 0), 0),
      );
      const curve = missCurveOf(counts);
      const expect = (of: readonly ShardSize[] = []) => expectationOf(curve, of);
      return {
        table: name,
        accesses: counts[0] ?? 0,
        rowBytes: sizes.reduce((sum, { rowBytes, share }) => sum + rowBytes * share, 0),
        curve,
        now: expect(sizes),
        moreHbm: expect(moreHbm.get(table)),
        moreDdr: expect(moreDdr.get(table)),
      };
    });
}

/** Caches of one shard. */
interface ShardSize {
  readonly hbmBytes: number;
  readonly ddrBytes: number;
  /** Rows, as many of the table's as they would be were all shards alike. */
  readonly hbmRows: number;
  readonly ddrRows: number;
  /** Bytes of a whole row, if all its columns take the bytes that they take in this shard. */
  readonly rowBytes: number;
  /** Of the table's weights. */
  readonly share: number;
}

/** The caches of each table's shards, by its index. */
function sizesOf(
  topology: Topology,
  optimizer: SparseOptimizerSpec,
  tiers: TiersSpec,
): Map<number, ShardSize[]> {
  const { input, sliceRuns } = topology;
  const sizes = new Map<number, ShardSize[]>();
  for (const rank of sliceRuns.keys()) {
    const demands = cacheDemandsOf(topology, rank, optimizer);
    const hbm = cacheShapesOf(demands, tiers);
    const below = demands.map((one) => ({
      ...one,
      lookupsMax: Math.min(one.shard.rows, one.lookupsMax),
      plannedBytes: one.shard.cache?.ddrBytes,
    }));
    const ddr =
      tiers.ddrBytes === 0 ? [] : cacheShapesOf(below, { ...tiers, hbmBytes: tiers.ddrBytes });
    for (const [i, { shard, placeBytes }] of demands.entries()) {
      const { rows, dim } = tableOf(input.model.tables, shard.table);
      const places = (sets = 0) => Math.min(sets * cacheWays, shard.rows);
      const [inHbm, inDdr] = [places(hbm[i]?.sets), places(ddr[i]?.sets)];
      const scale = rows / shard.rows;
      const own = {
        hbmBytes: inHbm * placeBytes,
        ddrBytes: inDdr * placeBytes,
        hbmRows: inHbm * scale,
        ddrRows: inDdr * scale,
        rowBytes: (placeBytes * dim) / shard.columns,
        share: (shard.rows * shard.columns) / (rows * dim),
      };
      sizes.set(shard.table, [...(sizes.get(shard.table) ?? []), own]);
    }
  }
  return sizes;
}

/**
 * The DDR tier also keeps much of what lies above it: both together are reckoned as the larger of
 * the two, which they have at least.
 */
function expectationOf(curve: readonly MissPoint[], sizes: readonly ShardSize[]): TierExpectation {
  let [hbmBytes, ddrBytes, hbm, ssd] = [0, 0, 0, 0];
  for (const { share, hbmRows, ddrRows, ...bytes } of sizes) {
    hbmBytes += bytes.hbmBytes;
    ddrBytes += bytes.ddrBytes;
    hbm += share * (1 - missRatioAt(curve, hbmRows));
    ssd += share * missRatioAt(curve, Math.max(hbmRows, ddrRows));
  }
  return { hbmBytes, ddrBytes, hbm, ddr: Math.max(0, 1 - hbm - ssd), ssd };
}
