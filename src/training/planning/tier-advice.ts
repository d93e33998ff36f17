// Predicts the benefit of more memory for the cached tables of a run: the share of row accesses
// that each tier serves with the present caches, and with one more GiB of each tier on every
// device. The prediction reads the miss curves that the run has counted (miss-curve.ts).

import { cacheShapesOf } from "../../embedding/rows/cache-sizes.ts";
import { curveWords, missCurveOf } from "../../embedding/rows/miss-curve.ts";
import type { SparseOptimizerSpec } from "../../embedding/tables/options.ts";
import type { TiersSpec } from "../../embedding/tables/tier-options.ts";
import { cacheWays } from "../../kernels/contract/row-cache.ts";
import { type MissPoint, missRatioAt } from "../../planner/cost/miss-curve.ts";
import type { DeviceState } from "../step/device-state.ts";
import { cacheDemandsOf } from "../topology/device-cache-sizes.ts";
import { type Topology, tableOf } from "../topology/topology.ts";

/** Memory of a table in each tier, and the expected share of row accesses that each tier serves. */
export interface TierExpectation {
  /** Over all devices. */
  readonly hbmBytes: number;
  readonly ddrBytes: number;
  /** Shares of the rows that batches need, by tier; they add up to 1. */
  readonly hbm: number;
  readonly ddr: number;
  /** Read from disk, or newly initialised. */
  readonly ssd: number;
}

/** Counts and expectations of a cached table. */
export interface TableTiers {
  readonly table: string;
  /** Counted distinct rows of batches, summed over the devices. */
  readonly accesses: number;
  /** Bytes of a row with its optimizer's state in a cache. */
  readonly rowBytes: number;
  /** Miss ratios of an LRU cache, by its size in rows. */
  readonly curve: readonly MissPoint[];
  readonly now: TierExpectation;
  /** With `moreBytes` more of `tiers.hbmBytes`, or of `tiers.ddrBytes`. */
  readonly moreHbm: TierExpectation;
  readonly moreDdr: TierExpectation;
}

/** The additional memory that the advice evaluates: one GiB. */
export const moreBytes: number = 2 ** 30;

/**
 * Writes the miss-curve counts of this device, table after table of the job (tables * curveWords).
 */
export function writeCurves({ slab, distinct }: DeviceState, words: Float64Array): void {
  words.fill(0);
  for (const { shard, reuse } of [slab, ...distinct.slabs].flatMap(({ cached }) => cached)) {
    const own = words.subarray(shard.table * curveWords, (shard.table + 1) * curveWords);
    for (let word = 0; word < curveWords; word++) {
      own[word] = (own[word] ?? 0) + (reuse.counts[word] ?? 0);
    }
  }
}

/** Adds up the counts of each table, without trailing zeros. */
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

/** Returns the expectations of each cached table; `hosts` has the counts of each table per host. */
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
  /** Cached rows, scaled from the shard to the whole table as if all shards were alike. */
  readonly hbmRows: number;
  readonly ddrRows: number;
  /** Bytes of a whole row, if each of its columns takes the bytes that it takes in this shard. */
  readonly rowBytes: number;
  /** Share of the table's weights that this shard holds. */
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
 * The DDR tier also holds many of the rows that device memory holds. Both together are therefore
 * counted as the larger of the two, a lower bound of the rows that they hold.
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
