// The plan of a job: what the planner finds for it, what that means, and what of it a run does not
// do yet.

import { type Assessment, assessPlan } from "../planner/assess.ts";
import type { MachineConstants } from "../planner/constants.ts";
import type { Setting } from "../planner/cost.ts";
import { readPlan, writePlan } from "../planner/plan-file.ts";
import { type Relaxation, relaxations } from "../planner/relax.ts";
import { type Considered, searchPlan } from "../planner/search.ts";
import type { Devices, Plan } from "../planner/shards.ts";
import { type UnmetNeed, unmetNeeds } from "../planner/unmet.ts";
import { type PlannableJob, type WorkloadOptions, workloadOf } from "./workload.ts";

export interface PlanOptions extends WorkloadOptions {
  readonly devices: Devices;
  readonly constants: MachineConstants;
  /** A plan that is judged, instead of searching one. */
  readonly given?: { readonly text: string; readonly path: string } | undefined;
}

/** A plan and what it means; or, where none fits, why, and what would help. */
export type JobPlan =
  | {
      readonly isFeasible: true;
      readonly plan: Plan;
      /** The plan as a file has it, and its hash. */
      readonly text: string;
      readonly sha256: string;
      readonly assessment: Assessment;
      readonly considered: readonly Considered[];
      /** What a run would need to follow the plan, a sentence each; empty: a run does it. */
      readonly missing: readonly string[];
    }
  | {
      readonly isFeasible: false;
      readonly unmet: readonly UnmetNeed[];
      readonly relaxations: readonly Relaxation[];
    };

/**
 * Plans a job.
 * @throws InputUnusableError where a given plan is none for this job
 */
export function planJob(job: PlannableJob, options: PlanOptions): JobPlan {
  const { constants, given } = options;
  const workload = workloadOf(job, options);
  if (given !== undefined) {
    const plan = readPlan(given.text, given.path, workload.tables);
    return judged(job, { workload, devices: plan.devices, constants }, plan, []);
  }
  const setting = { workload, devices: options.devices, constants };
  const { best, considered } = searchPlan(setting);
  if (best !== undefined) return judged(job, setting, best.plan, considered);
  return { isFeasible: false, unmet: unmetNeeds(setting), relaxations: relaxations(setting) };
}

function judged(
  job: PlannableJob,
  setting: Setting,
  plan: Plan,
  considered: readonly Considered[],
): JobPlan {
  return {
    isFeasible: true,
    plan,
    ...writePlan(plan),
    assessment: assessPlan(setting, plan),
    considered,
    missing: missingFor(job, plan),
  };
}

/** What a run does not do yet. */
function missingFor(job: PlannableJob, plan: Plan): string[] {
  const missing: string[] = [];
  if (plan.shards.some((shard) => shard.tier === "cached")) {
    missing.push("Runs do not keep tables below memory yet");
  }
  const whole = new Set(
    job.model.tables.filter(({ l2Scope }) => l2Scope === "table").map(({ name }) => name),
  );
  for (const { table, device } of plan.shards) {
    if (device !== "all" && whole.has(table)) {
      missing.push(`The l2Scope of ${table} is "table": such a table is copied to every device`);
    }
  }
  return missing;
}
