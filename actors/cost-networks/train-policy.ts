// A placement policy for a machine whose costs were learned: trained with tables of what was
// measured, in plans whose costs the cost networks say. No plan is measured for it.

import { openKernels } from "../../src/kernels/index.ts";
import type { CostNetworks } from "../../src/planner/learned/cost-networks.ts";
import { type CostTable, weightBytesOf } from "../../src/planner/learned/cost-table.ts";
import { trainDreamShard } from "../../src/planner/policies/dreamshard/train-dreamshard.ts";
import { networkCosts } from "../../src/planner/policies/network-costs.ts";
import type { PlacementPolicy } from "../../src/planner/policies/placement-policy.ts";
import type { PlacementTask, SizedTable } from "../../src/planner/policies/table-pool.ts";
import { purposes, RandomStream } from "../../src/ports/random.ts";
import type { MeasuredCosts } from "./cost-samples.ts";

export interface PolicyTrainingOptions {
  /** @default 1 */
  readonly seed?: number;
  /** Turns of measuring and learning. @default 10 */
  readonly turns?: number;
}

/** Tables that the training draws from at most: beyond, a turn takes longer and learns no more. */
const tablesMax = 500;
const tasksCount = 100;
/** Tables of a task, for each device. */
const tablesOfDevice = { least: 2, most: 12 } as const;

/** The same measurements, networks, seed and arithmetic give the same policy. */
export function trainPolicy(
  { compute, devices }: MeasuredCosts,
  networks: CostNetworks,
  { seed = 1, turns = 10 }: PolicyTrainingOptions = {},
): PlacementPolicy {
  const tables = distinct(compute.flatMap((cost) => cost.tables)).slice(0, tablesMax);
  const random = new RandomStream(seed, purposes.policyTasks);
  const tasks = Array.from({ length: tasksCount }, (): PlacementTask => {
    const { least, most } = tablesOfDevice;
    const count = devices * (least + random.below(most - least + 1));
    const drawn = Array.from({ length: count }, () => random.below(tables.length));
    // No limit of memory: which plans have room is known where a job is planned.
    return { tables: [...new Set(drawn)], room: { devices, bytes: Number.MAX_SAFE_INTEGER } };
  });
  const measure = networkCosts(networks, tables);
  return trainDreamShard(openKernels("auto"), { tables, tasks, measure }, { seed, turns });
}

/** Each table once, in order. */
function distinct(tables: readonly CostTable[]): SizedTable[] {
  const found = new Map<string, SizedTable>();
  for (const table of tables) {
    const name = JSON.stringify(table);
    if (!found.has(name)) found.set(name, { ...table, bytes: weightBytesOf(table) });
  }
  return [...found.values()];
}
