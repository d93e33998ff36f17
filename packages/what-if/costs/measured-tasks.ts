// Seconds of the tasks of a device on a measured machine, by the costs of their units.

import { exactExchange, type StepTaskName } from "../../../internal.ts";
import type { DeviceCosts } from "../model.ts";
import { type TaskCosts, taskSeconds } from "../tasks/task-costs.ts";
import { repeatedBatches, taskUnitsOf } from "../tasks/task-units.ts";
import type { CostedCluster } from "./costed-job.ts";
import type { Ledger } from "./ledger.ts";

/** Tasks that read rows: their seconds are divided as the planner's costs are. */
const lookups = ["lookup", "lookupAhead", "lookupRest"] as const;

/**
 * Returns the function from a device to its tasks; undefined where the tasks of this kind of
 * machine were not measured. Checkpoints and the use of shared resources are those of the ledger.
 */
export function measuredTasksOf(
  cluster: CostedCluster,
  ledger: Ledger,
): ((rank: number) => DeviceCosts["tasks"]) | undefined {
  const { hardware, devices, setting, plan, job, graph, samples } = cluster;
  if (hardware.tasks === undefined) return undefined;
  // The only device of a host exchanges with other hosts, and so has the costs of two devices.
  const costs = costsOn(hardware.tasks, Math.max(devices.perHost, Math.min(2, devices.hosts)));
  const { exchange = exactExchange } = job;
  const repeated = repeatedBatches(job);
  const unitsOf = taskUnitsOf({ setting, plan, graph, exchange, samples, repeated });
  return (rank) => {
    const planned = ledger.tasksOf(rank);
    const { between = 0, fetch = 0, ...others } = taskSeconds(costs, unitsOf(rank));
    const seconds: Partial<Record<StepTaskName, number>> = { ...others };
    seconds.batch = (others.batch ?? 0) + between;
    const read = lookups.map((task) => planned[task]?.seconds ?? 0);
    const whole = read.reduce((sum, own) => sum + own, 0);
    if (whole > 0) {
      for (const [i, task] of lookups.entries()) {
        seconds[task] = ((others.lookup ?? 0) * (read[i] ?? 0)) / whole;
      }
    }
    const { checkpoint } = planned;
    const tasks = Object.entries(seconds).map(([task, own]) => {
      const { shared } = planned[task as StepTaskName] ?? {};
      const behind = task === "tiers" && fetch > 0 ? { behind: fetch } : {};
      return [task, { seconds: own, ...behind, ...(shared !== undefined && { shared }) }] as const;
    });
    return { ...Object.fromEntries(tasks), ...(checkpoint !== undefined && { checkpoint }) };
  };
}

/** The costs on the most devices up to this number that were measured. */
function costsOn(all: readonly TaskCosts[], devices: number): TaskCosts {
  const sorted = [...all].sort((a, b) => a.devices - b.devices);
  const found = sorted.filter((costs) => costs.devices <= devices).at(-1) ?? sorted[0];
  return found ?? { devices, tasks: {} };
}
