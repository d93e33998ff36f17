// The costs of tasks on a measured machine: seconds of each unit (task-units.ts), fitted to the
// tasks of small jobs by least squares of errors relative to the task and its step, with no cost
// below 0. And the seconds of a device's tasks by these costs.

import { z } from "zod";
import { stepTasks } from "../../../internal.ts";
import { leastSquares } from "./fit-step-costs.ts";
import type { TaskTimes } from "./task-times.ts";
import { type CostedTask, type TaskUnits, type Units, unitNames } from "./task-units.ts";

const seconds = z.number().min(0);

/** Names of tasks with costs; the early and the late blocks of a pass share one name. */
const costNames: ReadonlySet<string> = new Set([
  ...stepTasks,
  ...["between", "fetch", "forward", "backward"],
]);

const known: ReadonlySet<string> = new Set(unitNames);

/** Costs while `devices` devices of a host share its caches and memory. */
export const taskCostsSchema = z
  .strictObject({
    devices: z.int().min(1),
    /** The machine's level of speed at the measurement (machine-level.ts); left out: unknown. */
    level: seconds.optional(),
    /** By task, then by unit. */
    tasks: z.record(z.string(), z.record(z.string(), seconds)),
  })
  .superRefine(({ tasks }, context) => {
    // Refuses unknown names, because a misspelt task or unit would cost nothing.
    const refuse = (path: string[], of: string, input: unknown) => {
      const message = `left out, as ${of} of this name`;
      context.addIssue({ code: "custom", path: ["tasks", ...path], message, input });
    };
    for (const [name, costs] of Object.entries(tasks)) {
      if (!costNames.has(name)) refuse([name], "a step has no task", costs);
      for (const [unit, cost] of Object.entries(costs)) {
        if (!known.has(unit)) refuse([name, unit], "no task has a unit", cost);
      }
    }
  });

export type TaskCosts = z.output<typeof taskCostsSchema>;

/** A measured device of a probe: the units of its tasks, and the times that the tasks took. */
export interface MeasuredTasks {
  readonly units: TaskUnits;
  readonly times: TaskTimes;
}

/** Early and late blocks of a pass have the same costs. */
function costNameOf(task: string): string {
  return task.replace(/(?<=^forward|^backward)(Early|Late)$/, "");
}

/** Errors count relative to the task, or to this share of its step where the task is short. */
const stepShare = 0.05;

export function fitTaskCosts(devices: number, measured: readonly MeasuredTasks[]): TaskCosts {
  const found = new Map<string, { own: Units; took: number; weight: number }[]>();
  for (const { units, times } of measured) {
    const step = Object.values(times).reduce((sum, part) => sum + part, 0);
    for (const [task, own] of Object.entries(units)) {
      const took = times[task === "fetch" ? "wait.tiers" : task] ?? 0;
      const name = costNameOf(task);
      const one = { own, took, weight: 1 / (took + stepShare * step) };
      found.set(name, [...(found.get(name) ?? []), one]);
    }
  }
  const fitted = [...found].map(([task, all]) => {
    const of = unitNames.filter((unit) => all.some(({ own }) => own[unit] !== undefined));
    const costs = leastSquares(
      all.map(({ own, weight }) => of.map((unit) => weight * (own[unit] ?? 0))),
      all.map(({ took, weight }) => weight * took),
    );
    return [task, Object.fromEntries(of.map((unit, i) => [unit, costs[i] ?? 0]))] as const;
  });
  return { devices, tasks: Object.fromEntries(fitted) };
}

/** The seconds of a device's tasks. */
export function taskSeconds(
  { tasks }: TaskCosts,
  units: TaskUnits,
): Partial<Record<CostedTask, number>> {
  return Object.fromEntries(
    Object.entries(units).map(([task, own]) => {
      const costs = tasks[costNameOf(task)] ?? {};
      const all = Object.entries(own).map(([unit, count]) => count * (costs[unit] ?? 0));
      return [task, all.reduce((sum, part) => sum + part, 0)];
    }),
  );
}
