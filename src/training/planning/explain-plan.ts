// Explains why a plan places each table as it does: the cost of its shards by stage, the cost of
// the next best sharding scheme, and how long the slowest device would take if a shard moved.

import type { Assessment } from "../../planner/assess.ts";
import { costOf, loadOf, type Setting, type StageSeconds } from "../../planner/cost/cost.ts";
import { enumerateOptions } from "../../planner/enumerate.ts";
import { deviceCount, type PlacedShard, type Plan, type Scheme } from "../../planner/shards.ts";

/** Costs that explain the placement of one table. */
export interface TableReasons {
  readonly table: string;
  readonly scheme: Scheme;
  /** Devices of its shards, ascending; empty: every device has a copy. */
  readonly devices: readonly number[];
  /** Seconds of all its shards that count in the score, and their breakdown by stage. */
  readonly cost: number;
  readonly stages: StageSeconds;
  /** The cheapest other sharding scheme, by the same sum; undefined: there is none. */
  readonly otherCut: { readonly scheme: Scheme; readonly cost: number } | undefined;
  /**
   * The best move of one of its shards to another device with room, and the plan's score after it;
   * undefined if no other device has room, or there is no shard to move.
   */
  readonly bestMove:
    | { readonly from: number; readonly to: number; readonly score: number }
    | undefined;
}

/** Returns the reasons for each table of the plan, in the job's order. */
export function explainPlan(setting: Setting, plan: Plan, assessment: Assessment): TableReasons[] {
  return setting.workload.tables.map((table): TableReasons => {
    const shards = plan.shards.filter((shard) => shard.table === table.name);
    const costs = shards.map((shard) => {
      const load = loadOf(setting, table, shard);
      return { shard, ...costOf(setting, table, shard.scheme, shard.tier, shard, load) };
    });
    const copies = ({ device }: PlacedShard) => (device === "all" ? deviceCount(plan.devices) : 1);
    const sumOf = (of: (one: (typeof costs)[number]) => number) =>
      costs.reduce((sum, one) => sum + copies(one.shard) * of(one), 0);
    const [first] = costs;
    const scheme = first?.shard.scheme ?? "table-wise";
    const names = Object.keys(first?.seconds ?? {}) as (keyof StageSeconds)[];
    const stages = names.map((name) => [name, sumOf(({ seconds }) => seconds[name])]);
    const other = enumerateOptions(setting, table).find((option) => option.scheme !== scheme);
    const devices = shards.flatMap(({ device }) => (device === "all" ? [] : [device]));
    return {
      table: table.name,
      scheme,
      devices: [...new Set(devices)].sort((a, b) => a - b),
      cost: sumOf(({ cost }) => cost),
      stages: Object.fromEntries(stages) as StageSeconds,
      otherCut: other && { scheme: other.scheme, cost: other.cost },
      bestMove: bestMoveOf(setting, assessment, costs),
    };
  });
}

/** Tries the move of each shard alone, and returns the move with the lowest score. */
function bestMoveOf(
  { constants }: Setting,
  { devices }: Assessment,
  shards: readonly {
    readonly shard: PlacedShard;
    readonly cost: number;
    readonly bytes: number;
  }[],
): TableReasons["bestMove"] {
  let best: TableReasons["bestMove"];
  for (const { shard, cost, bytes } of shards) {
    const from = shard.device;
    if (from === "all") continue;
    for (const [to, target] of devices.entries()) {
      if (to === from || target.bytes + bytes > constants.memoryBytes) continue;
      const score = devices.reduce((most, own, device) => {
        const change = device === from ? -cost : device === to ? cost : 0;
        return Math.max(most, own.cost + change);
      }, 0);
      if (best === undefined || score < best.score) best = { from, to, score };
    }
  }
  return best;
}
