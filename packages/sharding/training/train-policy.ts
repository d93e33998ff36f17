// Trains a placement policy for a machine with cost networks: on tables of the measurements, with
// the networks' predictions as costs of plans. No plan is measured.

import {
  type CostTable,
  openKernels,
  purposes,
  RandomStream,
  weightBytesOf,
} from "../../../internal.ts";
import { trainAutoShard } from "../policies/autoshard/train-autoshard.ts";
import { trainDreamShard } from "../policies/dreamshard/train-dreamshard.ts";
import type { PlacementPolicy, PolicyMethod } from "../policies/placement-policy.ts";
import { dealt, type PlacementTask, type SizedTable } from "../policies/table-pool.ts";
import { type CostNetworks, networkCosts } from "../search/cost-networks.ts";
import type { MeasuredCosts } from "./cost-samples.ts";

export interface PolicyTrainingOptions {
  /** @default 1 */
  readonly seed?: number;
  /** @default "dreamshard" */
  readonly method?: PolicyMethod | undefined;
  /** Turns of measuring and learning; for AutoShard a turn is fifteen updates. @default 10 */
  readonly turns?: number;
}

/** Maximum number of tables in the pool: more tables make a turn longer without a better policy. */
const tablesMax = 500;
const tasksCount = 100;
/** Tables of a task per device; AutoShard's tasks must have equally many. */
const tablesOfDevice = { min: 2, max: 12, autoShard: 8 } as const;
const updatesOfTurn = 15;

/** Trains a policy. The same measurements, networks, seed and arithmetic give the same policy. */
export function trainPolicy(
  { compute, devices }: MeasuredCosts,
  networks: CostNetworks,
  { seed = 1, turns = 10, method = "dreamshard" }: PolicyTrainingOptions = {},
): PlacementPolicy {
  const tables = distinct(compute.flatMap((cost) => cost.tables)).slice(0, tablesMax);
  const random = new RandomStream(seed, purposes.policyTasks);
  const tasks = Array.from({ length: tasksCount }, (): PlacementTask => {
    const { min, max, autoShard } = tablesOfDevice;
    const drawn = min + random.below(max - min + 1);
    const count = devices * (method === "autoshard" ? autoShard : drawn);
    // No limit of memory: whether a plan fits is only known when a job is planned.
    return {
      tables: dealt(tables.length, count, random),
      room: { devices, bytes: Number.MAX_SAFE_INTEGER },
    };
  });
  const measure = networkCosts(networks, tables);
  const [kernels, subject] = [openKernels("auto"), { tables, tasks, measure }];
  return method === "autoshard"
    ? trainAutoShard(kernels, subject, { seed, updates: updatesOfTurn * turns })
    : trainDreamShard(kernels, subject, { seed, turns });
}

/** The distinct tables, in the order of their first occurrence. */
function distinct(tables: readonly CostTable[]): SizedTable[] {
  const found = new Map<string, SizedTable>();
  for (const table of tables) {
    const name = JSON.stringify(table);
    if (!found.has(name)) found.set(name, { ...table, bytes: weightBytesOf(table) });
  }
  return [...found.values()];
}
